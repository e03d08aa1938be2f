# SPDX-License-Identifier: Apache-2.0
"""The targets of an indirect jump in aarch64 code: through a jump table of the function itself, or through one slot of a
structure.

Works backwards along a path, one way from the function's entry to the jump, as x86/tables.py does. Compilers write a jump table
as `ldrb w, [table, index]; adr base, …; add target, base, w, sxtb #2; br target`, with entries of 1, 2 or 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.code.aarch64.instructions import Aarch64Instruction
from ssllatency.code.aarch64.memory import extended, indexed
from ssllatency.code.machine import Flow, ReadBytes, ReadPointer
from ssllatency.code.values import signed
from ssllatency.data_class import dataclass

Path = Sequence[Aarch64Instruction]

MAX_ENTRIES = 4096
MAX_STEPS = 200
_MASK = (1 << 64) - 1
_WHOLE = 3  # the option of an extension that takes all 64 bits
# Conditions of a branch after `cmp index, limit` that bound the index: (condition, taken) -> limit + this is the highest index.
_HI, _LS, _HS, _LO = 8, 9, 2, 3
_BOUNDS = {(_HI, False): 0, (_HS, False): -1, (_LS, True): 0, (_LO, True): -1}


def _name(number: int) -> str:
    """The register with this number, "" for 31."""
    return f"x{number}" if number < 31 else ""


def _definition(path: Path, position: int, register: str) -> int | None:
    """The position of the last instruction before `position` that writes `register`, a 64-bit copy being looked through."""
    for step in range(position - 1, max(-1, position - MAX_STEPS), -1):
        if register and register in path[step].writes:
            copied = path[step].copy
            if copied is None or copied[2] < 64:
                return step
            register = copied[1]
    return None


def _jump_register(path: Path) -> str:
    return _name(path[-1].word >> 5 & 31)


# Slots.


def tail_slot(path: Path) -> int | None:
    """The displacement in `ldr x1, [x0, slot]; br x1`; None for anything else."""
    register = _jump_register(path)
    step = _definition(path, len(path) - 1, register)
    if step is None:
        return None
    word = path[step].word
    if word >> 5 & 31 == 31:
        return None
    if word & 0xFFC00000 == 0xF9400000:  # ldr, unsigned offset
        return (word >> 10 & 0xFFF) * 8
    if word & 0xFFC00000 == 0xA9400000:  # ldp, signed offset
        return _pair_slot(path, step, register)
    return None


def _pair_slot(path: Path, step: int, register: str) -> int:
    word = path[step].word
    for instruction in reversed(path[step + 1 : -1]):
        if instruction.copy and instruction.copy[0] == register:
            register = instruction.copy[1]
    return 8 * signed(word >> 15, 7) + (8 if register == _name(word >> 10 & 31) else 0)


# Jump tables.


@dataclass(frozen=True)
class _Table:
    """`add target, base, entry` at `add`, where the entry is extended by `option` and shifted; its load at `load`."""

    add: int
    load: int
    option: int
    shift: int

    def target(self, base: int, entry: bytes, load_signed: bool) -> int:
        value = extended(int.from_bytes(entry, "little", signed=load_signed), self.option)
        return base + (value << self.shift) & _MASK


def _table(path: Path) -> _Table | None:
    add = _definition(path, len(path) - 1, _jump_register(path))
    if add is None:
        return None
    word = path[add].word
    load = _definition(path, add, _name(word >> 16 & 31))
    if load is None or not _indexed_load(path[load].word):
        return None
    if word & 0xFFE00000 == 0x8B200000:  # add, extended register
        return _Table(add, load, word >> 13 & 7, word >> 10 & 7)
    if word & 0xFFE00000 == 0x8B000000:  # add, shifted left
        return _Table(add, load, _WHOLE, word >> 10 & 63)
    return None


def _indexed_load(word: int) -> bool:
    """Whether it loads a general register from [base, index], the index being scaled by the size."""
    index = indexed(word)
    return index is not None and not word >> 26 & 1 and bool(word >> 22 & 3) and index[2] == word >> 30


def looks_like_table(path: Path) -> bool:
    """Whether the jump's target is computed from an indexed load, as only jump tables are."""
    step = _definition(path, len(path) - 1, _jump_register(path))
    return _table(path) is not None or (step is not None and _indexed_load(path[step].word))


def _address(path: Path, position: int, register: str) -> int | None:
    """The constant address that `register` holds before `position`: of adr, or of adrp and add."""
    step = _definition(path, position, register)
    if step is None:
        return None
    word = path[step].word
    if word & 0x1F000000 == 0x10000000:
        immediate = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        return path[step].address + immediate if not word >> 31 else (path[step].address >> 12) + immediate << 12
    if word & 0xFF800000 != 0x91000000:  # add, immediate
        return None
    base = _address(path, step, _name(word >> 5 & 31))
    return None if base is None else base + ((word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0))


