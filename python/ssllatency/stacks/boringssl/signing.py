# SPDX-License-Identifier: Apache-2.0
"""The function of BoringSSL and AWS-LC that signs for a handshake, and the way from it to the certificates that are sent.

ssl_private_key_sign is called with the handshake, and fifth with the algorithm's code point, which it passes on to the key's
method of the application's, if it has one. Once a handshake is over nothing of it is kept: which certificate was chosen and by
which algorithm its key has signed is only seen where that function is called. The key lies in the structure in which the
certificates lie; what is added to a message of TLS 1.3 shows them there. AWS-LC has a slot for each kind of key in that
structure, and beside the slots the number of the one that it has chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ssllatency.code.evaluate import followed_in, returned
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, FieldPath, LoadedField, OutgoingCall, SymbolicAddress, Value
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Function, Image, Range
from ssllatency.stacks.boringssl.raised_errors import RaisedErrors
from ssllatency.stacks.found_functions import FOUND

_FILE, _KEY_OPERATION_FAILED = "ssl_privkey", 287  # SSL_R_PRIVATE_KEY_OPERATION_FAILED of openssl/ssl.h
_SENDING_FILE = "tls13_both"
_NAME = "ssl_private_key_sign"
_HANDSHAKE = SymbolicAddress("argument", 0)
_ALGORITHM = LoadedField((1 << 20,))  # of which it can be told whether it is passed on
_FIFTH, _POINTER, _NUMBER = 4, 8, 4
_LONGEST_GETTER = 64
_MAX_OFFSET = 1 << 16
_LONGEST_WAY = 4
_TRIED = range(3)  # AWS-LC has so many slots: of RSA's keys, of those on curves, and of Ed25519's


def key_functions(errors: RaisedErrors) -> tuple[Range, Range]:
    """The functions that sign and decrypt for a handshake: the two that raise the error of a private key, in the order of its
    lines. Unplannable where there aren't two."""
    using = [function for function, raised in errors.of(_FILE).items() if _KEY_OPERATION_FAILED in raised]
    using.sort(key=lambda function: min(errors.lines(function, _KEY_OPERATION_FAILED), default=0))
    if len(using) != 2:
        raise Unplannable(f"{len(using) or 'no'} functions raise an error of a private key, where two are expected")
    return using[0], using[1]


def signing_function(image: Image, errors: RaisedErrors) -> Function:
    """The function that signs. Unplannable where it isn't seen to pass its fifth argument on as the algorithm."""
    signs, _ = key_functions(errors)
    method = _method(image, errors)
    pointers = {field.path for field in _follow(image, signs).fields if len(field.path) == 1 and field.size == _POINTER}
    others = pointers - {(0,), method[:1]}  # those to hints, where it may look for what was signed before
    calls = _follow(image, signs, {"r8": _ALGORITHM}, dict.fromkeys(others, 0)).calls
    passed = {call.arguments[_FIFTH] for call in calls if call.target == LoadedField((*method, 0))}
    # Its 16 bits, or on aarch64 those of the register, of which the callee takes its own.
    if not passed or not passed <= {LoadedField(_ALGORITHM.path, size) for size in (2, 4)}:
        raise Unplannable("the function that signs isn't seen to pass the algorithm on")
    return Function(_NAME, signs[0], signs[1] - signs[0], FOUND)


def certificate_paths(image: Image, errors: RaisedErrors) -> dict[str, FieldPath]:
    """Return the way from the handshake to the stack of certificates that are sent, "sent_certificates", and from that stack to
    the address and the length of the first, "first_certificate", and to their number, "sent_count", if that is clear.

    Where there are slots, "sent_certificates" leads to the first of them, "sent_slot" from the handshake to the number of the
    chosen one, "next_slot" from a slot to the next, and "slot_certificates" from a slot to its stack. Unplannable where the way
    isn't clear."""
    keeper = _method(image, errors)[:-1]
    found = {way for function in errors.of(_SENDING_FILE) for way in _sent(image, function, keeper)}
    if len(found) != 1:
        raise Unplannable(f"{len(found) or 'no'} ways lead to the certificates that are sent, where one is expected")
    paths = found.pop().paths()
    steps = (offset for path in paths.values() for offset in path.offsets)
    if max(len(path.offsets) for path in paths.values()) > _LONGEST_WAY or not all(0 <= step < _MAX_OFFSET for step in steps):
        raise Unplannable("the way to the certificates that are sent is too long")
    return paths


@dataclass(frozen=True)
class _Slots:
    """The slots of certificates: the path from the handshake to the number of the chosen one, the bytes of each, and the offset
    in one of the pointer to its stack."""

    number: tuple[int, ...]
    size: int
    stack: int


@dataclass(frozen=True)
class _Way:
    """The way to the certificates that are sent: to the stack, or to slots that have one each; in a stack the offset of its
    array, and, if that is clear, of its number of members; and in a member that of its bytes."""

    stack: tuple[int, ...]
    slots: _Slots | None
    members: int
    count: int | None
    bytes: int

    def paths(self) -> dict[str, FieldPath]:
        paths = {
            "sent_certificates": FieldPath(self.stack, _POINTER),
            "first_certificate": FieldPath((self.members, 0, self.bytes), 0),
        }
        if self.count is not None:
            paths["sent_count"] = FieldPath((self.count,), _POINTER)
        if self.slots:
            paths["sent_slot"] = FieldPath(self.slots.number, _NUMBER)
            paths["next_slot"] = FieldPath((self.slots.size,), 0)
            paths["slot_certificates"] = FieldPath((self.slots.stack,), _POINTER)
        return paths


