# SPDX-License-Identifier: Apache-2.0
"""A second opinion on a plan: walks the operation forwards, the way a call runs, with the sites set.

Shares nothing with how the sites were chosen (exits.py works backwards from the returns): every way from the entry must cross
the entry site once, then exactly one exit site, and at the `ret` the result register must hold what the exit site said. An exit
site on a branch may be one in one direction only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ssllatency.code.flow import Graph
from ssllatency.code.machine import CALLS, Flow, Instruction
from ssllatency.code.return_values import NOT_LEFT, Value
from ssllatency.probes.sites.entry import Site

MAX_STATES = 200_000
_BEFORE, _INSIDE = "before", "inside"


@dataclass(frozen=True)
class _Left:
    """Past an exit site: the registers that hold the return value, and the constant that it is, if the site says so."""

    held: frozenset[str]
    constant: int | None = None


_State = str | _Left


class _Wrong(Exception):
    pass


def _cross(state: _State, address: int, entry: int, exits: dict[int, Site]) -> _State:
    """The state after the entry site on an instruction. At an exit site the call must be inside."""
    if address == entry:
        if state != _BEFORE:
            raise _Wrong(f"the entry site {address:#x} is crossed twice")
        return _INSIDE
    if address in exits and state != _INSIDE:
        raise _Wrong(f"the exit site {address:#x} is crossed before the entry or after another exit")
    return state


def _leave(state: _State, value: Value | None) -> _State:
    """The state after an exit site, in the direction in which `value` is returned."""
    if value is None:
        return state
    return _Left(frozenset((value,))) if isinstance(value, str) else _Left(frozenset(), value)


def _step(state: _State, each: Instruction) -> _State:
    """The state after the instruction ran."""
    if isinstance(state, str):
        return state
    if each.flow in CALLS:
        raise _Wrong(f"a call follows the exit site, at {each.address:#x}")
    held = state.held - each.writes
    copied = each.copy
    if copied and copied[1] in state.held:
        held |= {copied[0]}
    if each.constant and state.constant is not None and _equal(each.constant[1], state.constant):
        held |= {each.constant[0]}
    return _Left(held, state.constant)


def _equal(written: int, value: int) -> bool:
    """Whether a constant in a register is the value, as 32 bits or as 64."""
    return written in (value & 0xFFFFFFFF, value & 0xFFFFFFFFFFFFFFFF)


def problem(graph: Graph, entry: Site, exits: Sequence[Site], result: str) -> str:
    """What is wrong with the plan, "" if nothing is."""
    by_address = {site.address: site for site in exits}
    if len(by_address) != len(exits):
        return "two exit sites are at one address"
    for site in (entry, *exits):
        returns = site.instruction.flow is Flow.RETURN
        if graph.nodes.get(site.address) is not site.instruction or graph.delta(site.address) not in (site.stack_delta, None):
            return f"the site {site.address:#x} doesn't fit the code"
        if graph.delta(site.address) is None and not returns:
            return f"the stack pointer isn't known at {site.address:#x}"
    try:
        _walk(graph, entry.address, by_address, result)
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _walk(graph: Graph, entry: int, exits: dict[int, Site], result: str) -> None:
    seen: set[tuple[int, _State]] = set()
    work: list[tuple[int, _State]] = [(graph.entry, _BEFORE)]
    while work:
        if len(seen) > MAX_STATES:
            raise _Wrong("it has too many ways to be checked")
        address, state = work.pop()
        if (address, state) in seen:
            continue
        seen.add((address, state))
        each = graph.nodes[address]
        state = _cross(state, address, entry, exits)
        ending = exits[address].ending if address in exits else NOT_LEFT
        if each.flow is Flow.RETURN:
            state = _leave(state, ending.taken)
        if exits and address in graph.uncovered:
            raise _Wrong(f"a way out isn't known: {graph.uncovered[address]}")
        if each.flow is Flow.RETURN and state == _BEFORE:
            raise _Wrong(f"the return at {address:#x} is reached past no entry site")
        if each.flow is Flow.RETURN and exits and (isinstance(state, str) or result not in state.held):
            raise _Wrong(f"the return at {address:#x} is reached without its value from an exit site")
        for successor in graph.successors[address]:
            work.append((successor, _step(_leave(state, ending.towards(each, successor)), each)))
