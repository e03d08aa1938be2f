# SPDX-License-Identifier: Apache-2.0
"""A second opinion on a plan: walks the operation forwards, the way a call runs, with the sites set.

Shares nothing with how the sites were chosen (exits.py works backwards from the returns): every way from the entry must cross
an entry site once, then exactly one exit site, and at the `ret` the result register must hold what the exit site said. An exit
site on a branch may be one in one direction only. A call that comes back to where it began may cross entry sites again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from enum import Enum

from ssllatency.code.flow import Graph
from ssllatency.code.machine import CALLS, Flow, Instruction
from ssllatency.code.return_values import NOT_LEFT, Value
from ssllatency.data_class import dataclass
from ssllatency.probes.sites.entry import Site

MAX_STATES = 200_000


class _Stage(Enum):
    """The progress of a call, until it is left."""

    BEFORE = "before the entry site"
    INSIDE = "past the entry site"


@dataclass(frozen=True)
class _Left:
    """Past an exit site: the registers that hold the return value, and the constant that it is, if the site says so."""

    held: frozenset[str]
    constant: int | None = None


_State = _Stage | _Left


class _Wrong(Exception):
    pass


@dataclass(frozen=True)
class _Calls:
    """All calls of an operation, as they run: each is in one state before each of its instructions.

        BEFORE --entry site--> INSIDE --exit site--> _Left --ret--> done

    Anything else is wrong. Without `exits`, as with a return probe, a call is done where it returns INSIDE.
    """

    graph: Graph
    entries: Set[int]
    exits: dict[int, Site]
    result: str

    def check(self) -> None:
        """Runs every way in every state that a call comes along in. _Wrong where one does what it mustn't."""
        seen: set[tuple[int, _State]] = set()
        work: list[tuple[int, _State]] = [(self.graph.entry, _Stage.BEFORE)]
        while work:
            if len(seen) > MAX_STATES:
                raise _Wrong("it has too many ways to be checked")
            address, state = work.pop()
            if (address, state) not in seen:
                seen.add((address, state))
                work += self._run(address, state)

    def _run(self, address: int, state: _State) -> Iterator[tuple[int, _State]]:
        """The instructions that follow the one at `address`, and the states in which they are reached."""
        instruction = self.graph.nodes[address]
        state = self._cross_entry(address, state)
        self._check_exit(address, state)
        ending = self.exits[address].ending if address in self.exits else NOT_LEFT
        if self.exits and address in self.graph.uncovered:
            raise _Wrong(f"a way out isn't known: {self.graph.uncovered[address]}")
        if instruction.flow is Flow.RETURN:
            self._check_return(address, _leave(state, ending.taken))
        for successor in self.graph.successors[address]:
            yield successor, _execute(instruction, _leave(state, ending.towards(instruction, successor)))

    def _cross_entry(self, address: int, state: _State) -> _State:
        if address not in self.entries or (self.graph.comes_back and state is _Stage.INSIDE):
            return state
        if state is not _Stage.BEFORE:
            raise _Wrong(f"the entry site {address:#x} is crossed twice")
        return _Stage.INSIDE

    def _check_exit(self, address: int, state: _State) -> None:
        if address in self.exits and state is not _Stage.INSIDE:
            raise _Wrong(f"the exit site {address:#x} is crossed before the entry or after another exit")

    def _check_return(self, address: int, state: _State) -> None:
        if state is _Stage.BEFORE:
            raise _Wrong(f"the return at {address:#x} is reached past no entry site")
        if self.exits and not (isinstance(state, _Left) and self.result in state.held):
            raise _Wrong(f"the return at {address:#x} is reached without its value from an exit site")


def _leave(state: _State, value: Value | None) -> _State:
    """The state after an exit site, in the direction in which `value` is returned; None where the call goes on."""
    if value is None:
        return state
    return _Left(frozenset((value,))) if isinstance(value, str) else _Left(frozenset(), value)


def _execute(instruction: Instruction, state: _State) -> _State:
    """The state after the instruction ran: a call that is left may still move its value from register to register."""
    if not isinstance(state, _Left):
        return state
    if instruction.flow in CALLS:
        raise _Wrong(f"a call follows the exit site, at {instruction.address:#x}")
    held = state.held - instruction.writes
    copied = instruction.copy
    if copied and copied[1] in state.held:
        held |= {copied[0]}
    if instruction.constant and state.constant is not None and _equal(instruction.constant[1], state.constant):
        held |= {instruction.constant[0]}
    return _Left(held, state.constant)


def _equal(written: int, value: int) -> bool:
    """Whether a constant in a register is the value, as 32 bits or as 64."""
    return written in (value & 0xFFFFFFFF, value & 0xFFFFFFFFFFFFFFFF)


def problem(graph: Graph, entry: Site, exits: Sequence[Site], result: str, *, twins: Sequence[Site] = ()) -> str:
    """The problem of the plan, "" if nothing is. `twins`: entry sites of calls that begin elsewhere in the graph."""
    entries = (entry, *twins)
    by_address = {site.address: site for site in exits}
    if len(by_address) != len(exits):
        return "two exit sites are at one address"
    for site in (*entries, *exits):
        returns = site.instruction.flow is Flow.RETURN
        if graph.nodes.get(site.address) is not site.instruction or graph.delta(site.address) not in (site.stack_delta, None):
            return f"the site {site.address:#x} doesn't fit the code"
        if graph.delta(site.address) is None and not returns:
            return f"the stack pointer isn't known at {site.address:#x}"
    try:
        _Calls(graph, {site.address for site in entries}, by_address, result).check()
    except _Wrong as wrong:
        return str(wrong)
    return ""
