# SPDX-License-Identifier: Apache-2.0
"""Places of a WOLFSSL's state and labels, read out of the library's own accessors. What the code doesn't show, or shows with
room for doubt, is absent."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, SymbolicAddress
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import field_returned

# wolfssl/error-ssl.h and wolfssl/ssl.h: codes that a connection holds, and what wolfSSL_get_error makes of them.
WANT_READ, WANT_WRITE = -323, -327
_TOLD = {WANT_READ: 2, WANT_WRITE: 3}
X25519 = 365  # ECC_X25519_OID of wolfssl/wolfcrypt/asn.h, the sum of the bytes of its OID
HANDSHAKE_DONE = 16  # enum states of wolfssl/internal.h
_SESSION = SymbolicAddress("argument", 0)
_MAX_OFFSET = 1 << 16
_BYTE = 8  # bits
_Fields = dict[tuple[int, ...], int]


def connection_offsets(image: Image) -> dict[str, int]:
    """Byte offsets by the names of SslOffsets: "rwstate", of the code that says why the last call didn't succeed; "server", of
    which the bits "server_bits" are 0 in a server; "state", of the byte that says how far the handshake is; and "shutdown", of
    two bytes that are both 0 as it begins. Empty for an image that isn't wolfSSL."""
    return {**_error(image), **_side(image), **_state(image), **_steps(image)}


def label_paths(image: Image) -> dict[str, FieldPath]:
    """The paths by the label's name; a label whose path is uncertain is absent.

    "version" and "cipher" are the two bytes of TLS each, in their order, "group" is wolfSSL's number of a curve, 0 for
    none, "alert" the last one that was received, and two words behind it the last one that was sent, -1 for none.
    "descriptor" is a socket's, -1 where the application reads and writes itself.
    """
    paths = {
        "version": _version(image),
        "cipher": _only(image, "wolfSSL_get_current_cipher_suite", 2),
        "resumed": _resumed(image),
        "group": _group(image),
        "alert": _alert(image),
        "descriptor": _only(image, "wolfSSL_get_fd", 4),
    }
    return {name: path for name, path in paths.items() if path}


def _follow(image: Image, name: str, fields: _Fields | None = None) -> Evaluation | None:
    function = image.function(name)
    return followed_in(image, function.address, Assumptions({"rdi": _SESSION, "rsi": 0}, fields or {})) if function else None


def _own_fields(image: Image, name: str) -> list[LoadedField]:
    """The connection's own fields that an accessor reads, in their order."""
    evaluation = _follow(image, name)
    fields = evaluation.fields if evaluation else ()
    return sorted(
        (field for field in fields if len(field.path) == 1 and 0 < field.path[0] < _MAX_OFFSET), key=lambda field: field.path
    )


def _returns(image: Image, name: str, fields: _Fields, value: int) -> int:
    """On how many ways an accessor returns the value of a connection with these fields."""
    evaluation = _follow(image, name, fields)
    return sum(result == value for result in evaluation.results) if evaluation else 0


def _error(image: Image) -> dict[str, int]:
    """The code's place, if the accessor takes those for which this library is known for what they are."""
    path = field_returned(image, "wolfSSL_get_error", 1)
    told = path and all(_returns(image, "wolfSSL_get_error", {path: code % (1 << 32)}, kind) for code, kind in _TOLD.items())
    return {"rwstate": path[0]} if path and told else {}


def _bits(image: Image, name: str, value: int) -> Iterator[int]:
    """The bits of the one field that an accessor reads each of which makes it return the value: their numbers, counted from the
    connection's beginning."""
    fields = _own_fields(image, name)
    if len(fields) != 1:
        return
    (field,) = fields
    usual = _returns(image, name, {field.path: 0}, value)
    for bit in range(field.size * _BYTE):
        if _returns(image, name, {field.path: 1 << bit}, value) > usual:
            yield field.path[0] * _BYTE + bit


