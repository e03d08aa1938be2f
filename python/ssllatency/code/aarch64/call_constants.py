# SPDX-License-Identifier: Apache-2.0
"""Constants in the registers of an aarch64 function, for evaluate.py: addresses of pages and what is added to them, and
immediate values. Those of registers that a call preserves are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ssllatency.code.aarch64.instructions import NAMES, Aarch64Instruction, decoded
from ssllatency.code.aarch64.memory import access
from ssllatency.code.constant_blocks import CodeBlock, plus
from ssllatency.code.machine import CALLS, Flow
from ssllatency.code.values import signed

REGISTERS = 31
_SLOTS = 8
FOLLOWED = REGISTERS + _SLOTS
"""The registers whose constants are followed, and words of the stack."""
_NUMBERS = {name: number for number, name in enumerate(NAMES)}
_ENDS = (Flow.RETURN, Flow.STOP, Flow.JUMP, Flow.INDIRECT_JUMP)
_PAGE, _MASK = 0xFFF, (1 << 64) - 1
_COMPARES, _WITH_NUMBER = 0x7FC0001F, 0x7100001F  # cmp with an immediate that isn't shifted
_IF_EQUAL, _EQUAL = 0xFF00001E, 0x54000000  # b.eq, b.ne
# str and ldr of 64 bits at [sp, #number], and add register, sp, #number; all of loads and stores.
_AT_STACK, _STORES, _LOADS, _TAKES = 0xFFC003E0, 0xF90003E0, 0xF94003E0, 0x910003E0
_OF_MEMORY, _MEMORY, _PAIR, _LARGEST = 0x0A000000, 0x08000000, 5, 64  # bytes of four vectors
_PRESERVED = 19  # the first register that calls preserve


def blocks(code: bytes, start: int) -> dict[int, CodeBlock]:
    """The blocks of the function that begins at `start`, by their first addresses."""
    listed = list(decoded(code, start))
    own = range(start, start + 4 * len(listed))
    starts = {each.target for each in listed if each.target in own and each.flow is not Flow.CALL}
    found: dict[int, CodeBlock] = {}
    block: CodeBlock | None = None
    slots, before = _spilled(listed), 0
    for instruction in listed:
        if block is None or instruction.address in starts:
            if block is not None:
                block.next.append(instruction.address)
            block, before = CodeBlock.begin(FOLLOWED), 0
            found[instruction.address] = block
        target = instruction.target
        leaves = instruction.flow is Flow.CALL or (instruction.flow is Flow.JUMP and target not in own)
        if target is not None and leaves:
            block.call(instruction.address, target)
        elif target is not None:
            block.next.append(target)
        if instruction.flow is Flow.BRANCH:
            block.next.append(instruction.end)
            block.equal |= _equal(before, instruction)
        _step(block.held, instruction, slots)
        if instruction.flow in _ENDS or instruction.flow is Flow.BRANCH:
            block = None
        before = instruction.word
    return found


def _spilled(listed: Sequence[Aarch64Instruction]) -> dict[int, int]:
    """The words of the stack in which registers are kept that a call may change: by their places, the number under which what
    such a word holds is followed. It is written once, and its address is never taken."""
    words = [each.word for each in listed]
    written = Counter(word >> 10 & _PAGE for word in words if word & _AT_STACK == _STORES and word & 31 < _PRESERVED)
    others = {(word >> 10 & _PAGE) // 8 for word in words if word & _AT_STACK == _TAKES}
    others |= {place for word in words if word & _AT_STACK not in (_STORES, _LOADS) for place in _stored(word)}
    kept = sorted(place for place, times in written.items() if times == 1 and place not in others)
    return {place: REGISTERS + number for number, place in enumerate(kept[:_SLOTS])}


def _stored(word: int) -> Iterable[int]:
    """The words of the stack that an instruction may store to otherwise."""
    if word & _OF_MEMORY != _MEMORY or (transfer := access(word)).base != REGISTERS or transfer.loaded:
        return ()
    offset, pair = transfer.offset or 0, word >> 27 & 7 == _PAIR
    size = 2 * transfer.size if pair else _LARGEST if word >> 26 & 1 else transfer.size
    return range(offset // 8, (offset + size - 1) // 8 + 1)


def _equal(before: int, branch: Aarch64Instruction) -> dict[int, tuple[int, int]]:
    """Of a branch on whether a register that has just been compared equals a number: by where it goes on then, both."""
    number = before >> 5 & 31
    if before & _COMPARES != _WITH_NUMBER or branch.word & _IF_EQUAL != _EQUAL or number == REGISTERS:
        return {}
    follows = branch.end if branch.word & 1 else branch.target
    return {} if follows is None or branch.end == branch.target else {follows: (number, before >> 10 & _PAGE)}


def _step(held: list[int | None], instruction: Aarch64Instruction, slots: Mapping[int, int]) -> None:
    number, slot = instruction.word & 31, slots.get(instruction.word >> 10 & _PAGE)
    value = None if instruction.flow in CALLS else made(held, instruction.word, instruction.address)
    if slot is not None and instruction.word & _AT_STACK == _STORES:
        held[slot] = held[number] if number != REGISTERS else None
    elif slot is not None and instruction.word & _AT_STACK == _LOADS:
        value = held[slot]
    for name in instruction.writes:
        held[_NUMBERS[name]] = None
    if value is not None and number != REGISTERS:
        held[number] = value


def made(held: Sequence[int | None], word: int, address: int) -> int | None:
    """The constant that the instruction at `address` leaves in its register, or what it copies; None for any other."""
    if word & 0x1F000000 == 0x10000000:  # adr, adrp
        distance = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        return (address & ~_PAGE) + (distance << 12) & _MASK if word >> 31 else address + distance & _MASK
    if word & 0x7F800000 == 0x11000000:  # add, immediate
        return _sum(held, word >> 5 & 31, (word >> 10 & _PAGE) << (12 if word >> 22 & 1 else 0))
    if word & 0x7F800000 == 0x52800000:  # movz
        return (word >> 5 & 0xFFFF) << 16 * (word >> 21 & 3)
    if word & 0x7F800000 == 0x72800000:  # movk
        return _replaced(held[word & 31] if word & 31 != REGISTERS else None, word)
    if word & 0x7FE0FFE0 == 0x2A0003E0:  # mov, of a register
        number = word >> 16 & 31
        return 0 if number == REGISTERS else held[number]
    return None


def _sum(held: Sequence[int | None], number: int, distance: int) -> int | None:
    return plus(held[number] if number != REGISTERS else None, distance)


def _replaced(value: int | None, word: int) -> int | None:
    """A constant of which 16 bits are replaced by those of the instruction."""
    if value is None or value < 0:
        return None
    shift = 16 * (word >> 21 & 3)
    return value & ~(0xFFFF << shift) | (word >> 5 & 0xFFFF) << shift
