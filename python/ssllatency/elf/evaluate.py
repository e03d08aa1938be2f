# SPDX-License-Identifier: Apache-2.0
"""What a small function returns, found by following its instructions on known and unknown values. Here those of x86-64; the
instructions of aarch64 are in evaluate_aarch64.py.

`SSL_want` returns a field of its argument, `RSA_PKCS1_OpenSSL` the address of a table, a provider's query function a table that
depends on a number: all are read this way, whatever the compiler made of them. Nothing is executed; calls are not entered; both
ways of a jump are followed when its condition is unknown. Steps and paths have caps, so that any code ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ssllatency.elf.decode import instructions
from ssllatency.elf.values import MASK, Call, Comparison, Field, Place, Value, masked, narrowed, plus, signed

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

MAX_STEPS = 400
MAX_PATHS = 32
_CHUNK = 64
_LONGEST = 15
_CLOBBERED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_ENDS = ("ud2", "int3", "hlt")


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


REGISTERS = _registers()


@dataclass
class State:
    """One path: where it is, what registers and stack words hold, and the last comparison of two numbers; or the field that was
    compared with zero."""

    address: int
    registers: dict[str, Value]
    stack: dict[int, Value] = field(default_factory=dict)
    flags: Comparison | Field | None = None

    def fork(self, address: int) -> State:
        return State(address, dict(self.registers), dict(self.stack), self.flags)

    def taken(self, condition: str) -> bool | None:
        """Whether a jump on `condition` is taken; None if that isn't known."""
        return self.flags.taken(condition) if isinstance(self.flags, Comparison) else None

    @property
    def tested(self) -> Field | None:
        """The field that was compared with zero last."""
        return self.flags if isinstance(self.flags, Field) else None

    def part(self, condition: str, other: State, tested: Value) -> None:
        """This path is the one on which `condition` holds, `other` that on which it doesn't: on one what was tested is zero."""
        zero = {"je": self, "jne": other}.get(condition)
        if zero and isinstance(tested, Field):
            zero.make_zero(tested)

    def make_zero(self, field: Field) -> None:
        """The field is known to be zero, so what was loaded from there is."""
        self.registers = {name: 0 if value == field else value for name, value in self.registers.items()}
        self.stack = {offset: 0 if value == field else value for offset, value in self.stack.items()}


def returned(image: Image, address: int, **arguments: Value) -> list[Value]:
    """What the function at `address` can return, a value for each way out; None among them for what can't be told.

    `arguments` are what registers hold at entry. They are named as on x86-64 (rdi, rsi, …, the first arguments), on either
    machine. Empty where no way out was reached.
    """
    return followed(image, address, **arguments).results


def fields_read(image: Image, address: int, **arguments: Value) -> set[Field]:
    """The fields that the function at `address` reads on any of its ways, whatever it makes of them; else as returned()."""
    return followed(image, address, **arguments).fields


def followed(image: Image, address: int, known: Mapping[tuple[int, ...], int] | None = None, **arguments: Value) -> Evaluation:
    """The finished evaluation of the function at `address`, with all that it saw; else as returned().

    `known` are numbers that fields hold, by the field's path.
    """
    evaluation = _evaluation(image)
    evaluation.known = known or {}
    evaluation.run(address, {evaluation.arguments[ARGUMENTS.index(name)]: value for name, value in arguments.items()})
    return evaluation


def _evaluation(image: Image) -> Evaluation:
    if image.machine == "x86-64":
        return Evaluation(image)
    from ssllatency.elf.evaluate_aarch64 import Aarch64Evaluation

    return Aarch64Evaluation(image)


