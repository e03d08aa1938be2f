# SPDX-License-Identifier: Apache-2.0
"""Places of a connection's labels (version, cipher, group and others), read out of the library's own accessors. Every
path starts at the SSL * of a plain connection, as the application has it. It comes from the file's code alone, never from a
table of versions; what the code doesn't show, or shows in a way that leaves room for doubt, is absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ssllatency.code.evaluation import Evaluation
from ssllatency.code.values import MASK, Assumptions, FieldPath, LoadedField, OutgoingCall, SymbolicAddress
from ssllatency.elf.image import ElfError, Image
from ssllatency.stacks.openssl.accessors import field_set
from ssllatency.stacks.openssl.connection import Accessors, UnclearError, only
from ssllatency.stacks.openssl.signatures import code_point_offset

# Commands of SSL_ctrl: include/openssl/ssl.h.
_GET_CHAIN, _GET_MAX_VERSION, _GET_SIGNATURE_NID, _GET_NEGOTIATED_GROUP = 115, 131, 132, 134
_CONNECTION = SymbolicAddress("argument", 0)
_HOST_NAME = 0  # TLSEXT_NAMETYPE_host_name: include/openssl/tls1.h
_SERVER_NAME, _ALPN = "SSL_get_servername", "SSL_get0_alpn_selected"
_STATELESS, _INT_MINUS_1 = "SSL_stateless", 0xFFFFFFFF
_FIRST_OUTPUT, _SECOND_OUTPUT = SymbolicAddress("first output", 0), SymbolicAddress("second output", 0)
QUIC_SETTER = "SSL_set_quic_method"  # of quictls, LibreSSL, BoringSSL and AWS-LC
_NO_GROUP = "SSL_ctrl doesn't show the negotiated group"


def label_paths(image: Image) -> dict[str, FieldPath]:
    """The paths by the label's name; a label whose path is uncertain is absent.

    "version", "in_init", "hand_state", "resumed", "verify_mode" and "verify_result" are numbers as the accessors return them,
    "ctx", "session", "peer_certificate" and "waitctx" pointers. "cipher" is the number that SSL_CIPHER_get_id returns,
    "signature" the TLS code point of the algorithm that this side signs with. The group's code point is "group_tls13" where the
    version is TLS 1.3 and "did_kex" isn't 0, else "group_session".

    "server_name" and "server_name_session" point to the name that the client asked for, which ends in a zero byte; the latter
    counts where it isn't NULL and the session was resumed in a version before TLS 1.3. "alpn" points to the protocol that was
    agreed on, of "alpn_length" bytes. "hello_retry" is 0 where there was no HelloRetryRequest; else, in a server,
    1 until the ClientHello has come that it asked for, and 2 from then on, in a client 1. "max_version" is the latest version
    that is allowed, 0 for any that the library has, and "options" what SSL_get_options returns, which may forbid more.

    "certificate" points to the X509 that a server serves, once it has chosen it, and "chain" to the stack of those that it
    sends with it where the application has given them with the certificate. The private key lies beside them, and isn't looked
    for. "quic_functions" points to those by which an application takes the library's messages itself, for QUIC, in
    libraries that have QUIC_SETTER.
    """
    try:
        accessors = Accessors(image)
    except (UnclearError, ElfError):
        return {}
    paths = {name: _path(accessors, source) for name, source in _LABELS.items()}
    return {name: path for name, path in paths.items() if path}


def _path(accessors: Accessors, source: _Source) -> FieldPath | None:
    try:
        field = source(accessors)
    except (UnclearError, ElfError):
        return None
    return FieldPath(field.path, field.size)


def _session(accessors: Accessors) -> LoadedField:
    return accessors.returned("SSL_get_session")


def _in_session(accessors: Accessors, *names: str) -> LoadedField:
    """The pointer in the session that the first of these accessors returns."""
    field = accessors.returned(*names, depth=2)
    if field.path[:1] != _session(accessors).path:
        raise UnclearError(f"{names[0]} doesn't look into the session")
    return field


def _cipher(accessors: Accessors) -> LoadedField:
    number = accessors.returned("SSL_CIPHER_get_id", size=4)
    return LoadedField(_in_session(accessors, "SSL_get_current_cipher").path + number.path, number.size)


def _peer_certificate(accessors: Accessors) -> LoadedField:
    return _in_session(accessors, "SSL_get0_peer_certificate", "SSL_get_peer_certificate")


def _group_tls13(accessors: Accessors) -> LoadedField:
    return only((field for field in _group_fields(accessors) if len(field.path) == 1), _NO_GROUP)


def _group_session(accessors: Accessors) -> LoadedField:
    session = _session(accessors).path
    return only((field for field in _group_fields(accessors) if field.path[:-1] == session), _NO_GROUP)


def _group_fields(accessors: Accessors) -> set[LoadedField]:
    """The fields that SSL_ctrl has translated from a code point to a number of its own, all by the same function."""
    calls = [call for call in accessors.control(_GET_NEGOTIATED_GROUP).calls if isinstance(call.arguments[0], LoadedField)]
    fields = {call.arguments[0] for call in calls if isinstance(call.arguments[0], LoadedField)}
    if len({call.target for call in calls}) != 1 or len(fields) != 2 or {len(field.path) for field in fields} != {1, 2}:
        raise UnclearError(_NO_GROUP)
    return fields


def _did_kex(accessors: Accessors) -> LoadedField:
    """The one flag in the connection that SSL_ctrl tests before it reads the group from the connection."""
    _group_tls13(accessors)
    fields = accessors.control(_GET_NEGOTIATED_GROUP).fields
    return only((field for field in fields if len(field.path) == 1 and field.size == 1), _NO_GROUP)


def _signature(accessors: Accessors) -> LoadedField:
    key = accessors.stored_by("SSL_get_signature_type_nid")
    digest = accessors.stored(accessors.control(_GET_SIGNATURE_NID), "SSL_ctrl doesn't show the signature's hash")
    if len(key.path) < 2 or digest.path[:-1] != key.path[:-1]:
        raise UnclearError("the signature's hash and kind of key don't lie side by side")
    offset = code_point_offset(accessors.image, digest.path[-1], key.path[-1])
    if offset is None:
        raise UnclearError("the library's table of signature algorithms doesn't show it")
    return LoadedField((*key.path[:-1], offset), 2)


def _server_name(accessors: Accessors) -> LoadedField:
    """The name in the connection: all that is returned, once a server's handshake has begun, where no session is resumed."""
    returned = _server_names(accessors, resumed=0)
    return only(returned, f"{_SERVER_NAME} doesn't simply return it", 8, 1)


