# SPDX-License-Identifier: Apache-2.0
"""A second opinion on a plan: walks the operation forwards, the way a call runs, with the sites set.

Shares nothing with how the sites were chosen (exits.py works backwards from the returns): every way from the entry must cross
the entry site once, then exactly one exit site, and at the `ret` the result register must hold what the exit site said.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.probes.entry import Site
from ssllatency.probes.flow import Graph
from ssllatency.probes.machine import Flow, Instruction

MAX_STATES = 200_000
_BEFORE, _INSIDE = "before", "inside"
# Before the entry site, inside the call, or past an exit site: then the registers that hold the return value.
_State = str | frozenset[str]


class _Wrong(Exception):
    pass


def _cross(state: _State, address: int, entry: int, exits: dict[int, Site]) -> _State:
    """The state after the sites on one instruction."""
    if address == entry:
        if state != _BEFORE:
            raise _Wrong(f"the entry site {address:#x} is crossed twice")
        state = _INSIDE
    if address in exits:
        if state != _INSIDE:
            raise _Wrong(f"the exit site {address:#x} is crossed before the entry or after another exit")
        state = frozenset((exits[address].register,))
    return state


def _step(state: _State, each: Instruction) -> _State:
    """The state after the instruction ran."""
    if isinstance(state, str):
        return state
    if each.flow in (Flow.CALL, Flow.INDIRECT_CALL):
        raise _Wrong(f"a call follows the exit site, at {each.address:#x}")
    held = state - each.writes
    copied = each.copy
    return held | {copied[0]} if copied and copied[1] in state else held


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
        if exits and address in graph.uncovered:
            raise _Wrong(f"a way out isn't known: {graph.uncovered[address]}")
        if each.flow is Flow.RETURN and state == _BEFORE:
            raise _Wrong(f"the return at {address:#x} is reached past no entry site")
        if each.flow is Flow.RETURN and exits and (isinstance(state, str) or result not in state):
            raise _Wrong(f"the return at {address:#x} is reached without its value from an exit site")
        after = _step(state, each) if graph.successors[address] else state
        work.extend((successor, after) for successor in graph.successors[address])