class Evaluation:
    """The evaluation of one function.

    `results` is a value for each way out, `fields` the fields read, `calls` the calls made, and `stores` what was written to
    places that aren't the stack, all on any of its ways; `states` are the paths still to be followed.
    """

    stack_pointer = "rsp"
    arguments: tuple[str, ...] = ARGUMENTS

    def __init__(self, image: Image) -> None:
        self.results: list[Value] = []
        self.fields: set[Field] = set()
        self.calls: list[Call] = []
        self.stores: list[tuple[Place, Value]] = []
        self.known: Mapping[tuple[int, ...], int] = {}
        self.image = image
        self._decoded: dict[int, Any] = {}
        self.states: list[State] = []

    def run(self, address: int, registers: dict[str, Value]) -> None:
        """Follows the function at `address` with these registers; None is among the results where a cap was met."""
        self.states = [State(address, {**registers, self.stack_pointer: Place("stack", 0)})]
        paths = steps = 0
        while self.states and paths < MAX_PATHS and steps < MAX_STEPS:
            state = self.states.pop()
            paths += 1
            while steps < MAX_STEPS and self.step(state):
                steps += 1
        if self.states or steps == MAX_STEPS:
            self.end(None)

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
            return self.end(state.registers.get("rax"))
        if name == "call":
            self.note_call(state, self.read(state, instruction, instruction.operands[0]))
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

    def end(self, value: Value) -> bool:
        """Ends a path, which returns `value`."""
        self.results.append(value)
        return False

    def note_call(self, state: State, target: Value) -> None:
        """Notes a call, where it is known to whom."""
        if isinstance(target, int | Field):
            self.calls.append(Call(target, tuple(state.registers.get(name) for name in self.arguments)))

    def note_jump(self, state: State, address: int, target: Value) -> None:
        """Notes the jump at `address`, if it leaves the function, as the call that it is."""
        bounds = self.image.function_bounds(address)
        if not isinstance(target, int) or (bounds and not bounds[0] <= target < bounds[1]):
            self.note_call(state, target)

    def _jump(self, state: State, name: str, instruction: Any) -> bool:
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

    def _conditional_move(self, state: State, name: str, instruction: Any) -> bool:
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
        return narrowed(state.registers.get(whole), size) if size else None

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
                return narrowed(state.stack.get(address.offset), size)
            if isinstance(address.base, str) and address.base != "argument":
                return None
            found = Field((*(address.base.path if isinstance(address.base, Field) else ()), address.offset), size)
            self.fields.add(found)
            return narrowed(self.known.get(found.path, found), size)
        if isinstance(address, int):
            return self.image.pointer(address) if size == 8 else self.image.constant(address, size)
        return None

    def write(self, state: State, instruction: Any, operand: Any, value: Value) -> None:
        """Stores `value` in a register or on the stack; other memory is noted, and not followed."""
        if operand.type == _REGISTER:
            whole, size = REGISTERS.get(instruction.reg_name(operand.reg), ("", 0))
            state.registers[whole] = narrowed(value, size) if size >= 4 else None
            return
        self.store(state, self.address_of(state, instruction, operand), narrowed(value, operand.size))

    def store(self, state: State, address: Value, value: Value) -> None:
        """Stores `value` at `address`."""
        if isinstance(address, Place):
            if address.base == "stack":
                state.stack[address.offset] = value
            else:
                self.stores.append((address, value))


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
    (target,) = instruction.operands
    step = 1 if instruction.mnemonic.endswith("inc") else MASK
    state.flags = None
    evaluation.write(state, instruction, target, plus(evaluation.read(state, instruction, target), step))


def _widen(_: Evaluation, state: State, __: Any) -> None:
    value = state.registers.get("rax")
    state.registers["rax"] = signed(value, 4) & MASK if isinstance(value, int) else None


def _logic(evaluation: Evaluation, state: State, instruction: Any) -> None:
    """xor of a register with itself is 0."""
    target, other = instruction.operands
    left, right = (evaluation.read(state, instruction, each) for each in (target, other))
    value: Value = None
    if instruction.mnemonic == "xor" and target.type == other.type == _REGISTER and target.reg == other.reg:
        value = 0
    elif instruction.mnemonic == "and":
        value = masked(left, right)
    state.flags = Comparison(value, 0, target.size) if isinstance(value, int) else None
    evaluation.write(state, instruction, target, value)


def _compare(evaluation: Evaluation, state: State, instruction: Any) -> None:
    left, right = (evaluation.read(state, instruction, each) for each in instruction.operands)
    state.flags = None
    tests = instruction.mnemonic == "test"
    if isinstance(left, int) and isinstance(right, int):
        size = instruction.operands[0].size
        state.flags = Comparison(left & right, 0, size) if tests else Comparison(left, right, size)
    elif isinstance(left, Field) and right == (left if tests else 0):
        state.flags = left


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


def _call(_: Evaluation, state: State, __: Any) -> None:
    state.flags = None
    for name in _CLOBBERED:
        state.registers[name] = None


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