def table_targets(path: Path, read: ReadBytes, pointer: ReadPointer) -> Sequence[int] | None:
    """The targets of the jump table that the last instruction jumps through; None where its place or size isn't certain."""
    layout = _table(path)
    if layout is None:
        return _absolute_targets(path, pointer)
    entries = _entries(path, layout.load)
    base = _address(path, layout.add, _name(path[layout.add].word >> 5 & 31))
    if entries is None or base is None:
        return None
    load = path[layout.load].word
    table, count, size, load_signed = *entries, 1 << (load >> 30), load >> 22 & 3 > 1
    data = read(table, size * count)
    if len(data) != size * count:
        return None
    return [layout.target(base, data[at : at + size], load_signed) for at in range(0, len(data), size)]


def _absolute_targets(path: Path, pointer: ReadPointer) -> Sequence[int] | None:
    """The targets of `ldr x, [table, index, lsl #3]; br x`, whose entries are addresses."""
    load = _definition(path, len(path) - 1, _jump_register(path))
    whole = load is not None and path[load].word >> 30 == 3 and _indexed_load(path[load].word)
    entries = _entries(path, load) if load is not None and whole else None
    if entries is None:
        return None
    targets = [pointer(entries[0] + 8 * index) for index in range(entries[1])]
    return None if None in targets else [target for target in targets if target is not None]


def _entries(path: Path, position: int) -> tuple[int, int] | None:
    """(address, number of entries) of the table that the indexed load at `position` reads."""
    word = path[position].word
    table = _address(path, position, _name(word >> 5 & 31))
    highest = _highest_index(path, position, _name(word >> 16 & 31))
    if table is None or highest is None or not 0 <= highest < MAX_ENTRIES:
        return None
    return table, highest + 1


class _IndexSearch:
    """Looks backwards for the comparison that bounds the index of a jump table.

    `place` is the register that the index comes from at the point reached, "" once that is lost; `highest` the highest value
    that it can have, once known.
    """

    def __init__(self, register: str) -> None:
        self.place = register
        self.highest: int | None = None
        self._bounded: dict[str, int] = {}  # registers to their highest values, by the comparisons passed
        self._limit: int | None = None  # what the branches passed say of a comparison right before them

    def step_over(self, instruction: Aarch64Instruction, *, taken: bool) -> None:
        if instruction.flow is Flow.BRANCH:
            self._branched(instruction.word, taken)
        elif instruction.word & 0x7F80001F == 0x7100001F:  # cmp with an immediate
            self._compared(instruction.word)
        elif _sets_flags(instruction):
            self._limit = None
        if self.place in instruction.writes:
            self._defined(instruction)
        self._bounded = {place: highest for place, highest in self._bounded.items() if place not in instruction.writes}
        self.highest = self._bounded.get(self.place) if self.highest is None else self.highest

    def _branched(self, word: int, taken: bool) -> None:
        limit = _BOUNDS.get((word & 15, taken)) if word & 0xFF000010 == 0x54000000 else None
        self._limit = self._limit if limit is None else limit

    def _compared(self, word: int) -> None:
        place = _name(word >> 5 & 31)
        if self._limit is not None and place:
            immediate = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
            self._bounded.setdefault(place, immediate + self._limit)
        self._limit = None

    def _defined(self, instruction: Aarch64Instruction) -> None:
        word = instruction.word
        if word & 0xFFFF8000 == 0x12000000 or word & 0xFFFF0000 == 0x92400000:  # `and` that keeps the low bits
            self.highest = (2 << (word >> 10 & 63)) - 1
        self.place = instruction.copy[1] if instruction.copy else ""


def _sets_flags(instruction: Aarch64Instruction) -> bool:
    """Whether it may change the condition flags: anything but what surely doesn't."""
    if instruction.flow is not Flow.NEXT:
        return True
    word = instruction.word
    moves = word & 0x1F000000 == 0x10000000 or word & 0x1F800000 == 0x12800000 or instruction.copy is not None
    plain_sum = word & 0x3F000000 in (0x11000000, 0x0B000000)
    return not (moves or plain_sum or instruction.memory is not None or instruction.padding or instruction.landing_pad)


def _highest_index(path: Path, position: int, register: str) -> int | None:
    """The highest value that `register` can have before `position`, by the branch that it passed on the path."""
    search = _IndexSearch(register)
    for step in range(position - 1, max(-1, position - MAX_STEPS), -1):
        search.step_over(path[step], taken=path[step + 1].address == path[step].target)
        if search.highest is not None or not search.place:
            break
    return search.highest
