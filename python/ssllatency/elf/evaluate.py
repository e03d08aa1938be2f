# SPDX-License-Identifier: Apache-2.0
"""What a small function returns, found by following its instructions on known and unknown values. Here those of x86-64; the
instructions of aarch64 are in evaluate_aarch64.py.

`SSL_want` returns a field of its argument, `RSA_PKCS1_OpenSSL` the address of a table, a provider's query function a table that
depends on a number: all are read this way, whatever the compiler made of them. Nothing is executed; calls are not entered; both
ways of a jump are followed when its condition is unknown. Steps and paths have caps, so that any code ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ssllatency.elf.decode import instructions
from ssllatency.elf.values import MASK, Case, Comparison, Field, Place, Value, plus, signed

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

MAX_STEPS = 400
MAX_PATHS = 32
_CHUNK = 64
_LONGEST = 15
_CLOBBERED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_ENDS = ("ud2", "int3", "hlt")


def _registers() -> dict[str, tuple[str, int]]:
    """Every general register's name to the 64-bit register that it is part of, and its size in bytes."""
    table: dict[str, tuple[str, int]] = {}
    for letter in "abcd":
        whole = f"r{letter}x"
        table |= {whole: (whole, 8), f"e{letter}x": (whole, 4), f"{letter}x": (whole, 2)}
        table |= {f"{letter}l": (whole, 1), f"{letter}h": (whole, 1)}
    for stem in ("si", "di", "bp", "sp"):
        table |= {f"r{stem}": (f"r{stem}", 8), f"e{stem}": (f"r{stem}", 4), stem: (f"r{stem}", 2), f"{stem}l": (f"r{stem}", 1)}
    for number in range(8, 16):
        whole = f"r{number}"
        table |= {whole: (whole, 8), f"{whole}d": (whole, 4), f"{whole}w": (whole, 2), f"{whole}b": (whole, 1)}
    return table


REGISTERS = _registers()


@dataclass
class State:
    """One path: where it is, what registers and stack words hold, and the last comparison of two numbers."""

    address: int
    registers: dict[str, Value]
    stack: dict[int, Value] = field(default_factory=dict)
    flags: Comparison | None = None

    def fork(self, address: int) -> State:
        return State(address, dict(self.registers), dict(self.stack), self.flags)


def returned(image: Image, address: int, **arguments: Value) -> list[Value]:
    """What the function at `address` can return, a value for each way out; None among them for what can't be told.

    `arguments` are what registers hold at entry. They are named as on x86-64 (rdi, rsi, …, the first arguments), on either
    machine. Empty where no way out was reached.
    """
    return _evaluation(image).run(address, _registers_of(image, arguments))


def fields_read(image: Image, address: int, **arguments: Value) -> set[Field]:
    """The fields that the function at `address` reads on any of its ways, whatever it makes of them; else as returned()."""
    evaluation = _evaluation(image)
    evaluation.run(address, _registers_of(image, arguments))
    return evaluation.fields


def returned_in_cases(image: Image, address: int, cases: Iterable[Case]) -> Iterator[list[Value]]:
    """What returned() says of the function at `address` in each of the cases; its code is decoded once for all."""
    evaluation = _evaluation(image)
    for case in cases:
        yield evaluation.run(address, _registers_of(image, case.arguments), case)


def _registers_of(image: Image, arguments: Mapping[str, Value]) -> dict[str, Value]:
    if image.machine == "x86-64":
        return dict(arguments)
    return {f"x{_ARGUMENTS.index(name)}": value for name, value in arguments.items()}


def _evaluation(image: Image) -> Evaluation:
    if image.machine == "x86-64":
        return Evaluation(image)
    from ssllatency.elf.evaluate_aarch64 import Aarch64Evaluation

    return Aarch64Evaluation(image)


