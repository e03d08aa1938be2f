# SPDX-License-Identifier: Apache-2.0
"""Values that a small x86-64 function returns: the instructions that evaluation.py follows, as Capstone decodes them.

An instruction that isn't listed here leaves what it writes unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from ssllatency.code.decode import instructions
from ssllatency.code.evaluation import ARGUMENTS, Evaluation, PathState
from ssllatency.code.values import MASK, ComparisonFlags, LoadedField, SymbolicAddress, Value, masked, narrowed, plus, signed
from ssllatency.code.x86 import vectors
from ssllatency.elf.image import Image

_CHUNK = 64
_LONGEST = 15
_CLOBBERED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
_ENDS = ("ud2", "int3", "hlt")
_LAST = ("ret", "jmp", *_ENDS)  # what follows them isn't run next
_REGISTER, _IMMEDIATE = 1, 2  # capstone.CS_OP_REG, CS_OP_IMM
_GUARD_AT = 0x28  # of the thread's block: the stack's guard, on Linux
_GUARD = SymbolicAddress("guard", 0)


def _registers() -> dict[str, tuple[str, int]]:
    """Every general register's name to the 64-bit register that it is part of, and its size in bytes; 0: not its low ones."""
    table: dict[str, tuple[str, int]] = {}
    for letter in "abcd":
        whole = f"r{letter}x"
        table |= {whole: (whole, 8), f"e{letter}x": (whole, 4), f"{letter}x": (whole, 2)}
        table |= {f"{letter}l": (whole, 1), f"{letter}h": (whole, 0)}
    for stem in ("si", "di", "bp", "sp"):
        table |= {f"r{stem}": (f"r{stem}", 8), f"e{stem}": (f"r{stem}", 4), stem: (f"r{stem}", 2), f"{stem}l": (f"r{stem}", 1)}
    for number in range(8, 16):
        whole = f"r{number}"
        table |= {whole: (whole, 8), f"{whole}d": (whole, 4), f"{whole}w": (whole, 2), f"{whole}b": (whole, 1)}
    return table


_REGISTERS = _registers()
# By image, the instructions by their addresses: the same functions are evaluated in many cases.
_decoded: WeakKeyDictionary[Image, dict[int, Any]] = WeakKeyDictionary()


def _merged(whole: Value, value: Value, size: int) -> Value:
    """A register whose low `size` bytes are written; 0: others are."""
    mask = (1 << 8 * size) - 1
    return whole & ~mask & MASK | value & mask if size and isinstance(whole, int) and isinstance(value, int) else None