def _server_name_session(accessors: Accessors) -> LoadedField:
    """The name in the session: the one more that is returned where it is."""
    returned = _server_names(accessors, resumed=1) - {_server_name(accessors)}
    field = only(returned, f"{_SERVER_NAME} doesn't simply return it", 8, 2)
    if field.path[:1] != _session(accessors).path:
        raise UnclearError(f"{_SERVER_NAME} doesn't look into the session")
    return field


def _server_names(accessors: Accessors, resumed: int) -> set[LoadedField]:
    server, reused = (accessors.returned(name, size=4).path for name in ("SSL_is_server", "SSL_session_reused"))
    fields = {server: 1, reused: resumed}
    results = accessors.follow_in(_SERVER_NAME, Assumptions({"rsi": _HOST_NAME}, fields, {"SSL_in_before": 0})).results
    if not all(isinstance(value, LoadedField) or value in (0, _CONNECTION) for value in results):  # itself, where it is NULL
        raise UnclearError(f"{_SERVER_NAME} may return something else")
    return {value for value in results if isinstance(value, LoadedField)}


def _alpn(accessors: Accessors) -> LoadedField:
    return _alpn_stored(accessors, _FIRST_OUTPUT, 8)


def _alpn_length(accessors: Accessors) -> LoadedField:
    """The field beside the pointer. It may be wider than what is stored of it."""
    length, text = _alpn_stored(accessors, _SECOND_OUTPUT, 4), _alpn(accessors)
    if length.path[:-1] != text.path[:-1] or length.path == text.path:
        raise UnclearError(f"{_ALPN} doesn't store a pointer and its length")
    return length


def _alpn_stored(accessors: Accessors, output: SymbolicAddress, size: int) -> LoadedField:
    stores = accessors.follow(_ALPN, rsi=_FIRST_OUTPUT, rdx=_SECOND_OUTPUT).stores
    values = {value for place, value in stores if place == output} - {0}
    if not all(isinstance(value, LoadedField) for value in values):
        raise UnclearError(f"{_ALPN} may store something else")
    return only((value for value in values if isinstance(value, LoadedField)), f"{_ALPN} doesn't simply store it", size)


