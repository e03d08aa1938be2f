# SPDX-License-Identifier: Apache-2.0
"""Offsets of the application's callbacks in libssl's structures, read out of the functions that set them."""

from __future__ import annotations

from ssllatency.code.evaluate import followed
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.returns import returned_address
from ssllatency.code.values import LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import ElfError, Image
from ssllatency.errors import phrase
from ssllatency.stacks.openssl.connection import Accessors, UnclearError

_CTX, _CALLBACK = SymbolicAddress("argument", 0), SymbolicAddress("callback", 0)
_MAX_OFFSET = 1 << 16
_METHODS = ("TLS_method", "TLS_server_method", "TLS_client_method")
# By the field's name in OpenSSL's source, the command of SSL_CTX_callback_ctrl that sets it: SSL_CTRL_SET_TLSEXT_SERVERNAME_CB
# and SSL_CTRL_SET_TLSEXT_STATUS_REQ_CB of include/openssl/tls1.h.
_COMMANDS = {"servername_cb": 53, "status_cb": 63}
# The keys of tickets come from whichever is set of two callbacks: by SSL_CTRL_SET_TLSEXT_TICKET_KEY_CB, or since OpenSSL 3.0 by
# this function.
_TICKET_KEY_COMMAND, _TICKET_KEY_SETTER = 72, "SSL_CTX_set_tlsext_ticket_key_evp_cb"
# By the field's name, the function that sets it in SSL_CTX.
_SETTERS = {
    "alpn_select_cb": "SSL_CTX_set_alpn_select_cb",
    "client_hello_cb": "SSL_CTX_set_client_hello_cb",
    "app_verify_callback": "SSL_CTX_set_cert_verify_callback",
    "new_session_cb": "SSL_CTX_sess_set_new_cb",
}
TICKET_KEY = "ticket_key_cb"
NAMES = ("cert_cb", *_COMMANDS, *_SETTERS, TICKET_KEY)

# The offset of a pointer in SSL, and of the callback behind that pointer; where one call is of several callbacks, of each.
CallbackPath = tuple[int, ...]


def callback_paths(image: Image) -> dict[str, CallbackPath | str]:
    """By name, the path from the SSL * to the callback, or why it can't be determined (a phrase)."""
    try:
        accessors = Accessors(image)
    except (UnclearError, ElfError) as problem:
        return dict.fromkeys(NAMES, phrase(problem))
    return {name: _finding(accessors, name) for name in NAMES}


def _finding(accessors: Accessors, name: str) -> CallbackPath | str:
    try:
        if name == TICKET_KEY:
            return (_session_ctx(accessors), *_ticket_keys(accessors.image))
        if name == "cert_cb":
            path = _stored(accessors.follow("SSL_set_cert_cb", rsi=_CALLBACK), name)
        elif name == "new_session_cb":
            path = (_session_ctx(accessors), *_in_ctx(accessors.image, name))
        else:
            path = (*accessors.returned("SSL_get_SSL_CTX").path, *_in_ctx(accessors.image, name))
    except (UnclearError, ElfError) as problem:
        return phrase(problem)
    if len(path) != 2 or not all(0 <= offset < _MAX_OFFSET for offset in path):
        return f"{name} isn't where it is known to be"
    return path[0], path[1]


def _session_ctx(accessors: Accessors) -> int:
    """The offset of the SSL_CTX whose session cache is searched. It stays the same when the server name callback changes the
    connection's SSL_CTX."""
    fields = accessors.follow("SSL_has_matching_session_id").fields
    pointers = {field.path[0] for field in fields if len(field.path) == 2}
    if len(pointers) != 1:
        raise UnclearError("SSL_has_matching_session_id doesn't simply look into one SSL_CTX")
    return pointers.pop()


def _in_ctx(image: Image, name: str) -> tuple[int, ...]:
    return _set_by_command(image, _COMMANDS[name], name) if name in _COMMANDS else _set_by(image, _SETTERS[name], name)


def _set_by_command(image: Image, command: int, name: str) -> tuple[int, ...]:
    arguments: dict[str, Value] = {"rdi": _CTX, "rsi": command, "rdx": _CALLBACK}
    return _stored(followed(image, _control(image, arguments), arguments), name)


def _set_by(image: Image, setter: str, name: str) -> tuple[int, ...]:
    function = image.function(setter)
    if function is None:
        raise UnclearError(f"the library has no {setter}")
    return _stored(followed(image, function.address, {"rdi": _CTX, "rsi": _CALLBACK}), name)


def _ticket_keys(image: Image) -> tuple[int, ...]:
    """The offsets in SSL_CTX of the two callbacks; of one where the library has no other."""
    newer = _set_by(image, _TICKET_KEY_SETTER, TICKET_KEY) if image.function(_TICKET_KEY_SETTER) else ()
    try:
        older = _set_by_command(image, _TICKET_KEY_COMMAND, TICKET_KEY)
    except UnclearError:  # a library without what is deprecated since 3.0
        older = ()
    if len(newer) > 1 or len(older) > 1 or not all(0 <= offset < _MAX_OFFSET for offset in (*newer, *older)):
        raise UnclearError(f"{TICKET_KEY} isn't where it is known to be")
    if not newer and not older:
        raise UnclearError(f"what sets {TICKET_KEY} doesn't simply store it")
    return (*newer, *older)


def _control(image: Image, arguments: dict[str, Value]) -> int:
    """The function of the method to which SSL_CTX_callback_ctrl passes its arguments."""
    function = image.function("SSL_CTX_callback_ctrl")
    makers = (image.function(name) for name in _METHODS)
    tables = [returned_address(image, maker.address) for maker in makers if maker]
    if function is None or not tables or tables[0] is None:
        raise UnclearError("the library has no SSL_CTX_callback_ctrl, or no method that can be read")
    read = followed(image, function.address, arguments).fields
    slots = {field.path[1] for field in read if len(field.path) == 2}
    target = image.pointer(tables[0] + slots.pop()) if len(slots) == 1 else None
    if target is None or not image.executable(target):
        raise UnclearError("SSL_CTX_callback_ctrl doesn't simply pass its commands on")
    return target


def _stored(evaluation: Evaluation, name: str) -> tuple[int, ...]:
    """The path of the one field that the callback is stored in."""
    places = {place for place, value in evaluation.stores if value == _CALLBACK}
    paths = {(*(place.base.path if isinstance(place.base, LoadedField) else ()), place.offset) for place in places}
    if len(paths) != 1:
        raise UnclearError(f"what sets {name} doesn't simply store it")
    return paths.pop()
