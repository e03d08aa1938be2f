# SPDX-License-Identifier: Apache-2.0
"""Constant arguments of the direct calls of an x86-64 function.

Compilers put a call that several branches make in one place and jump there with their own arguments: so the constants are
followed through the function's branches. What isn't reached that way, as the cases of a switch, begins with nothing known.
Only texts of instructions are read, and steps have caps, so that any code ends soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ssllatency.code.decode import lines
from ssllatency.elf.image import Image, Range

REGISTERS = ("rdi", "rsi", "rdx", "rcx", "r8")
"""Those whose constants are followed: the first arguments, in their order."""
MAX_SIZE = 1 << 16
_MOST_STATES = 48  # different arguments with which one place is reached; further ones are left out
_ENDS = ("ret", "jmp", "ud2", "hlt", "int3")
_ONLY_READ = ("cmp", "test", "push", "bt", "nop", "ucomisd", "ucomiss", "comisd", "comiss")
# Those that write registers which their text doesn't name.
_OTHERS_TOO = ("mul", "imul", "div", "idiv", "cdq", "cqo", "cpuid", "rdtsc", "syscall", "xchg", "xadd", "loop", "rep", "mulx")


def _names(number: int, register: str) -> dict[str, tuple[int, bool]]:
    """Every name of a register's parts: its number, and whether writing it sets the whole register."""
    if register.startswith("r8"):
        return {"r8": (number, True), "r8d": (number, True), "r8w": (number, False), "r8b": (number, False)}
    stem = register[1:]
    low = {f"{stem[0]}l": (number, False), f"{stem[0]}h": (number, False)} if stem[1] == "x" else {f"{stem}l": (number, False)}
    return {register: (number, True), f"e{stem}": (number, True), stem: (number, False), **low}


_PARTS = {name: part for number, register in enumerate(REGISTERS) for name, part in _names(number, register).items()}
# What a register holds: a constant, unknown (None), or what the register ~value held where the block begins.
_State = tuple[int | None, ...]
_UNKNOWN: _State = (None,) * len(REGISTERS)


@dataclass(frozen=True)
class ConstantCall:
    """A direct call or tail jump at `address` to `target`, with what the registers REGISTERS hold: None where unknown."""

    address: int
    target: int
    arguments: _State


@dataclass
class _Block:
    """Instructions that are run from the first to the last: what they leave in the registers, their calls, and what follows."""

    held: list[int | None] = field(default_factory=lambda: [~number for number in range(len(REGISTERS))])
    calls: list[ConstantCall] = field(default_factory=list)
    next: list[int] = field(default_factory=list)
    seen: set[_State] = field(default_factory=set)


def calls_with_constants(image: Image, bounds: Range) -> set[ConstantCall]:
    """The direct calls and tail jumps of the function, once for each set of arguments; none of one that is too large."""
    if bounds[1] - bounds[0] > MAX_SIZE:
        return set()
    listed = [
        (line.address, len(line.code), line.mnemonic, line.op_str)
        for line in lines(image.code(bounds[0], bounds[1] - bounds[0]), bounds[0], image.machine)
    ]
    blocks = _blocks(listed)
    _spread(blocks, [address for address, *_ in listed[:1]], _UNKNOWN)
    for start, block in blocks.items():
        if not block.seen:
            _spread(blocks, [start], _UNKNOWN)
    return {
        ConstantCall(call.address, call.target, _after(state, call.arguments))
        for block in blocks.values()
        for call in block.calls
        for state in block.seen
    }


def _spread(blocks: dict[int, _Block], starts: Sequence[int], state: _State) -> None:
    work = [(start, state) for start in starts]
    while work:
        start, before = work.pop()
        block = blocks.get(start)
        if block is None or before in block.seen or len(block.seen) >= _MOST_STATES:
            continue
        block.seen.add(before)
        after = _after(before, block.held)
        work += [(following, after) for following in block.next]


def _after(before: _State, held: Iterable[int | None]) -> _State:
    return tuple(before[~value] if value is not None and value < 0 else value for value in held)


def _blocks(listed: Sequence[tuple[int, int, str, str]]) -> dict[int, _Block]:
    """The blocks by their first addresses."""
    own = {address for address, *_ in listed}
    starts = {
        target for _, _, name, text in listed if name[0] == "j" and (target := _number(text)) is not None and target in own
    }
    blocks: dict[int, _Block] = {}
    block: _Block | None = None
    for address, size, name, text in listed:
        if block is None or address in starts:
            if block is not None:
                block.next.append(address)
            block = blocks[address] = _Block()
        after = address + size
        if name == "call":
            target = _number(text)
            if target is not None:
                block.calls.append(ConstantCall(address, target, tuple(block.held)))
            block.held = list(_UNKNOWN)
        elif name[0] == "j" or name in _ENDS or name.endswith("ret"):
            target = _number(text)
            if target in own and target is not None:
                block.next.append(target)
            elif name == "jmp" and target is not None:
                block.calls.append(ConstantCall(address, target, tuple(block.held)))
            if name not in _ENDS and not name.endswith("ret"):
                block.next.append(after)
            block = None
        else:
            _step(block.held, after, name, text)
    return blocks


def _step(held: list[int | None], after: int, name: str, text: str) -> None:
    """Follow one instruction; `after` is the address of the next."""
    if name.startswith(_OTHERS_TOO):
        held[:] = _UNKNOWN
        return
    to, _, origin = text.partition(", ")
    part = _PARTS.get(to)
    if part is None or name in _ONLY_READ:
        return
    number, whole = part
    value: int | None = None
    if whole and name in ("mov", "movabs"):
        other = _PARTS.get(origin)
        constant = _number(origin)
        value = constant & 0xFFFFFFFF if constant is not None else held[other[0]] if other and other[1] else None
    elif whole and name == "lea" and origin.startswith("[rip "):
        value = _relative(origin, after)
    elif whole and name == "xor" and to == origin:
        value = 0
    held[number] = value


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _relative(place: str, after: int) -> int | None:
    """The address that "[rip + 0x10]" names."""
    distance = _number(place[5:-1].replace(" ", "")) if place.endswith("]") else None
    return after + distance if distance is not None and after + distance >= 0 else None
