# SPDX-License-Identifier: Apache-2.0
"""Constants in registers, followed through the blocks that a function's code falls into, whatever the machine.

Compilers put a call that several branches make in one place and jump there with their own arguments: so the constants are
followed through the function's branches. What isn't reached that way, as the cases of a switch, begins with nothing known.
Steps have caps, so that any code ends soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ssllatency.data_class import dataclass

ARGUMENTS = 5
"""The first arguments, whose constants are told."""
MAX_SIZE = 1 << 16  # bytes of a function
_MOST_STATES = 48  # different constants with which one place is reached; further ones are left out

# What registers hold, by their numbers: a constant, unknown (None), or by an inherited() value what one held where the block
# begins, and what has been added to it since.
State = tuple[int | None, ...]
_REGISTER_BITS = 8  # of an inherited value


def inherited(register: int, added: int = 0) -> int:
    """The value that says that a register holds what this one held where the block begins, and so much more: below 0, as no
    constant is."""
    return ~(register | added << _REGISTER_BITS)


def plus(value: int | None, distance: int) -> int | None:
    """A constant or an inherited value to which a number is added that isn't negative."""
    if value is None or value >= 0:
        return None if value is None else value + distance
    return ~(~value + (distance << _REGISTER_BITS))


@dataclass(frozen=True)
class ConstantCall:
    """A direct call or tail jump at `address` to `target`, with what its first arguments are: None where unknown."""

    address: int
    target: int
    arguments: State


@dataclass
class CodeBlock:
    """Instructions that are run from the first to the last: what they leave in the registers, their calls, and what follows;
    for some of what follows by `equal` a register, and the constant that it was found to hold on the way there."""

    held: list[int | None]
    calls: list[ConstantCall] = field(default_factory=list)
    next: list[int] = field(default_factory=list)
    equal: dict[int, tuple[int, int]] = field(default_factory=dict)
    seen: set[State] = field(default_factory=set)

    @classmethod
    def begin(cls, registers: int) -> CodeBlock:
        return cls([inherited(number) for number in range(registers)])

    def call(self, address: int, target: int) -> None:
        """Note a call with what the first registers hold."""
        self.calls.append(ConstantCall(address, target, tuple(self.held[:ARGUMENTS])))


def followed(blocks: Mapping[int, CodeBlock], first: int, registers: int) -> set[ConstantCall]:
    """The calls of the blocks, by their first addresses, once for each set of arguments; the function begins at `first`."""
    unknown: State = (None,) * registers
    _spread(blocks, [first], unknown)
    for start, block in blocks.items():
        if not block.seen:
            _spread(blocks, [start], unknown)
    return {
        ConstantCall(call.address, call.target, _after(state, call.arguments))
        for block in blocks.values()
        for call in block.calls
        for state in block.seen
    }


def _spread(blocks: Mapping[int, CodeBlock], starts: Sequence[int], state: State) -> None:
    work = [(start, state) for start in starts]
    while work:
        start, before = work.pop()
        block = blocks.get(start)
        if block is None or before in block.seen or len(block.seen) >= _MOST_STATES:
            continue
        block.seen.add(before)
        after = _after(before, block.held)
        work += [(following, _with(after, block.equal.get(following))) for following in block.next]


def _with(state: State, equal: tuple[int, int] | None) -> State:
    """The state in which this register holds this constant as well."""
    return state if equal is None else (*state[: equal[0]], equal[1], *state[equal[0] + 1 :])


def _after(before: State, held: Iterable[int | None]) -> State:
    return tuple(_resolved(before, value) if value is not None and value < 0 else value for value in held)


def _resolved(before: State, value: int) -> int | None:
    """The constant that an inherited value stands for, if it is one."""
    register, added = ~value & (1 << _REGISTER_BITS) - 1, ~value >> _REGISTER_BITS
    return plus(before[register], added)
