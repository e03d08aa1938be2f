# SPDX-License-Identifier: Apache-2.0
"""Values that a small aarch64 function returns: evaluation.py for the other machine, from the 32-bit words of the instructions.

Encodings: Arm Architecture Reference Manual for A-profile, C4.1, "A64 instruction set encoding". An instruction that isn't
listed here leaves its destination unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from ssllatency.code.aarch64.memory import access, extended, indexed
from ssllatency.code.evaluation import ARGUMENTS, Evaluation, PathState
from ssllatency.code.values import MASK, ComparisonFlags, LoadedField, Value, masked, narrowed, plus, signed
from ssllatency.elf import aarch64

_CLOBBERED = (*range(19), 30)
_SUBTRACT, _SUBTRACTS, _CLEAR = 0xFFE0FC00, 0xEB000000, 0xD2800000  # subs of 64 bits, with a register; mov register, #0
# The conditions 0 to 13 as the jumps of Comparison; "" for those that it doesn't know.
_CONDITIONS = ("je", "jne", "jae", "jb", "js", "jns", "", "", "ja", "jbe", "jge", "jl", "jg", "jle")


def _name(number: int, stack: bool = False) -> str:
    """The register with this number; 31 is the stack pointer or, as "", the zero register."""
    return f"x{number}" if number < 31 else "sp" if stack else ""


def _read(state: PathState, word: int, number: int, *, stack: bool = False) -> Value:
    """The value of a register as wide as `word` works."""
    name = _name(number, stack)
    value = state.registers.get(name) if name else 0
    return value if word >> 31 else narrowed(value, 4)


def _write(state: PathState, word: int, number: int, value: Value, *, stack: bool = False) -> None:
    """Writes a register as wide as `word` works: the upper half of a narrow one becomes zero."""
    if not word >> 31:
        value = narrowed(value, 4)
    if name := _name(number, stack):
        state.registers[name] = value & MASK if isinstance(value, int) else value


class Aarch64Evaluation(Evaluation):
    """One evaluation of a function of an aarch64 image."""

    stack_pointer = "sp"
    result_register = "x0"
    arguments = tuple(f"x{number}" for number in range(len(ARGUMENTS)))

    def step(self, state: PathState) -> bool:
        address = state.address
        word = self.image.constant(address, 4) if self.image.executable(address) else None
        if word is None:
            return self.end(None)
        state.address += 4
        branched = self._branched(state, word, address)
        if branched is None:
            _compute(self, state, word, address)
        return branched is not False

    def _branched(self, state: PathState, word: int, address: int) -> bool | None:
        """Whether the path goes on after a branch; None for what isn't one."""
        if word & 0x7C000000 == 0x14000000:
            state.address = address + 4 * signed(word, 26)
            if word >> 31:
                return self._called(state, address, state.address)
            self.note_jump(state, address, state.address)
            return True
        if word & 0x7C000000 == 0x34000000 or word & 0xFF000010 == 0x54000000:
            self._conditional(state, word, address)
            return True
        if word & 0xFE000000 == 0xD6000000:
            return self._register_branch(state, word, address)
        return self.end(None) if word & 0xFF000000 == 0xD4000000 or word >> 16 == 0 else None

    def _register_branch(self, state: PathState, word: int, address: int) -> bool:
        kind = word >> 21 & 7
        target = _read(state, MASK, word >> 5 & 31) if kind in (0, 1) else None
        if kind == 1:
            return self._called(state, address, target)
        if kind == 2:
            return self.end(state.registers.get("x0"))
        self.note_jump(state, address, target)
        state.address = target if isinstance(target, int) else state.address
        return True if isinstance(target, int) else self.end(None)

    def _called(self, state: PathState, address: int, target: Value) -> bool:
        self.note_call(state, target)
        if self.leaves(address, 4):
            return False
        state.address = address + 4
        state.flags = None
        for number in _CLOBBERED:
            state.registers[_name(number)] = None
        self.answer(state, target)
        return True

    def _conditional(self, state: PathState, word: int, address: int) -> None:
        bits = 14 if word & 0x7E000000 == 0x36000000 else 19
        target = address + 4 * signed(word >> 5, bits)
        taken = _taken(state, word)
        if taken is None:
            condition, tested = _condition(state, word)
            other = state.fork(target)
            other.part(condition, state, tested)
            self.states.append(other)
        elif taken:
            state.address = target


def _condition(state: PathState, word: int) -> tuple[str, Value]:
    """The condition on which a jump is taken, "" for a bit, and what is tested for it."""
    if word & 0xFF000010 == 0x54000000:
        return _jump(word & 15), state.tested
    if word & 0x7E000000 == 0x36000000:
        return "", None
    return "jne" if word >> 24 & 1 else "je", _read(state, word, word & 31)


def _jump(condition: int) -> str:
    return _CONDITIONS[condition] if condition < len(_CONDITIONS) else ""


