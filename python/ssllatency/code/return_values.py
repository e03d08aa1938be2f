# SPDX-License-Identifier: Apache-2.0
"""Values that a function returns on its ways out, found backwards from its `ret`s: in which register, or which constant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ssllatency.code.flow import Graph
from ssllatency.code.machine import Flow, Instruction
from ssllatency.code.values import signed
from ssllatency.data_class import dataclass

_MOST_STATES = 500  # instructions, each with where the value is, that are looked back on

# The register that holds the value, or the value itself where only that constant is returned.
Value = str | int


@dataclass(frozen=True)
class ExitValues:
    """The values returned past an exit site. At a branch: if it is taken, and otherwise, None for the direction in which the
    call goes on. At any other instruction both are the same."""

    taken: Value | None = None
    other: Value | None = None

    @property
    def goes_on(self) -> bool:
        """Whether one direction isn't a way out."""
        return self.taken is None or self.other is None

    @property
    def registers(self) -> set[str]:
        """The registers that hold the value."""
        return {value for value in (self.taken, self.other) if isinstance(value, str)}

    def towards(self, instruction: Instruction, successor: int) -> Value | None:
        """The value returned if control goes from `instruction` to `successor`."""
        return self.other if successor == instruction.end else self.taken

    def apart(self, instruction: Instruction, successors: Sequence[int]) -> Iterator[tuple[int, ExitValues]]:
        """For each successor by which the call ends, the ending of that direction alone."""
        for successor in successors if len(self.registers) <= 1 else ():
            value = self.towards(instruction, successor)
            if value is not None:
                yield successor, ExitValues(None, value) if successor == instruction.end else ExitValues(value, None)

    def joined(self, opposite: ExitValues) -> ExitValues:
        """This ending joined with that of the other direction."""
        return ExitValues(
            opposite.taken if self.taken is None else self.taken, opposite.other if self.other is None else self.other
        )


NOT_LEFT = ExitValues()


def return_values(graph: Graph, order: Iterable[int], result: str, bits: int) -> dict[int, Value | None]:
    """For each instruction of the tail (in `order`, later ones first) that leads to a `ret`, the value that is returned past
    it; None where that isn't settled before it. `bits` of it matter: a 32-bit copy doesn't carry a 64-bit value."""
    values: dict[int, Value | None] = {}
    for address in order:
        instruction = graph.nodes[address]
        if instruction.flow is Flow.RETURN:
            values[address] = result
            continue
        after = {values[successor] for successor in graph.successors[address] if successor in values}
        if after:
            values[address] = before(instruction, after.pop(), bits) if len(after) == 1 else None
    return values


def before(instruction: Instruction, value: Value | None, bits: int) -> Value | None:
    """The place before `instruction` of the value that is `value` after it; `bits` of a register matter."""
    if not isinstance(value, str):
        return value
    if instruction.constant and instruction.constant[0] == value:
        return signed(instruction.constant[1], bits)
    copied = instruction.copy
    if copied and copied[0] == value and copied[2] >= bits:
        return copied[1]
    return None if value in instruction.writes else value


def constants(graph: Graph, address: int, value: Value | None, bits: int) -> set[int] | None:
    """All that `value` may be before the instruction at `address`; None where it is not always a constant, or that would take
    too long to tell."""
    numbers: set[int] = set()
    seen: set[tuple[int, Value | None]] = set()
    work = [(address, value)]
    while work:
        at, held = work.pop()
        if isinstance(held, int):
            numbers.add(held)
        elif held is None or not graph.predecessors[at] or len(seen) > _MOST_STATES:
            return None
        elif (at, held) not in seen:
            seen.add((at, held))
            work += [(predecessor, before(graph.nodes[predecessor], held, bits)) for predecessor in graph.predecessors[at]]
    return numbers