class X86Evaluation(Evaluation):
    """One evaluation of a function of an x86-64 image."""

    stack_pointer = "rsp"
    result_register = "rax"
    arguments = ARGUMENTS

    def __init__(self, image: Image) -> None:
        super().__init__(image)
        self._decoded = _decoded.setdefault(image, {})

    def _instruction(self, address: int) -> Any | None:
        if address not in self._decoded:
            if not self.image.executable(address):
                return None
            code = self.image.code(address, _CHUNK)
            for instruction in instructions(code, address, self.image.machine):
                # One that ends near the end of the chunk may have been cut, and is decoded again from its own start.
                cut = instruction.address != address and instruction.address + _LONGEST > address + len(code)
                if cut or instruction.address in self._decoded:
                    break
                self._decoded[instruction.address] = instruction
                if instruction.mnemonic in _LAST:
                    break
        return self._decoded.get(address)

    def step(self, state: PathState) -> bool:
        instruction = self._instruction(state.address)
        if instruction is None:
            return self.end(None)
        name = instruction.mnemonic.rsplit(" ", 1)[-1]
        state.address += instruction.size
        if name == "ret":
            return self.end(state.registers.get(self.result_register))
        if name == "call":
            self.note_call(state, self.read(state, instruction, instruction.operands[0]))
            if self.leaves(instruction.address, instruction.size):
                return False
        if name in _ENDS:
            return self.end(None)
        if name.startswith("j"):
            return self._jump(state, name, instruction)
        if name.startswith("cmov"):
            return self._conditional_move(state, name, instruction)
        if name.startswith("set"):
            taken = state.taken(f"j{name[3:]}")
            self.write(state, instruction, instruction.operands[0], None if taken is None else int(taken))
            return True
        handler = _HANDLERS.get(name, _other)
        handler(self, state, instruction)
        return True

    def _jump(self, state: PathState, name: str, instruction: Any) -> bool:
        target = self.read(state, instruction, instruction.operands[0])
        if name == "jmp":
            self.note_jump(state, instruction.address, target)
            if not isinstance(target, int):
                return self.end(None)
            state.address = target
            return True
        taken = state.taken(name)
        if isinstance(target, int) and taken is None:
            other = state.fork(target)
            other.part(name, state, state.tested)
            self.states.append(other)
        if isinstance(target, int) and taken:
            state.address = target
        return True

    def _conditional_move(self, state: PathState, name: str, instruction: Any) -> bool:
        condition = f"j{name[4:]}"
        taken = state.taken(condition)
        if taken is None:
            other = state.fork(state.address)
            state.part(condition, other, state.tested)
            self.states.append(other)
        if taken is not False:
            _move(self, state, instruction)
        return True

    # Operands.

    def address_of(self, state: PathState, instruction: Any, operand: Any) -> Value:
        """The address that a memory operand names."""
        memory = operand.mem
        if memory.segment:
            return None
        value: Value = memory.disp & MASK
        if memory.base:
            base = instruction.reg_name(memory.base)
            value = plus(value, state.address if base == "rip" else self.register(state, base))
        if memory.index:
            index = self.register(state, instruction.reg_name(memory.index))
            value = plus(value, index * memory.scale & MASK if isinstance(index, int) else None)
        return value

    def register(self, state: PathState, name: str) -> Value:
        whole, size = _REGISTERS.get(name, ("", 0))
        return narrowed(state.registers.get(whole), size) if size else None

    def read(self, state: PathState, instruction: Any, operand: Any) -> Value:
        """The value of an operand: a register, a number, or what memory holds."""
        if operand.type == _REGISTER:
            return self.register(state, instruction.reg_name(operand.reg))
        if operand.type == _IMMEDIATE:
            return int(operand.imm) & MASK
        if _is_guard(instruction, operand):
            return _GUARD
        return self.load(state, self.address_of(state, instruction, operand), operand.size)

    def write(self, state: PathState, instruction: Any, operand: Any, value: Value) -> None:
        """Stores `value` in a register or on the stack; other memory is noted, and not followed."""
        if operand.type == _REGISTER:
            whole, size = _REGISTERS.get(instruction.reg_name(operand.reg), ("", 0))
            state.registers[whole] = narrowed(value, size) if size >= 4 else _merged(state.registers.get(whole), value, size)
            return
        self.store(state, self.address_of(state, instruction, operand), narrowed(value, operand.size))

    def load_at(self, state: PathState, instruction: Any, operand: Any) -> tuple[Value, Value]:
        """The two values of 64 bits where a memory operand leads."""
        address = self.address_of(state, instruction, operand)
        return self.load(state, address, 8), self.load(state, plus(address, 8), 8)

    def store_at(self, state: PathState, instruction: Any, operand: Any, values: Iterable[Value]) -> None:
        """Stores values of 64 bits one behind the other where a memory operand leads."""
        address = self.address_of(state, instruction, operand)
        for position, value in enumerate(values):
            self.store(state, plus(address, 8 * position), value)


def _is_guard(instruction: Any, operand: Any) -> bool:
    """Whether a memory operand is the stack's guard, fs:0x28."""
    memory = operand.mem
    return (
        bool(memory.segment)
        and not memory.base
        and not memory.index
        and memory.disp == _GUARD_AT
        and instruction.reg_name(memory.segment) == "fs"
    )