def _taken(state: PathState, word: int) -> bool | None:
    if word & 0xFF000010 == 0x54000000:
        return _holds(state, word & 15)
    if word & 0x7E000000 == 0x36000000:  # tbz, tbnz
        value = _read(state, MASK, word & 31)
        bit = word >> 19 & 31 | word >> 26 & 32
        zero = not value >> bit & 1 if isinstance(value, int) else None
    else:
        value = _read(state, word, word & 31)
        zero = value == 0 if isinstance(value, int) else None
    return None if zero is None else zero != bool(word >> 24 & 1)


def _holds(state: PathState, condition: int) -> bool | None:
    if condition >= len(_CONDITIONS):
        return True
    return state.taken(_CONDITIONS[condition])


def _compute(evaluation: Aarch64Evaluation, state: PathState, word: int, address: int) -> None:
    """Follow an instruction that isn't a branch."""
    group = word >> 25 & 15
    if group & 0b0101 == 0b0100:
        _memory(evaluation, state, word)
        return
    for mask, pattern, handler in _HANDLERS:
        if word & mask == pattern:
            handler(evaluation, state, word, address)
            return
    if group & 0b1110 != 0b1010:  # no system instruction: these leave the flags
        state.flags = None
    _write(state, MASK, word & 31, None)


def _memory(evaluation: Aarch64Evaluation, state: PathState, word: int) -> None:
    transfer = access(word)
    size = transfer.size
    base = state.registers.get(_name(transfer.base, stack=True))
    place = plus(base, transfer.offset & MASK) if transfer.offset is not None else _indexed(state, word, base)
    for position, number in enumerate(transfer.loaded):
        value = evaluation.load(state, plus(place, position * size), size) if place is not None else None
        if isinstance(value, int) and transfer.signed:
            value = signed(value, 8 * size)
        _write(state, MASK, number, value)
    for position, number in enumerate(transfer.stored):
        evaluation.store(state, plus(place, position * size), narrowed(_read(state, MASK, number), size))
    if transfer.moves_base:
        moved = plus(base, transfer.step & MASK) if transfer.step is not None else None
        state.registers[_name(transfer.base, stack=True)] = moved


def _indexed(state: PathState, word: int, base: Value) -> Value:
    operand = indexed(word)
    index = _read(state, MASK, operand[0]) if operand else None
    return plus(base, extended(index, operand[1]) << operand[2] & MASK) if operand and isinstance(index, int) else None


def _page(_: Aarch64Evaluation, state: PathState, word: int, address: int) -> None:
    value = aarch64.page(word, address) if word >> 31 else address + signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
    _write(state, MASK, word & 31, value)


def _sum(state: PathState, word: int, left: Value, right: Value, *, stack: bool) -> None:
    """add and sub: bit 30 subtracts, bit 29 sets the flags."""
    subtracts, flags = word >> 30 & 1, word >> 29 & 1
    if flags:
        state.flags = None
        if subtracts and isinstance(left, int) and isinstance(right, int):
            state.flags = ComparisonFlags(left, right, 8 if word >> 31 else 4)
        elif subtracts and isinstance(left, LoadedField) and right == 0:
            state.flags = left
    if subtracts:
        right = -right & MASK if isinstance(right, int) else None
    _write(state, word, word & 31, plus(left, right), stack=stack and not flags)