def _hello_retry(accessors: Accessors) -> LoadedField:
    """The number that SSL_stateless looks at where SSL_accept fails: it returns -1 then, but asks first whether that was an
    error where the number is 1."""

    def follow(fields: Mapping[tuple[int, ...], int]) -> Evaluation:
        return accessors.follow_in(_STATELESS, Assumptions({}, fields, {"SSL_clear": 1, "SSL_accept": MASK}))

    def decides(field: LoadedField) -> bool:
        none, pending, *others = (follow({field.path: value}) for value in range(4))
        returns = set(none.results)
        usual = _course(none) < _course(pending) and all(_course(way) == _course(none) for way in others)
        return usual and _INT_MINUS_1 in returns and returns <= {0, _INT_MINUS_1}

    numbers = {field for field in follow({}).fields if len(field.path) == 1 and field.size == 4}
    return only(filter(decides, numbers), f"{_STATELESS} doesn't simply look at one number")


def _max_version(accessors: Accessors) -> LoadedField:
    results = (field for field in accessors.follow("SSL_ctrl", rsi=_GET_MAX_VERSION).results if isinstance(field, LoadedField))
    return only(results, "SSL_ctrl doesn't simply return it", 4, 1)


def _options(accessors: Accessors) -> LoadedField:
    results = (field for field in accessors.follow("SSL_get_options").results if isinstance(field, LoadedField))
    return only(results, "SSL_get_options doesn't simply return it", 0, 1)


def _course(evaluation: Evaluation) -> frozenset[OutgoingCall | LoadedField]:
    """The calls and reads of the function on its ways."""
    return frozenset((*evaluation.calls, *evaluation.fields))


def _waitctx(accessors: Accessors) -> LoadedField:
    names = ("SSL_get_all_async_fds", "SSL_get_changed_async_fds")
    return only({accessors.passed(name) for name in names}, f"{names[0]} and {names[1]} don't agree", 8, 1)


def _certificate(accessors: Accessors) -> LoadedField:
    return accessors.returned("SSL_get_certificate", depth=3)


def _chain(accessors: Accessors) -> LoadedField:
    """The pointer that SSL_get0_chain_certs stores for its caller: beside that to the certificate, in the same structure."""
    stores = accessors.control(_GET_CHAIN).stores
    values = {value for place, value in stores if place == SymbolicAddress("output", 0)}
    certificate = _certificate(accessors)
    chain = only((value for value in values if isinstance(value, LoadedField)), "SSL_ctrl doesn't simply store it", 8, 3)
    if len(values) != 1 or chain.path[:-1] != certificate.path[:-1] or chain.path == certificate.path:
        raise UnclearError("SSL_ctrl doesn't store the chain beside the certificate")
    return chain


def _quic_functions(accessors: Accessors) -> LoadedField:
    path = field_set(accessors.image, QUIC_SETTER)
    if path is None:
        raise UnclearError(f"{QUIC_SETTER} doesn't simply store it, or there is none")
    return LoadedField(path.offsets, path.size)


_Source = Callable[[Accessors], LoadedField]
_LABELS: dict[str, _Source] = {
    "version": lambda accessors: accessors.version,
    "in_init": lambda accessors: accessors.returned("SSL_in_init", size=4),
    "hand_state": lambda accessors: accessors.returned("SSL_get_state", size=4),
    "resumed": lambda accessors: accessors.returned("SSL_session_reused", size=4),
    "verify_mode": lambda accessors: accessors.returned("SSL_get_verify_mode", size=4),
    "verify_result": lambda accessors: accessors.returned("SSL_get_verify_result"),
    "ctx": lambda accessors: accessors.returned("SSL_get_SSL_CTX"),
    "session": _session,
    "cipher": _cipher,
    "peer_certificate": _peer_certificate,
    "group_tls13": _group_tls13,
    "group_session": _group_session,
    "did_kex": _did_kex,
    "signature": _signature,
    "waitctx": _waitctx,
    "server_name": _server_name,
    "server_name_session": _server_name_session,
    "alpn": _alpn,
    "alpn_length": _alpn_length,
    "hello_retry": _hello_retry,
    "max_version": _max_version,
    "options": _options,
    "certificate": _certificate,
    "chain": _chain,
    "quic_functions": _quic_functions,
}
