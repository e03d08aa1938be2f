# SPDX-License-Identifier: Apache-2.0
"""Constants in the registers of an aarch64 function, for evaluate.py: addresses of pages and what is added to them, and
immediate values. Those of registers that a call preserves are kept."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.code.aarch64.instructions import NAMES, Aarch64Instruction, decoded
from ssllatency.code.constant_blocks import CodeBlock, plus
from ssllatency.code.machine import CALLS, Flow
from ssllatency.code.values import signed

REGISTERS = 31
_NUMBERS = {name: number for number, name in enumerate(NAMES)}
_ENDS = (Flow.RETURN, Flow.STOP, Flow.JUMP, Flow.INDIRECT_JUMP)
_PAGE, _MASK = 0xFFF, (1 << 64) - 1


def blocks(code: bytes, start: int) -> dict[int, CodeBlock]:
    """The blocks of the function that begins at `start`, by their first addresses."""
    listed = list(decoded(code, start))
    own = range(start, start + 4 * len(listed))
    starts = {each.target for each in listed if each.target in own and each.flow is not Flow.CALL}
    found: dict[int, CodeBlock] = {}
    block: CodeBlock | None = None
    for instruction in listed:
        if block is None or instruction.address in starts:
            if block is not None:
                block.next.append(instruction.address)
            block = found[instruction.address] = CodeBlock.begin(REGISTERS)
        target = instruction.target
        leaves = instruction.flow is Flow.CALL or (instruction.flow is Flow.JUMP and target not in own)
        if target is not None and leaves:
            block.call(instruction.address, target)
        elif target is not None:
            block.next.append(target)
        if instruction.flow is Flow.BRANCH:
            block.next.append(instruction.end)
        _step(block.held, instruction)
        if instruction.flow in _ENDS or instruction.flow is Flow.BRANCH:
            block = None
    return found


def _step(held: list[int | None], instruction: Aarch64Instruction) -> None:
    value = None if instruction.flow in CALLS else made(held, instruction.word, instruction.address)
    for name in instruction.writes:
        held[_NUMBERS[name]] = None
    if value is not None and (number := instruction.word & 31) < REGISTERS:
        held[number] = value


def made(held: Sequence[int | None], word: int, address: int) -> int | None:
    """The constant that the instruction at `address` leaves in its register, or what it copies; None for any other."""
    if word & 0x1F000000 == 0x10000000:  # adr, adrp
        distance = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        return (address & ~_PAGE) + (distance << 12) & _MASK if word >> 31 else address + distance & _MASK
    if word & 0xFF800000 == 0x91000000:  # add, immediate, of 64 bits
        return _sum(held, word >> 5 & 31, (word >> 10 & _PAGE) << (12 if word >> 22 & 1 else 0))
    if word & 0x7F800000 == 0x52800000:  # movz
        return (word >> 5 & 0xFFFF) << 16 * (word >> 21 & 3)
    if word & 0x7FE0FFE0 == 0x2A0003E0:  # mov, of a register
        number = word >> 16 & 31
        return 0 if number == REGISTERS else held[number]
    return None


def _sum(held: Sequence[int | None], number: int, distance: int) -> int | None:
    return plus(held[number] if number < REGISTERS else None, distance)