def _move(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    target, origin = instruction.operands
    evaluation.write(state, instruction, target, evaluation.read(state, instruction, origin))


def _move_signed(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    target, origin = instruction.operands
    value = evaluation.read(state, instruction, origin)
    if isinstance(value, int):
        value = signed(value, 8 * origin.size) & MASK
    evaluation.write(state, instruction, target, value)


def _address(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    target, origin = instruction.operands
    evaluation.write(state, instruction, target, evaluation.address_of(state, instruction, origin))


def _compared(left: Value, right: Value, size: int) -> ComparisonFlags | None:
    """The flags after comparing two values, if that is known. The stack's guard is found to be as it was: else the program
    ends."""
    if isinstance(left, int) and isinstance(right, int):
        return ComparisonFlags(left, right, size)
    return ComparisonFlags(0, 0, size) if _GUARD in (left, right) else None


def _add(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    target, other = instruction.operands
    left, right = (evaluation.read(state, instruction, operand) for operand in (target, other))
    state.flags = None
    if instruction.mnemonic.endswith("sub"):
        state.flags = _compared(left, right, target.size)
        right = -right & MASK if isinstance(right, int) else None
    evaluation.write(state, instruction, target, plus(left, right))


def _count(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    """inc and dec, which leave the carry flag as it was."""
    (target,) = instruction.operands
    step = 1 if instruction.mnemonic.endswith("inc") else MASK
    value = evaluation.read(state, instruction, target)
    state.flags = ComparisonFlags(value, -step & MASK, target.size, carry=False) if isinstance(value, int) else None
    evaluation.write(state, instruction, target, plus(value, step))


def _widen(_: X86Evaluation, state: PathState, __: Any) -> None:
    value = narrowed(state.registers.get("rax"), 4)
    state.registers["rax"] = signed(value, 32) & MASK if isinstance(value, int) else value


def _logic(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    """xor of a register with itself is 0, and so is that of the stack's guard with what was kept of it; or with all ones is
    that."""
    target, other = instruction.operands
    left, right = (evaluation.read(state, instruction, operand) for operand in (target, other))
    value: Value = None
    same = target.type == other.type == _REGISTER and target.reg == other.reg
    if instruction.mnemonic == "xor" and (same or _GUARD in (left, right)):
        value = 0
    elif instruction.mnemonic == "and":
        value = masked(left, right)
    elif instruction.mnemonic == "or" and narrowed(right, target.size) == (1 << 8 * target.size) - 1:
        value = right
    elif isinstance(left, int) and isinstance(right, int):
        value = left | right if instruction.mnemonic == "or" else left ^ right
    state.flags = ComparisonFlags(value, 0, target.size) if isinstance(value, int) else None
    evaluation.write(state, instruction, target, value)


def _complement(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    """not, which leaves the flags as they were."""
    (target,) = instruction.operands
    value = evaluation.read(state, instruction, target)
    evaluation.write(state, instruction, target, value ^ MASK if isinstance(value, int) else None)


def _compare(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    left, right = (evaluation.read(state, instruction, operand) for operand in instruction.operands)
    tests, size = instruction.mnemonic == "test", instruction.operands[0].size
    state.flags = _compared(masked(left, right), 0, size) if tests else _compared(left, right, size)
    if state.flags is None and isinstance(left, LoadedField) and right == (left if tests else 0):
        state.flags = left


def _test_bit(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    """The carry flag is the bit; the others stay."""
    word, number = instruction.operands
    left, right = (evaluation.read(state, instruction, operand) for operand in (word, number))
    state.flags = None
    if isinstance(left, int) and isinstance(right, int) and word.type == _REGISTER:
        bit = left >> right % (8 * word.size) & 1
        state.flags = ComparisonFlags(0, bit, 1, alone=True)  # 0 is below 1


def _shift(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    target, *by = instruction.operands
    value = evaluation.read(state, instruction, target)
    count = evaluation.read(state, instruction, by[0]) if by else 1
    state.flags, shifted = None, None
    if isinstance(value, int) and isinstance(count, int):
        count &= 63 if target.size == 8 else 31
        shifted = value >> count if instruction.mnemonic == "shr" else value << count & MASK
        if count > 1:  # else signed comparisons mean something else
            state.flags = ComparisonFlags(shifted, 0, target.size, carry=False)
    evaluation.write(state, instruction, target, shifted)


def _push(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    value = evaluation.read(state, instruction, instruction.operands[0])
    top = state.registers["rsp"] = plus(state.registers.get("rsp"), -8 & MASK)
    if isinstance(top, SymbolicAddress):
        state.stack[top.offset] = value


def _pop(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    top = state.registers.get("rsp")
    state.registers["rsp"] = plus(top, 8)
    evaluation.write(state, instruction, instruction.operands[0], evaluation.load(state, top, 8))


def _leave(evaluation: X86Evaluation, state: PathState, _: Any) -> None:
    top = state.registers.get("rbp")
    state.registers["rsp"] = plus(top, 8)
    state.registers["rbp"] = evaluation.load(state, top, 8)


def _call(evaluation: X86Evaluation, state: PathState, instruction: Any) -> None:
    target = evaluation.read(state, instruction, instruction.operands[0])
    state.flags = None
    for name in _CLOBBERED:
        state.registers[name] = None
    vectors.forget_all(state)
    evaluation.answer(state, target)


def _other(_: X86Evaluation, state: PathState, instruction: Any) -> None:
    """An instruction that isn't followed: what it writes is unknown."""
    state.flags = None
    for register in instruction.regs_access()[1]:
        name = instruction.reg_name(register)
        vectors.forget(state, name)
        state.registers[_REGISTERS.get(name, ("", 0))[0]] = None


def _nothing(_: X86Evaluation, __: PathState, ___: Any) -> None:
    pass


_HANDLERS = {
    **vectors.HANDLERS,
    **dict.fromkeys(("mov", "movabs", "movzx"), _move),
    **dict.fromkeys(("movsxd", "movsx"), _move_signed),
    **dict.fromkeys(("add", "sub"), _add),
    **dict.fromkeys(("inc", "dec"), _count),
    "cdqe": _widen,
    **dict.fromkeys(("and", "or", "xor"), _logic),
    "not": _complement,
    **dict.fromkeys(("cmp", "test"), _compare),
    "bt": _test_bit,
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("nop", "endbr64", "endbr32"), _nothing),
    "lea": _address,
    "push": _push,
    "pop": _pop,
    "leave": _leave,
    "call": _call,
}
