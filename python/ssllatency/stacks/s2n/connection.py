# SPDX-License-Identifier: Apache-2.0
"""Places of an s2n connection's state and labels, and of the error of the last call, read out of the library's own functions.

What the code doesn't show, or shows with room for doubt, is absent. Of programs that s2n-tls is linked into, as Rust's are, the
linker leaves out those of its accessors that nothing calls.
"""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.code.evaluate import followed, followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import field_returned
from ssllatency.stacks.s2n.thread_local import errno_place
from ssllatency.stacks.texts import pointers_to_text

_CONNECTION, _FIRST, _SECOND = (SymbolicAddress(base, 0) for base in ("argument", "first output", "second output"))
_MAX_OFFSET = 1 << 16
_WORD = 4  # bytes of an enum, and of a stuffer's cursors
_STUFFER = 64  # bytes of a stuffer, at most: its memory's address comes first, and then the cursors
_TLS1_2, _TLS1_3 = 33, 34
_NEGOTIATED, _FULL = 1, 2  # bits of a handshake's type, of tls/s2n_handshake_type.h
_EXTERNAL = 1  # s2n_psk_type of api/s2n.h, 0 of which is a session's
_RESUMED, _CHECK = "s2n_connection_is_session_resumed", "s2n_handshake_type_check_flag"
_READS_FROM = "s2n_connection_get_read_fd"
_CURVES = {b"secp256r1": 23, b"secp384r1": 24, b"x25519": 29}
_KEM_GROUPS = {b"SecP256r1MLKEM768": 4587, b"X25519MLKEM768": 4588}
_GROUP = 24  # bytes of a group that are looked at
_MOST_PLACES = 32  # pointers to a text


def connection_offsets(image: Image) -> dict[str, int]:
    """Byte offsets by the names of SslOffsets.

    "rwstate" is how far from the thread pointer s2n_errno lies; only where that is the same in each process, as in a program.
    "server" is the connection's mode, 0 for a server. "shutdown" are two numbers, one behind the other: up to where its output
    is sent, and written. "state" is how many bytes were sent.
    """
    places = {
        "rwstate": errno_place(image),
        "server": _mode(image),
        "shutdown": _pending_output(image),
        "state": _bytes_sent(image),
    }
    return {name: place for name, place in places.items() if place is not None}


def label_paths(image: Image) -> dict[str, FieldPath]:
    """The paths by the label's name; a label whose path is uncertain is absent.

    "version" is s2n's own number, "cipher" the two bytes of TLS, in their order, "group" TLS' number of the curve, and
    "group_tls13" that of the group with ML-KEM, where there is one. "resumed" isn't 0 where a handshake is a full one, and
    "credentials" isn't where it is by a key that both sides have been given. "server_name" and "alpn" are texts within the
    connection, each ended by a zero byte. "alert" is the last one that was received. "descriptor" is the socket's, where
    "bio_type" isn't 0: else that is memory of the application's.
    """
    paths = {
        "version": _version(image),
        "cipher": _cipher(image),
        "server_name": _text(image, "s2n_get_server_name"),
        "alpn": _text(image, "s2n_get_application_protocol"),
        "alert": _alert(image),
    }
    found = {name: path for name, path in paths.items() if path}
    return {**found, **_groups(image), **_resumption(image), **_descriptor(image)}


def _follow(image: Image, name: str) -> Evaluation | None:
    function = image.function(name)
    return followed(image, function.address, {"rdi": _CONNECTION, "rsi": _FIRST, "rdx": _SECOND}) if function else None


def _fields(evaluation: Evaluation | None, size: int) -> list[int]:
    """The connection's own fields of this size that a function looks at, in their order."""
    fields = {field for field in evaluation.fields if len(field.path) == 1 and field.size == size} if evaluation else set()
    return sorted(field.path[0] for field in fields if 0 <= field.path[0] < _MAX_OFFSET)


def _mode(image: Image) -> int | None:
    """The one word that outlasts what s2n_connection_wipe does to a connection."""
    words = _fields(_follow(image, "s2n_connection_wipe"), _WORD)
    return words[0] if len(words) == 1 else None


def _pending_output(image: Image) -> int | None:
    """The cursors between which s2n_flush finds what is to be sent."""
    words = _fields(_follow(image, "s2n_flush"), _WORD)
    return words[0] if len(words) == 2 and words[1] - words[0] == _WORD else None


def _bytes_sent(image: Image) -> int | None:
    """The number that the accessor returns; or else the one that s2n_flush adds to."""
    if path := field_returned(image, "s2n_connection_get_wire_bytes_out", 1):
        return path[0]
    evaluation = _follow(image, "s2n_flush")
    stored = (
        {place.offset for place, value in evaluation.stores if place.base == "argument" and value is None} if evaluation else {}
    )
    counted = [offset for offset in _fields(evaluation, 8) if offset in stored]
    return counted[0] if len(counted) == 1 else None


def _version(image: Image) -> FieldPath | None:
    evaluation = _follow(image, "s2n_connection_get_actual_protocol_version")
    fields = {value for value in evaluation.results if isinstance(value, LoadedField)} if evaluation else set()
    field = fields.pop() if len(fields) == 1 else None
    return FieldPath(field.path, 1) if field and len(field.path) == field.size == 1 else None


def _cipher(image: Image) -> FieldPath | None:
    """The two bytes that s2n_connection_get_cipher_iana_value stores for its caller."""
    first, second = _stored(image, "s2n_connection_get_cipher_iana_value", _FIRST, _SECOND)
    beside = first and second and first.size == second.size == 1 and second.path == (*first.path[:-1], first.path[-1] + 1)
    return FieldPath(first.path, 2) if first and beside else None