def _side(image: Image) -> dict[str, int]:
    bits = list(_bits(image, "wolfSSL_is_server", 0))
    if not 1 <= len(bits) <= 2 or bits[-1] - bits[0] > 1:  # two bits, the lower one of which says that it is a client
        return {}
    offset = bits[0] // _BYTE
    return {"server": offset, "server_bits": sum(1 << bit - offset * _BYTE for bit in bits)}


def _resumed(image: Image) -> FieldPath | None:
    bits = list(_bits(image, "wolfSSL_session_reused", 1))
    return FieldPath((bits[0] // _BYTE,), 1, 1 << bits[0] % _BYTE) if len(bits) == 1 else None


def _version(image: Image) -> FieldPath | None:
    """Two bytes beside each other, which wolfSSL_version looks at."""
    fields = _own_fields(image, "wolfSSL_version")
    if [field.size for field in fields] != [1, 1] or fields[1].path[0] != fields[0].path[0] + 1:
        return None
    return FieldPath(fields[0].path, 2)


def _only(image: Image, name: str, size: int) -> FieldPath | None:
    """The one field that an accessor reads, if it is of this size."""
    fields = _own_fields(image, name)
    return FieldPath(fields[0].path, size) if len(fields) == 1 and fields[0].size == size else None


def _group(image: Image) -> FieldPath | None:
    """The only field of four bytes at which wolfSSL_get_curve_name looks, if what it calls X25519 has the number for which this
    library is known."""
    accessor = "wolfSSL_get_curve_name"
    fields = _own_fields(image, accessor)
    curves = [field for field in fields if field.size == 4]
    if len(curves) != 1:
        return None
    known = {field.path: 0 for field in fields} | {curves[0].path: X25519}
    evaluation = _follow(image, accessor, known)
    texts = {image.text(result) for result in evaluation.results if isinstance(result, int)} if evaluation else set()
    return FieldPath(curves[0].path, 4) if "X25519" in texts else None


def _alert(image: Image) -> FieldPath | None:
    """The first of the words that wolfSSL_get_alert_history hands out."""
    function, output = image.function("wolfSSL_get_alert_history"), SymbolicAddress("output", 0)
    if function is None:
        return None
    stores = followed_in(image, function.address, Assumptions({"rdi": _SESSION, "rsi": output})).stores
    words = {place.offset: value for place, value in stores if place.base == output.base}
    received, sent = words.get(0), words.get(8)
    if not isinstance(received, LoadedField) or not isinstance(sent, LoadedField) or len(received.path) != 1:
        return None
    beside = received.size == sent.size == 8 and sent.path == (received.path[0] + 8,)
    return FieldPath(received.path, 4) if beside and 0 < received.path[0] < _MAX_OFFSET else None


def _state(image: Image) -> dict[str, int]:
    """The byte that makes wolfSSL_is_init_finished say so where it has the number of a handshake that is done."""
    accessor = "wolfSSL_is_init_finished"
    found = []
    for field in _own_fields(image, accessor):
        ways = [_returns(image, accessor, {field.path: HANDSHAKE_DONE + step}, 1) for step in (-1, 0, 1)]
        if field.size == 1 and ways[1] > ways[0] == ways[2]:
            found.append(field.path)
    return {"state": found[0][0]} if len(found) == 1 else {}


def _steps(image: Image) -> dict[str, int]:
    """The bytes with a client's and a server's next step, beside each other, in which wolfSSL_SSL_in_connect_init sees whether
    a handshake has begun and isn't over."""
    accessor = "wolfSSL_SSL_in_connect_init"
    begun = [field.path[0] for field in _own_fields(image, accessor) if field.size == 1 and _tells_step(image, accessor, field)]
    return {"shutdown": begun[0]} if len(begun) == 2 and begun[1] == begun[0] + 1 else {}


def _tells_step(image: Image, accessor: str, field: LoadedField) -> bool:
    before, begun, over = (_returns(image, accessor, {field.path: step}, 1) for step in (0, 1, 0xFF))
    return begun > before == over
