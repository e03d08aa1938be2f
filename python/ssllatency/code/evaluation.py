# SPDX-License-Identifier: Apache-2.0
"""The evaluation of one small function on known and unknown values: its paths, and what happens on them.

What each instruction does is the machine's: x86/evaluation.py and aarch64/evaluation.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field

from ssllatency.code.values import (
    Assumptions,
    ComparisonFlags,
    LoadedField,
    OutgoingCall,
    SymbolicAddress,
    Value,
    narrowed,
    plus,
)
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image

MAX_STEPS = 400
MAX_PATHS = 32
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")


@dataclass
class PathState:
    """One path: where it is, what registers and stack words hold, and the last comparison of two numbers; or the field that was
    compared with zero."""

    address: int
    registers: dict[str, Value]
    stack: dict[int, Value] = field(default_factory=dict)
    flags: ComparisonFlags | LoadedField | None = None

    def fork(self, address: int) -> PathState:
        return PathState(address, dict(self.registers), dict(self.stack), self.flags)

    def taken(self, condition: str) -> bool | None:
        """Whether a jump on `condition` is taken; None if that isn't known."""
        return self.flags.taken(condition) if isinstance(self.flags, ComparisonFlags) else None

    @property
    def tested(self) -> LoadedField | None:
        """The field that was compared with zero last."""
        return self.flags if isinstance(self.flags, LoadedField) else None

    def part(self, condition: str, other: PathState, tested: Value) -> None:
        """Splits the path: on this one `condition` holds, on `other` it doesn't; on one of them the tested field is zero."""
        zero = {"je": self, "jne": other}.get(condition)
        if zero and isinstance(tested, LoadedField):
            zero.make_zero(tested)

    def make_zero(self, field: LoadedField) -> None:
        """The field is known to be zero, so what was loaded from there is."""
        self.registers = {name: 0 if value == field else value for name, value in self.registers.items()}
        self.stack = {offset: 0 if value == field else value for offset, value in self.stack.items()}


class Evaluation(ABC):
    """The evaluation of one function, by one machine's instructions.

    `results` is a value for each way out, `fields` the fields read, `calls` the calls made, and `stores` what was written to
    places that aren't the stack, all on any of its ways; `states` are the paths still to be followed.
    """

    stack_pointer: str
    result_register: str
    arguments: tuple[str, ...]

    def __init__(self, image: Image) -> None:
        self.results: list[Value] = []
        self.fields: set[LoadedField] = set()
        self.calls: list[OutgoingCall] = []
        self.stores: list[tuple[SymbolicAddress, Value]] = []
        self.image = image
        self._case = Assumptions()
        self._callees: dict[tuple[int, str], bool] = {}
        self.states: list[PathState] = []

    def run(self, address: int, case: Assumptions) -> None:
        """Follows the function at `address` in this case; None is among the results where a cap was met."""
        self._case = case
        registers = {self.arguments[ARGUMENTS.index(name)]: value for name, value in case.arguments.items()}
        self.states = [PathState(address, {**registers, self.stack_pointer: SymbolicAddress("stack", 0)})]
        paths = steps = 0
        while self.states and paths < MAX_PATHS and steps < MAX_STEPS:
            state = self.states.pop()
            paths += 1
            while steps < MAX_STEPS and self.step(state):
                steps += 1
        if self.states or steps == MAX_STEPS:
            self.end(None)

    @abstractmethod
    def step(self, state: PathState) -> bool:
        """Follows one instruction; false where the path ends."""

    def leaves(self, address: int, size: int) -> bool:
        """Whether the call at `address` is the last instruction of its function, so never returns."""
        bounds = self.image.function_bounds(address)
        return bounds is not None and address + size >= bounds[1]

    def answer(self, state: PathState, target: Value) -> None:
        """Stores the known return value of the function at `target`, which has just been called, in the return register."""
        for name, value in self._case.calls.items():
            if isinstance(target, int) and self._is(target, name):
                state.registers[self.result_register] = value
        if isinstance(target, int) and target in self._case.results:
            state.registers[self.result_register] = self._case.results[target]

    def _is(self, target: int, name: str) -> bool:
        """Whether a call of `target` reaches the function called `name`, through the PLT or not."""
        if (target, name) not in self._callees:
            function = self.image.function(name)
            reached = function is not None and function.address == target
            self._callees[target, name] = reached or self.image.plt_target(target) == name
        return self._callees[target, name]

    def end(self, value: Value) -> bool:
        """Ends a path, which returns `value`."""
        self.results.append(value)
        return False

    def note_call(self, state: PathState, target: Value) -> None:
        """Notes a call, where it is known to whom, and stores what it is known to store."""
        arguments = tuple(state.registers.get(name) for name in self.arguments)
        if isinstance(target, int | LoadedField):
            self.calls.append(OutgoingCall(target, arguments))
        if isinstance(target, int):
            for (number, offset), value in self._case.outputs.get(target, {}).items():
                self.store(state, plus(arguments[number], offset), value)

    def note_jump(self, state: PathState, address: int, target: Value) -> None:
        """Notes the jump at `address`, if it leaves the function, as the call that it is."""
        bounds = self.image.function_bounds(address)
        if not isinstance(target, int) or (bounds and not bounds[0] <= target < bounds[1]):
            self.note_call(state, target)

    def load(self, state: PathState, address: Value, size: int) -> Value:
        """The value in memory at `address`."""
        if isinstance(address, SymbolicAddress):
            if address.base == "stack":
                return narrowed(state.stack.get(address.offset), size)
            if isinstance(address.base, str) and address.base != "argument":
                return None
            field = LoadedField((*(address.base.path if isinstance(address.base, LoadedField) else ()), address.offset), size)
            self.fields.add(field)
            return narrowed(self._case.fields.get(field.path, field), size)
        if isinstance(address, int):
            return self.image.pointer(address) if size == 8 else self.image.constant(address, size)
        return None

    def store(self, state: PathState, address: Value, value: Value) -> None:
        """Stores `value` at `address`."""
        if isinstance(address, SymbolicAddress):
            if address.base == "stack":
                state.stack[address.offset] = value
            else:
                self.stores.append((address, value))