class Evaluation:
    """The evaluation of one function. `states` are the paths still to be followed, `fields` the fields read so far."""

    stack_pointer = "rsp"
    result_register = "rax"

    def __init__(self, image: Image) -> None:
        self.fields: set[Field] = set()
        self.image = image
        self._decoded: dict[int, Any] = {}
        self._callees: dict[tuple[int, str], bool] = {}
        self._results: list[Value] = []
        self._case = Case()
        self.states: list[State] = []

    def run(self, address: int, registers: dict[str, Value], case: Case | None = None) -> list[Value]:
        self._results, self._case = [], case or Case()
        self.states = [State(address, {**registers, self.stack_pointer: Place("stack", 0)})]
        paths = steps = 0
        while self.states and paths < MAX_PATHS and steps < MAX_STEPS:
            state = self.states.pop()
            paths += 1
            while steps < MAX_STEPS and self.step(state):
                steps += 1
        return [*self._results, None] if self.states or steps == MAX_STEPS else self._results

    def _instruction(self, address: int) -> Any | None:
        if address not in self._decoded:
            if not self.image.executable(address):
                return None
            code = self.image.code(address, _CHUNK)
            for each in instructions(code, address, self.image.machine):
                # One that ends near the end of the chunk may have been cut, and is decoded again from its own start.
                if each.address == address or each.address + _LONGEST <= address + len(code):
                    self._decoded.setdefault(each.address, each)
        return self._decoded.get(address)

    def step(self, state: State) -> bool:
        """Follows one instruction; false where the path ends."""
        instruction = self._instruction(state.address)
        if instruction is None:
            return self.end(None)
        name = instruction.mnemonic.rsplit(" ", 1)[-1]
        state.address += instruction.size
        if name == "ret":
            return self.end(state.registers.get(self.result_register))
        if name in _ENDS or (name == "call" and self.leaves(instruction.address, instruction.size)):
            return self.end(None)
        if name.startswith("j"):
            return self._jump(state, name, instruction)
        if name.startswith("cmov"):
            return self._conditional_move(state, name, instruction)
        handler = _HANDLERS.get(name, _other)
        handler(self, state, instruction)
        return True

    def leaves(self, address: int, size: int) -> bool:
        """Whether the call at `address` is the last instruction of its function, so never returns."""
        bounds = self.image.function_bounds(address)
        return bounds is not None and address + size >= bounds[1]

    def answer(self, state: State, target: Value) -> None:
        """Puts what the function at `target`, which has just been called, is known to return where it returns it."""
        for name, value in self._case.calls.items():
            if isinstance(target, int) and self._is(target, name):
                state.registers[self.result_register] = value

    def _is(self, target: int, name: str) -> bool:
        """Whether a call of `target` reaches the function called `name`, through the PLT or not."""
        if (target, name) not in self._callees:
            function = self.image.function(name)
            reached = function is not None and function.address == target
            self._callees[target, name] = reached or self.image.plt_target(target) == name
        return self._callees[target, name]

    def end(self, value: Value) -> bool:
        """Ends a path, which returns `value`."""
        self._results.append(value)
        return False

    def _jump(self, state: State, name: str, instruction: Any) -> bool:
        target = self.read(state, instruction, instruction.operands[0])
        if name == "jmp":
            if not isinstance(target, int):
                return self.end(None)
            state.address = target
            return True
        taken = state.flags.taken(name) if state.flags else None
        if isinstance(target, int) and taken is None:
            self.states.append(state.fork(target))
        if isinstance(target, int) and taken:
            state.address = target
        return True

    def _conditional_move(self, state: State, name: str, instruction: Any) -> bool:
        taken = state.flags.taken(f"j{name[4:]}") if state.flags else None
        if taken is None:
            self.states.append(state.fork(state.address))
        if taken is not False:
            _move(self, state, instruction)
        return True

    # Operands.

    def address_of(self, state: State, instruction: Any, operand: Any) -> Value:
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

    def register(self, state: State, name: str) -> Value:
        whole, size = REGISTERS.get(name, ("", 0))
        value = state.registers.get(whole)
        if isinstance(value, int):
            return value & (1 << 8 * size) - 1
        return value if size == 8 or (size == 4 and isinstance(value, Field)) else None

    def read(self, state: State, instruction: Any, operand: Any) -> Value:
        """The value of an operand: a register, a number, or what memory holds."""
        if operand.type == _REGISTER:
            return self.register(state, instruction.reg_name(operand.reg))
        if operand.type == _IMMEDIATE:
            return int(operand.imm) & MASK
        return self.load(state, self.address_of(state, instruction, operand), operand.size)

    def load(self, state: State, address: Value, size: int) -> Value:
        """What memory holds at `address`."""
        if isinstance(address, Place):
            if address.base == "stack":
                return state.stack.get(address.offset)
            found = Field((*(address.base.path if isinstance(address.base, Field) else ()), address.offset))
            self.fields.add(found)
            return self._case.fields.get(found, found)
        if isinstance(address, int):
            return self.image.pointer(address) if size == 8 else self.image.constant(address, size)
        return None

    def write(self, state: State, instruction: Any, operand: Any, value: Value) -> None:
        """Stores `value` in a register or on the stack; other memory is not followed."""
        if operand.type == _REGISTER:
            whole, size = REGISTERS.get(instruction.reg_name(operand.reg), ("", 0))
            if isinstance(value, int) and size == 4:
                value &= 0xFFFFFFFF
            state.registers[whole] = value if size >= 4 else None
            return
        address = self.address_of(state, instruction, operand)
        if isinstance(address, Place) and address.base == "stack":
            state.stack[address.offset] = value


_REGISTER, _IMMEDIATE = 1, 2  # capstone.CS_OP_REG, CS_OP_IMM


def _move(evaluation: Evaluation, state: State, instruction: Any) -> None:
    target, origin = instruction.operands
    evaluation.write(state, instruction, target, evaluation.read(state, instruction, origin))