def _stored(image: Image, name: str, *outputs: SymbolicAddress) -> list[LoadedField | None]:
    """The one field of the connection that an accessor stores at each of these places, which its arguments lead to."""
    evaluation = _follow(image, name)
    stores = evaluation.stores if evaluation else []
    values = [{value for place, value in stores if place == output} for output in outputs]
    fields = [found.pop() if len(found) == 1 else None for found in values]
    return [field if isinstance(field, LoadedField) and field.whole else None for field in fields]


def _text(image: Image, name: str) -> FieldPath | None:
    """The text within the connection that an accessor returns, or nothing."""
    evaluation = _follow(image, name)
    texts = {value for value in evaluation.results if isinstance(value, SymbolicAddress)} if evaluation else set()
    text = texts.pop() if len(texts) == 1 else None
    return FieldPath((text.offset,), 0) if text and text.base == "argument" and 0 < text.offset < _MAX_OFFSET else None


def _alert(image: Image) -> FieldPath | None:
    """The second of the two bytes that s2n_connection_get_alert reads where they have come in."""
    evaluation = _follow(image, "s2n_connection_get_alert")
    cursors, memory = _fields(evaluation, _WORD), _fields(evaluation, 8)
    if not cursors or len(memory) != 1 or not 0 < cursors[0] - memory[0] < _STUFFER:
        return None
    return FieldPath((memory[0], 1), 1)


def _groups(image: Image) -> dict[str, FieldPath]:
    """Both groups' numbers: where the one with ML-KEM isn't known, that there is no curve doesn't mean that there is none."""
    curve = _number(image, "s2n_connection_get_curve", _CURVES)
    kem = _number(image, "s2n_connection_get_kem_group_name", _KEM_GROUPS)
    return {"group": curve, "group_tls13": kem} if curve and kem else {}


def _number(image: Image, accessor: str, known: Mapping[bytes, int]) -> FieldPath | None:
    """The number of the group whose name an accessor returns, as the library's own table has it beside that."""
    evaluation = _follow(image, accessor)
    names = {value for value in evaluation.results if isinstance(value, LoadedField)} if evaluation else set()
    name = names.pop() if len(names) == 1 else None
    if name is None or len(name.path) != 2 or not name.is_pointer:
        return None
    common = set.intersection(*(_offsets(image, text, number, name.path[1]) for text, number in known.items()))
    return FieldPath((name.path[0], common.pop()), 2) if len(common) == 1 else None


def _offsets(image: Image, text: bytes, number: int, name: int) -> set[int]:
    """The offsets in a group that is called so at which it has this number."""
    places = [place - name for place in pointers_to_text(image, text, _MOST_PLACES)]
    return {offset for start in places for offset in range(0, _GROUP, 2) if image.constant(start + offset, 2) == number}


def _resumption(image: Image) -> dict[str, FieldPath]:
    """The word of a handshake's type and that of a key's, by which the accessor says whether a session is resumed."""
    evaluation, version = _follow(image, _RESUMED), _version(image)
    words, checked = _fields(evaluation, _WORD), _fields(_follow(image, _CHECK), _WORD)
    if evaluation is None or version is None or len(words) + len(checked) != 2:
        return {}
    orders = [(words[0], words[-1]), (words[-1], words[0])]
    if checked:
        asks = [call.arguments[1] for call in evaluation.calls[:2]] == [_FULL, _NEGOTIATED]
        fitting = [(checked[0], words[0])] if asks else []
    else:
        fitting = [(kind, key) for kind, key in orders if _tells(image, kind, key, version.offsets)]
    if len(fitting) != 1:
        return {}
    [(kind, key)] = fitting
    return {"resumed": FieldPath((kind,), _WORD, _FULL), "credentials": FieldPath((key,), _WORD)}


def _tells(image: Image, kind: int, key: int, version: tuple[int, ...]) -> bool:
    """Whether the accessor says of connections what it is to say, if the types of their handshakes and keys lie there."""
    function = image.function(_RESUMED)
    cases = {
        (_NEGOTIATED, 0, _TLS1_2): 1,
        (_NEGOTIATED | _FULL, 0, _TLS1_2): 0,
        (_NEGOTIATED, 0, _TLS1_3): 1,
        (_NEGOTIATED, _EXTERNAL, _TLS1_3): 0,
        (_NEGOTIATED | _FULL, 0, _TLS1_3): 0,
    }
    for values, resumed in cases.items():
        fields: dict[tuple[int, ...], Value] = dict(zip(((kind,), (key,), version), values, strict=True))
        case = Assumptions({"rdi": _CONNECTION}, fields)
        if function is None or not {resumed} <= {*followed_in(image, function.address, case).results} <= {resumed, 0}:
            return False
    return True


def _descriptor(image: Image) -> dict[str, FieldPath]:
    """The descriptor that an accessor stores, and the bit without which it stores none."""
    [descriptor] = _stored(image, _READS_FROM, _FIRST)
    flags = _fields(_follow(image, _READS_FROM), 1)
    if descriptor is None or len(descriptor.path) != 2 or descriptor.size != _WORD or len(flags) != 1:
        return {}
    bits = [1 << bit for bit in range(8) if _stores(image, flags[0], 1 << bit)]
    if len(bits) != 1 or _stores(image, flags[0], 0):
        return {}
    return {"descriptor": FieldPath(descriptor.path, _WORD), "bio_type": FieldPath((flags[0],), 1, bits[0])}


def _stores(image: Image, flags: int, value: int) -> bool:
    """Whether a descriptor is stored where the flags have this value."""
    function = image.function(_READS_FROM)
    case = Assumptions({"rdi": _CONNECTION, "rsi": _FIRST}, {(flags,): value})
    return function is not None and any(place == _FIRST for place, _ in followed_in(image, function.address, case).stores)
