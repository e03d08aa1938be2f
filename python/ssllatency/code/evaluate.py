# SPDX-License-Identifier: Apache-2.0
"""What a small function returns, found by following its instructions on known and unknown values. The instructions are in
evaluate_x86.py and evaluate_aarch64.py.

`SSL_want` returns a field of its argument, `RSA_PKCS1_OpenSSL` the address of a table, a provider's query function a table that
depends on a number: all are read this way, whatever the compiler made of them. Nothing is executed; calls are not entered; both
ways of a jump are followed when its condition is unknown. Steps and paths have caps, so that any code ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ssllatency.code.values import Call, Case, Comparison, Field, Place, Value, narrowed

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

MAX_STEPS = 400
MAX_PATHS = 32
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_Known = Mapping[tuple[int, ...], int]


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
    return followed(image, address, arguments).results


def fields_read(image: Image, address: int, **arguments: Value) -> set[Field]:
    """The fields that the function at `address` reads on any of its ways, whatever it makes of them; else as returned()."""
    return followed(image, address, arguments).fields


def followed(image: Image, address: int, arguments: Mapping[str, Value], known: _Known = MappingProxyType({})) -> Evaluation:
    """The finished evaluation of the function at `address`, with all that it saw; `arguments` as those of returned().

    `known` are numbers that fields hold, by the field's path.
    """
    return followed_in(image, address, Case(arguments, known))


def followed_in(image: Image, address: int, case: Case) -> Evaluation:
    """The finished evaluation of the function at `address` in this case, with all that it saw."""
    evaluation = _evaluation(image)
    evaluation.run(address, case)
    return evaluation


def returned_in_cases(image: Image, address: int, cases: Iterable[Case]) -> Iterator[list[Value]]:
    """What returned() says of the function at `address` in each of the cases; its code is decoded once for all."""
    evaluation = _evaluation(image)
    for case in cases:
        evaluation.results = []
        evaluation.run(address, case)
        yield evaluation.results


def _evaluation(image: Image) -> Evaluation:
    if image.machine == "x86-64":
        from ssllatency.code.x86.evaluation import X86Evaluation

        return X86Evaluation(image)
    from ssllatency.code.aarch64.evaluation import Aarch64Evaluation

    return Aarch64Evaluation(image)


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
        self.fields: set[Field] = set()
        self.calls: list[Call] = []
        self.stores: list[tuple[Place, Value]] = []
        self.image = image
        self._case = Case()
        self._callees: dict[tuple[int, str], bool] = {}
        self.states: list[State] = []

    def run(self, address: int, case: Case) -> None:
        """Follows the function at `address` in this case; None is among the results where a cap was met."""
        self._case = case
        registers = {self.arguments[ARGUMENTS.index(name)]: value for name, value in case.arguments.items()}
        self.states = [State(address, {**registers, self.stack_pointer: Place("stack", 0)})]
        paths = steps = 0
        while self.states and paths < MAX_PATHS and steps < MAX_STEPS:
            state = self.states.pop()
            paths += 1
            while steps < MAX_STEPS and self.step(state):
                steps += 1
        if self.states or steps == MAX_STEPS:
            self.end(None)

    @abstractmethod
    def step(self, state: State) -> bool:
        """Follows one instruction; false where the path ends."""

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

    def load(self, state: State, address: Value, size: int) -> Value:
        """What memory holds at `address`."""
        if isinstance(address, Place):
            if address.base == "stack":
                return narrowed(state.stack.get(address.offset), size)
            if isinstance(address.base, str) and address.base != "argument":
                return None
            found = Field((*(address.base.path if isinstance(address.base, Field) else ()), address.offset), size)
            self.fields.add(found)
            return narrowed(self._case.fields.get(found.path, found), size)
        if isinstance(address, int):
            return self.image.pointer(address) if size == 8 else self.image.constant(address, size)
        return None

    def store(self, state: State, address: Value, value: Value) -> None:
        """Stores `value` at `address`."""
        if isinstance(address, Place):
            if address.base == "stack":
                state.stack[address.offset] = value
            else:
                self.stores.append((address, value))