def _method(image: Image, errors: RaisedErrors) -> tuple[int, ...]:
    """The path from the handshake to the key's method, as the function that decrypts calls it."""
    _, decrypts = key_functions(errors)
    targets = (call.target for call in _follow(image, decrypts).calls)
    methods = {target.path[:-1] for target in targets if isinstance(target, LoadedField)}
    if len(methods) != 1 or len(path := methods.pop()) < 2:
        raise Unplannable("the function that decrypts doesn't show where the key's method is")
    return path


def _sent(image: Image, function: Range, keeper: tuple[int, ...]) -> Iterator[_Way]:
    """The ways to a stack, beside the key or in one of the slots there, of which a function takes members whose bytes it hands
    on."""
    followed = _follow(image, function)
    for stack in _stacks(followed.calls):
        if stack.path[:-1] == keeper:
            yield from _ways(image, function, {}, stack, None)
    for field in followed.fields:
        if field.path[:-1] != keeper or field.size != _NUMBER:
            continue
        stacks = [sorted(set(_stacks(_follow(image, function, fields={field.path: slot}).calls)), key=str) for slot in _TRIED]
        slots = [_path_in_slots(each, keeper) for each in stacks]
        if None not in slots and (found := _evenly(field.path, slots)):  # type: ignore[arg-type]
            yield from _ways(image, function, {field.path: _TRIED[0]}, LoadedField(slots[0]), found)  # type: ignore[arg-type]


def _stacks(calls: Iterable[OutgoingCall]) -> Iterator[LoadedField]:
    """The pointers of which a function may be called for a member."""
    for call in calls:
        stack, number = call.arguments[:2]
        if isinstance(stack, LoadedField) and isinstance(number, int):
            yield stack


def _path_in_slots(stacks: Sequence[LoadedField], keeper: tuple[int, ...]) -> tuple[int, ...] | None:
    """The one path among those to these stacks that leads through a pointer in the structure."""
    paths = [stack.path for stack in stacks if stack.path[:-2] == keeper]
    return paths[0] if len(paths) == 1 else None


def _evenly(number: tuple[int, ...], paths: Sequence[tuple[int, ...]]) -> _Slots | None:
    """The slots, if the paths for the numbers of _TRIED lead to the same place in as many of one size."""
    size = paths[1][-1] - paths[0][-1]
    even = all(path == (*paths[0][:-1], paths[0][-1] + slot * size) for slot, path in zip(_TRIED, paths, strict=True))
    return _Slots(number, size, paths[0][-1]) if even and 0 <= paths[0][-1] <= size - _POINTER else None


def _ways(
    image: Image, function: Range, fields: dict[tuple[int, ...], Value], stack: LoadedField, slots: _Slots | None
) -> Iterator[_Way]:
    calls = _follow(image, function, fields=fields).calls
    counts = getters_of_count(
        image, {each.target for each in calls if each.arguments[0] == stack and isinstance(each.target, int)}
    )
    for call in calls:
        if call.arguments[0] != stack or not isinstance(call.arguments[1], int):
            continue
        for members in _member_of(image, call):
            offsets = {offset for target in _passed_on(image, function, fields, call) for offset in _getter_of(image, target)}
            bytes_at, lengths_at = min(offsets, default=0), max(offsets, default=0)
            if len(offsets) == 2 and lengths_at == bytes_at + _POINTER:
                yield _Way(stack.path[:-1] if slots else stack.path, slots, members, 0 if len(counts) == 1 else None, bytes_at)


def _member_of(image: Image, call: OutgoingCall) -> set[int]:
    """The offset in a stack of its array, where the function that is called returns the member of that number, or NULL."""
    if not isinstance(call.target, int) or not _is_getter(image, call.target):
        return set()
    results = _unless_null(returned(image, call.target, rdi=_HANDSHAKE, rsi=0))
    return {
        field.path[0]
        for field in results
        if len(results) == 1 and isinstance(field, LoadedField) and field.is_pointer and field.path[1:] == (0,)
    }


def _passed_on(image: Image, function: Range, fields: dict[tuple[int, ...], Value], call: OutgoingCall) -> set[int]:
    """The small functions that are called with the member which that call has returned."""
    assert isinstance(call.target, int)
    member = LoadedField((2 << 20,))
    calls = _follow(image, function, fields=fields, results={call.target: member}).calls
    return {each.target for each in calls if isinstance(each.target, int) and each.arguments[0] == member}


def _getter_of(image: Image, target: int) -> set[int]:
    """The offset of the word that a small function returns of what it is called with."""
    values = returned(image, target, rdi=_HANDSHAKE) if _is_getter(image, target) else []
    return {value.path[0] for value in values if len(values) == 1 and isinstance(value, LoadedField) and len(value.path) == 1}


def _is_getter(image: Image, target: int) -> bool:
    bounds = image.function_bounds(target)
    return bounds is not None and bounds[0] == target and bounds[1] - bounds[0] <= _LONGEST_GETTER


def _follow(
    image: Image,
    function: Range,
    arguments: dict[str, Value] | None = None,
    fields: dict[tuple[int, ...], Value] | None = None,
    results: dict[int, Value] | None = None,
) -> Evaluation:
    case = Assumptions({"rdi": _HANDSHAKE, **(arguments or {})}, fields or {}, results=results or {})
    return followed_in(image, function[0], case)


def getters_of_count(image: Image, targets: Collection[int]) -> set[int]:
    """Those of the functions that return the first word of what they are called with, or 0 for NULL: how many members a stack
    has."""
    return {
        target
        for target in targets
        if _is_getter(image, target) and _unless_null(returned(image, target, rdi=_HANDSHAKE)) == {LoadedField((0,))}
    }


def _unless_null(results: Iterable[Value]) -> set[Value]:
    """The values that a getter returns for what isn't NULL; for NULL clang has it return what it was called with."""
    return {*results} - {0, _HANDSHAKE}
