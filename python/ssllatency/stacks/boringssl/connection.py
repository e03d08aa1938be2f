# SPDX-License-Identifier: Apache-2.0
"""The place where BoringSSL, and its descendant AWS-LC, store what a connection waits for, read out of SSL_get_error's code. It
is one of the codes that SSL_get_error returns, and lies in a structure to which SSL points. Programs link only those accessors
that they use, so SSL_get_error, which all of them need, shows where the BIOs lie as well."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Flow
from ssllatency.code.values import MASK, Assumptions, FieldPath, LoadedField, SymbolicAddress
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import field_returned

_CONNECTION = SymbolicAddress("argument", 0)
_NO_ERROR = {"ERR_peek_error": 0}
_WANT_READ, _WANT_WRITE = 2, 3
# SSL_ERROR_PENDING_SESSION to SSL_ERROR_PENDING_TICKET, whose numbers mean other things to OpenSSL.
_ITS_OWN = range(11, 15)
_MAX_OFFSET = 1 << 16
_RUN_HANDSHAKES = ("SSL_do_handshake", "SSL_accept", "SSL_connect")

Path = tuple[int, int]


_known: WeakKeyDictionary[Image, dict[str, int] | None] = WeakKeyDictionary()


def boringssl_offsets(image: Image) -> dict[str, int] | None:
    """Byte offsets by name: "boringssl" is the pointer in SSL to the structure that contains "rwstate"; "rbio" and "wbio",
    where they are clear, lie in SSL, and so does "server", of which the bits "server_bits" count. None for an image that isn't
    BoringSSL's. Every image is asked for them, some of them often."""
    if image not in _known:
        _known[image] = _offsets(image)
    return _known[image]


def _offsets(image: Image) -> dict[str, int] | None:
    function = image.function("SSL_get_error")
    path = _state(image, function.address) if function else None
    if function is None or path is None:
        return None
    bios = {
        "rbio": _bio(image, function.address, path, _WANT_READ, "SSL_get_rbio"),
        "wbio": _bio(image, function.address, path, _WANT_WRITE, "SSL_get_wbio"),
    }
    offsets = {
        "boringssl": path[0],
        "rwstate": path[1],
        **{name: offset for name, offset in bios.items() if offset is not None},
    }
    return {**offsets, **_server(image)}


def _state(image: Image, address: int) -> Path | None:
    """The one number behind a pointer that decides what a call that failed means, if it is one of BoringSSL's codes."""
    read = _followed(image, address).fields
    paths = {field.path for field in read if len(field.path) == 2 and field.size == 4}
    paths = {path for path in paths if all(0 <= offset < _MAX_OFFSET for offset in path) and _holds_codes(image, address, path)}
    state = paths.pop() if len(paths) == 1 else None
    return (state[0], state[1]) if state else None


def _holds_codes(image: Image, address: int, path: tuple[int, ...]) -> bool:
    """Whether SSL_get_error returns what is there, as BoringSSL does."""
    return all(_followed(image, address, {path: code}).results == [code] for code in _ITS_OWN)


def _bio(image: Image, address: int, path: Path, code: int, accessor: str) -> int | None:
    """The pointer in SSL that SSL_get_error passes on for this code, or that the accessor returns, if SSL_get_error calls the
    accessor."""
    calls = _followed(image, address, {path: code}).calls
    passed = {call.arguments[0] for call in calls if isinstance(call.arguments[0], LoadedField) and call.arguments[0].size == 8}
    paths = {field.path for field in passed if isinstance(field, LoadedField)}
    bio = paths.pop() if len(paths) == 1 else field_returned(image, accessor, 1) or ()
    return bio[0] if len(bio) == 1 and 0 <= bio[0] < _MAX_OFFSET else None


def _followed(image: Image, address: int, fields: dict[tuple[int, ...], int] | None = None) -> Evaluation:
    """SSL_get_error of a call that returned -1, with no error in the queue, where these fields hold these numbers."""
    return followed_in(image, address, Assumptions({"rdi": _CONNECTION, "rsi": MASK}, fields or {}, _NO_ERROR))


def boringssl_paths(image: Image) -> dict[str, FieldPath]:
    """The one path of label_paths() that is clear here: "in_init", a pointer to the data of a handshake that is under way.
    Empty where the program doesn't link SSL_in_init."""
    function, offsets = image.function("SSL_in_init"), boringssl_offsets(image)
    if function is None or offsets is None:
        return {}
    read = followed_in(image, function.address, Assumptions({"rdi": _CONNECTION})).fields
    paths = {field.path for field in read if len(field.path) == 2 and field.path[0] == offsets["boringssl"] and field.size == 8}
    path = paths.pop() if len(paths) == 1 else ()
    return {"in_init": FieldPath(path, 8)} if path and 0 <= path[1] < _MAX_OFFSET else {}


def _server(image: Image) -> dict[str, int]:
    """The bit that SSL_is_server returns; empty where that isn't one bit."""
    function = image.function("SSL_is_server")
    if function is None:
        return {}
    fields = [
        field
        for field in followed_in(image, function.address, Assumptions({"rdi": _CONNECTION})).fields
        if len(field.path) == 1
    ]
    if len(fields) != 1 or not 0 <= fields[0].path[0] < _MAX_OFFSET:
        return {}
    path, bits = fields[0].path, range(8 * fields[0].size)
    set_by = [
        bit
        for bit in bits
        if followed_in(image, function.address, Assumptions({"rdi": _CONNECTION}, {path: 1 << bit})).results == [1]
    ]
    # A word of 64 bits may be read for it: what is told of is the byte that it lies in.
    return {"server": path[0] + set_by[0] // 8, "server_bits": 1 << set_by[0] % 8} if len(set_by) == 1 else {}


def runs_handshakes_alone(image: Image, bodies: Bodies) -> bool:
    """Of BoringSSL, whether only SSL_do_handshake runs handshakes, beside SSL_accept and SSL_connect, so that reads and writes
    call it: it calls a function that only these three call, which a copy of it, inlined elsewhere, would call as well."""
    functions = [function for name in _RUN_HANDSHAKES if (function := image.function(name))]
    if not functions or functions[0].name != _RUN_HANDSHAKES[0]:
        return False
    try:
        nodes = bodies.graph(functions[0].address, functions[0].size).nodes.values()
    except Unplannable:
        return False
    targets = {node.target for node in nodes if node.flow is Flow.CALL and node.target is not None}
    own = {function.address for function in functions}
    return any(sites and bodies.functions(sites) <= own for sites in calls_to(image, targets).values())