def _sum_immediate(_: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    right = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
    _sum(state, word, _read(state, word, word >> 5 & 31, stack=True), right, stack=True)


def _guards(evaluation: Aarch64Evaluation, state: PathState, word: int) -> bool:
    """Whether the instruction compares the stack's guard with what was kept of it: GCC clears what it was compared with."""
    clears = evaluation.image.constant(state.address, 4) == _CLEAR | word >> 16 & 31
    return clears and word & _SUBTRACT == _SUBTRACTS and word & 31 == word >> 5 & 31


def _sum_shifted(evaluation: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    shift, amount = word >> 22 & 3, word >> 10 & 63
    right = _read(state, word, word >> 16 & 31)
    if amount:
        right = right << amount & MASK if isinstance(right, int) and not shift else None
    _sum(state, word, _read(state, word, word >> 5 & 31), right, stack=False)
    if _guards(evaluation, state, word):
        state.flags = ComparisonFlags(0, 0, 8)  # else the program ends


def _sum_extended(_: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    right = _read(state, MASK, word >> 16 & 31)
    right = extended(right, word >> 13 & 7) << (word >> 10 & 7) & MASK if isinstance(right, int) else None
    _sum(state, word, _read(state, word, word >> 5 & 31, stack=True), right, stack=True)


def _logic_immediate(_: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    """A field of which only some bits are kept is still that field."""
    operation, width = word >> 29 & 3, 64 if word >> 31 else 32
    left, right = _read(state, word, word >> 5 & 31), aarch64.logical_immediate(word)
    right = None if right is None else right & (1 << width) - 1
    value: Value = masked(left, right) if operation in (0, 3) and right is not None else None
    if isinstance(left, int) and right is not None:
        value = (left & right, left | right, left ^ right, left & right)[operation]
    if operation == 3:
        _set_flags(state, word, value)
    _write(state, word, word & 31, value, stack=operation != 3)


def _set_flags(state: PathState, word: int, value: Value) -> None:
    """The flags of a logical result."""
    state.flags = ComparisonFlags(value, 0, 8 if word >> 31 else 4) if isinstance(value, int) else None


def _logic(_: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    operation, source = word >> 29 & 3, word >> 5 & 31
    left, right = _read(state, word, source), _read(state, word, word >> 16 & 31)
    value: Value = None
    if word & 0x00E0FC00:  # shifted or inverted
        pass
    elif operation == 1 and source == 31:  # orr of the zero register: mov
        value = right
    elif isinstance(left, int) and isinstance(right, int):
        value = (left & right, left | right, left ^ right, left & right)[operation]
    elif operation in (0, 3):
        value = masked(left, right)
    if operation == 3:
        _set_flags(state, word, value)
    _write(state, word, word & 31, value)


def _move_wide(_: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    """movn, movz and movk."""
    operation, shift = word >> 29 & 3, 16 * (word >> 21 & 3)
    part = (word >> 5 & 0xFFFF) << shift
    before = _read(state, word, word & 31)
    value: Value = part if operation == 2 else ~part & MASK if operation == 0 else None
    if operation == 3 and isinstance(before, int):
        value = before & ~(0xFFFF << shift) | part
    _write(state, word, word & 31, value)


def _bits(_: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    """sbfm and ubfm: those that take bits out of a register (lsr, uxtb, sxtw and their like), and those that shift its lowest
    ones to the left (lsl, ubfiz and theirs)."""
    operation, low, high = word >> 29 & 3, word >> 16 & 63, word >> 10 & 63
    value = _read(state, word, word >> 5 & 31)
    if isinstance(value, int) and operation in (0, 2):
        first, shift = (low, 0) if high >= low else (0, (64 if word >> 31 else 32) - low)
        bits = value >> first & (1 << high - first + 1) - 1
        value = (signed(bits, high - first + 1) if operation == 0 else bits) << shift & MASK
    else:
        value = masked(value, (1 << high + 1) - 1) if isinstance(value, LoadedField) and not low and operation != 1 else None
    _write(state, word, word & 31, value)


def _selected(state: PathState, word: int) -> tuple[Value, Value]:
    """The values that a select gives where its condition holds, and where it doesn't."""
    yes, no = _read(state, word, word >> 5 & 31), _read(state, word, word >> 16 & 31)
    inverts, adds = word >> 30 & 1, word >> 10 & 1
    if inverts or adds:
        no = (~no if inverts else no) + adds & MASK if isinstance(no, int) else None
    return yes, no


def _select(evaluation: Aarch64Evaluation, state: PathState, word: int, _: int) -> None:
    """csel, csinc, csinv and csneg; both ways where the condition isn't known."""
    yes, no = _selected(state, word)
    holds = _holds(state, word >> 12 & 15)
    if holds is None:
        other = state.fork(state.address)
        state.part(_jump(word >> 12 & 15), other, state.tested)
        yes, no = _selected(state, word)[0], _selected(other, word)[1]
        _write(other, word, word & 31, no)
        evaluation.states.append(other)
    _write(state, word, word & 31, no if holds is False else yes)


# By the flags N, Z, C and V that a conditional compare sets where it compares nothing: those of a comparison that sets them so,
# without C where none does.
_AS_COMPARED = {
    0b0000: ComparisonFlags(1, 0, 4, carry=False),
    0b0010: ComparisonFlags(1, 0, 4),
    0b0100: ComparisonFlags(0, 0, 4, carry=False),
    0b0110: ComparisonFlags(0, 0, 4),
    0b1000: ComparisonFlags(0, 1, 4),
}


def _compare_if(_: Aarch64Evaluation, state: PathState, word: int, __: int) -> None:
    """ccmp of a register with another or with a small number, if a condition holds."""
    left = _read(state, word, word >> 5 & 31)
    right = word >> 16 & 31 if word >> 11 & 1 else _read(state, word, word >> 16 & 31)
    holds = _holds(state, word >> 12 & 15)
    state.flags = None
    if holds and isinstance(left, int) and isinstance(right, int):
        state.flags = ComparisonFlags(left, right, 8 if word >> 31 else 4)
    elif holds is False:
        state.flags = _AS_COMPARED.get(word & 15)


_Handler = Callable[[Aarch64Evaluation, PathState, int, int], None]
_HANDLERS: tuple[tuple[int, int, _Handler], ...] = (
    (0x1F000000, 0x10000000, _page),
    (0x1F800000, 0x11000000, _sum_immediate),
    (0x1F800000, 0x12000000, _logic_immediate),
    (0x1F800000, 0x12800000, _move_wide),
    (0x1F800000, 0x13000000, _bits),
    (0x1F000000, 0x0A000000, _logic),
    (0x1F200000, 0x0B000000, _sum_shifted),
    (0x1FE00000, 0x0B200000, _sum_extended),
    (0x3FE00800, 0x1A800000, _select),
    (0x7FE00410, 0x7A400000, _compare_if),
)