def _move_signed(evaluation: Evaluation, state: State, instruction: Any) -> None:
    target, origin = instruction.operands
    value = evaluation.read(state, instruction, origin)
    if isinstance(value, int):
        value = signed(value, origin.size) & MASK
    evaluation.write(state, instruction, target, value)


def _address(evaluation: Evaluation, state: State, instruction: Any) -> None:
    target, origin = instruction.operands
    evaluation.write(state, instruction, target, evaluation.address_of(state, instruction, origin))


def _add(evaluation: Evaluation, state: State, instruction: Any) -> None:
    target, other = instruction.operands
    left, right = (evaluation.read(state, instruction, each) for each in (target, other))
    state.flags = None
    if instruction.mnemonic.endswith("sub"):
        state.flags = Comparison(left, right, target.size) if isinstance(left, int) and isinstance(right, int) else None
        right = -right & MASK if isinstance(right, int) else None
    evaluation.write(state, instruction, target, plus(left, right))


def _count(evaluation: Evaluation, state: State, instruction: Any) -> None:
    """inc and dec, which leave the carry flag as it was."""
    (target,) = instruction.operands
    step = 1 if instruction.mnemonic.endswith("inc") else MASK
    value = evaluation.read(state, instruction, target)
    state.flags = Comparison(value, -step & MASK, target.size, carry=False) if isinstance(value, int) else None
    evaluation.write(state, instruction, target, plus(value, step))


def _widen(_: Evaluation, state: State, __: Any) -> None:
    value = state.registers.get("rax")
    state.registers["rax"] = signed(value, 4) & MASK if isinstance(value, int) else None


def _logic(evaluation: Evaluation, state: State, instruction: Any) -> None:
    """xor of a register with itself is 0; a field of which only some bits are kept is still that field."""
    target, other = instruction.operands
    left, right = (evaluation.read(state, instruction, each) for each in (target, other))
    value: Value = None
    if instruction.mnemonic == "xor" and target.type == other.type == _REGISTER and target.reg == other.reg:
        value = 0
    elif instruction.mnemonic == "and":
        value = left & right if isinstance(left, int) and isinstance(right, int) else one_field(left, right)
    state.flags = Comparison(value, 0, target.size) if isinstance(value, int) else None
    evaluation.write(state, instruction, target, value)


def one_field(left: Value, right: Value) -> Value:
    fields = [each for each in (left, right) if isinstance(each, Field)]
    return fields[0] if len(fields) == 1 else None


def _compare(evaluation: Evaluation, state: State, instruction: Any) -> None:
    left, right = (evaluation.read(state, instruction, each) for each in instruction.operands)
    state.flags = None
    if isinstance(left, int) and isinstance(right, int):
        size = instruction.operands[0].size
        state.flags = Comparison(left & right, 0, size) if instruction.mnemonic == "test" else Comparison(left, right, size)


def _push(evaluation: Evaluation, state: State, instruction: Any) -> None:
    value = evaluation.read(state, instruction, instruction.operands[0])
    top = state.registers["rsp"] = plus(state.registers.get("rsp"), -8 & MASK)
    if isinstance(top, Place):
        state.stack[top.offset] = value


def _pop(evaluation: Evaluation, state: State, instruction: Any) -> None:
    top = state.registers.get("rsp")
    state.registers["rsp"] = plus(top, 8)
    evaluation.write(state, instruction, instruction.operands[0], evaluation.load(state, top, 8))


def _leave(evaluation: Evaluation, state: State, _: Any) -> None:
    top = state.registers.get("rbp")
    state.registers["rsp"] = plus(top, 8)
    state.registers["rbp"] = evaluation.load(state, top, 8)


def _call(evaluation: Evaluation, state: State, instruction: Any) -> None:
    target = evaluation.read(state, instruction, instruction.operands[0])
    state.flags = None
    for name in _CLOBBERED:
        state.registers[name] = None
    evaluation.answer(state, target)


def _other(_: Evaluation, state: State, instruction: Any) -> None:
    """An instruction that isn't followed: what it writes is unknown."""
    state.flags = None
    for register in instruction.regs_access()[1]:
        whole = REGISTERS.get(instruction.reg_name(register), ("", 0))[0]
        state.registers[whole] = None


def _nothing(_: Evaluation, __: State, ___: Any) -> None:
    pass


_HANDLERS = {
    **dict.fromkeys(("mov", "movabs", "movzx"), _move),
    **dict.fromkeys(("movsxd", "movsx"), _move_signed),
    **dict.fromkeys(("add", "sub"), _add),
    **dict.fromkeys(("inc", "dec"), _count),
    "cdqe": _widen,
    **dict.fromkeys(("and", "or", "xor"), _logic),
    **dict.fromkeys(("cmp", "test"), _compare),
    **dict.fromkeys(("nop", "endbr64", "endbr32"), _nothing),
    "lea": _address,
    "push": _push,
    "pop": _pop,
    "leave": _leave,
    "call": _call,
}
