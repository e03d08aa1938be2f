# SPDX-License-Identifier: Apache-2.0
"""Offsets in OpenSSL's structures, read out of the library's own accessor functions, and the version that it states."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ssllatency.code.evaluate import followed, returned
from ssllatency.code.returns import returned_address
from ssllatency.code.values import FieldPath, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import Image

_SSL_ACCESSORS = {
    "version": "SSL_version",
    "rwstate": "SSL_want",
    "server": "SSL_is_server",
    "rbio": "SSL_get_rbio",
    "wbio": "SSL_get_wbio",
    "shutdown": "SSL_get_shutdown",
    "hand_state": "SSL_get_state",
    "session": "SSL_get_session",
    "reused": "SSL_session_reused",
}
_MAX_OFFSET = 1 << 16
_OF_CONNECTION: Mapping[tuple[int, ...], int] = {(0,): 0}  # since OpenSSL 3.2: SSL_TYPE_SSL_CONNECTION
# include/openssl/bio.h
BIO_TYPE_SOCKET = 0x505
_BIO_C_GET_FD = 105
_VERSION = re.compile(rb"OpenSSL \d+\.\d+\.\d+[-+.\w]* +\d{1,2} [A-Z][a-z]{2} \d{4}(?=\0)")
_LONGEST_VERSION = 80


def ssl_offsets(image: Image) -> dict[str, int]:
    """Byte offsets by name; a name that could not be read is missing.

    "version", "rwstate", "server", "rbio", "wbio", "shutdown", "hand_state", "state", "session" and "reused" lie in SSL (since
    OpenSSL 3.2 SSL_CONNECTION), "cipher" in the SSL_SESSION that "session" points to. "state" is that of the handshake's
    message flow. Empty for an image that has no such accessors.
    """
    paths = {name: field_returned(image, accessor, 1) for name, accessor in _SSL_ACCESSORS.items()}
    offsets = {name: path[0] for name, path in paths.items() if path}
    state = _state(image, offsets.get("hand_state"))
    if state is not None:
        offsets["state"] = state
    cipher = field_returned(image, "SSL_get_current_cipher", 2)
    if cipher and cipher[0] == offsets.get("session"):
        offsets["cipher"] = cipher[1]
    return offsets


def bio_flags_offset(image: Image) -> int | None:
    """The byte offset of the flags in BIO, from BIO_test_flags; None where the image doesn't define or show it."""
    path = field_returned(image, "BIO_test_flags", 1)
    return path[0] if path else None


def bio_offsets(image: Image) -> dict[str, int]:
    """The offsets at which a BIO of type BIO_TYPE_SOCKET keeps its method, whose first word is the type, and its descriptor:
    "bio_method" and "bio_descriptor". Empty where the image doesn't show both, or the type isn't the one that OpenSSL's headers
    have."""
    method = field_returned(image, "BIO_method_type", 2)
    descriptor = _socket_descriptor(image)
    if method is None or method[1] or descriptor is None:
        return {}
    return {"bio_method": method[0], "bio_descriptor": descriptor}


def _socket_descriptor(image: Image) -> int | None:
    """The field that BIO_s_socket's control function stores for BIO_C_GET_FD."""
    source, control = image.function("BIO_s_socket"), field_returned(image, "BIO_meth_get_ctrl", 1)
    table = returned_address(image, source.address) if source else None
    target = image.pointer(table + control[0]) if table and control else None
    if table is None or target is None or image.constant(table, 4) != BIO_TYPE_SOCKET:
        return None
    arguments: dict[str, Value] = {
        "rdi": SymbolicAddress("argument", 0),
        "rsi": _BIO_C_GET_FD,
        "rcx": SymbolicAddress("output", 0),
    }
    stores = followed(image, target, arguments).stores
    values = {value for place, value in stores if place == arguments["rcx"]}
    value = values.pop() if len(values) == 1 else None
    known = isinstance(value, LoadedField) and value.whole and value.size == 4 and len(value.path) == 1
    return value.path[0] if known and isinstance(value, LoadedField) and 0 <= value.path[0] < _MAX_OFFSET else None


def field_returned(image: Image, accessor: str, depth: int) -> tuple[int, ...] | None:
    """The field, `depth` pointers from the first argument, that `accessor` returns; None if it isn't exactly one. Since OpenSSL
    3.2 an accessor first reads the first word, the object's type, which doesn't count as a result, and may return another field
    of a QUIC object: then it is asked for what it returns of a connection, whose type is 0."""
    function = image.function(accessor)
    if function is None:
        return None
    argument = SymbolicAddress("argument", 0)
    return _one_field(returned(image, function.address, rdi=argument), depth) or _one_field(
        followed(image, function.address, {"rdi": argument}, _OF_CONNECTION).results, depth
    )


def field_set(image: Image, setter: str) -> FieldPath | None:
    """The pointer in the first argument's structure, a plain connection's, that `setter` sets to its second argument; None
    where it isn't exactly one."""
    function, value = image.function(setter), SymbolicAddress("value", 0)
    if function is None:
        return None
    connection = SymbolicAddress("argument", 0)
    for fields in (dict[tuple[int, ...], int](), _OF_CONNECTION):
        stores = followed(image, function.address, {"rdi": connection, "rsi": value}, fields).stores
        offsets = {place.offset for place, stored in stores if stored == value and place.base == connection.base}
        if len(offsets) == 1 and 0 < (offset := offsets.pop()) < _MAX_OFFSET:
            return FieldPath((offset,), 8)
    return None


def _one_field(values: Collection[Value | None], depth: int) -> tuple[int, ...] | None:
    paths = {field.path for field in values if isinstance(field, LoadedField) and len(field.path) == depth}
    paths = {path for path in paths if any(path)} or paths
    path = paths.pop() if len(paths) == 1 else None
    return path if path and all(0 <= offset < _MAX_OFFSET for offset in path) else None


def _state(image: Image, hand_state: int | None) -> int | None:
    """The message flow's state: the field beside the handshake's own state that SSL_in_before looks at. It returns neither."""
    function = image.function("SSL_in_before")
    if function is None or hand_state is None:
        return None
    for fields in (dict[tuple[int, ...], int](), _OF_CONNECTION):
        read = followed(image, function.address, {"rdi": SymbolicAddress("argument", 0)}, fields).fields
        offsets = {field.path[0] for field in read if len(field.path) == 1} - {0, hand_state}
        if len(offsets) == 1:
            return offsets.pop()
    return None


def stated_version(image: Image) -> str:
    """The name and version that the library states, as "OpenSSL 3.0.19 27 Jan 2026" or "BoringSSL"; "" if it doesn't."""
    function = image.function("OpenSSL_version")
    stated = returned_address(image, function.address, rdi=0) if function else None
    text = image.text(stated) if stated else ""
    return text or _version_in_data(image)


def _version_in_data(image: Image) -> str:
    for _, piece in image.pieces(_LONGEST_VERSION):
        match = _VERSION.search(piece)
        if match:
            return match[0].decode("ascii")
    return ""
