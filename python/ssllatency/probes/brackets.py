# SPDX-License-Identifier: Apache-2.0
"""The sites around one call in a function: the cheapest instruction before it that leads to it alone, and one past it.

Both lie in the straight line that the call is in, so each run of the call crosses both, the process's end aside. Before the call
nothing else may be entered or left: each instruction there is the only way to the next. What is past the call may be reached by
other ways as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ssllatency.probes.costs import COST_NS
from ssllatency.probes.entry import Site, site_cost
from ssllatency.probes.flow import Graph, Unplannable
from ssllatency.probes.machine import Emulation, Flow, Instruction
from ssllatency.probes.plan import Cost

CALLS = (Flow.CALL, Flow.INDIRECT_CALL)
_CHEAP = (Cost.OPTIMISED, Cost.EMULATED)


@dataclass(frozen=True)
class Bracket:
    """`lost` are registers that don't hold their arguments yet at `begin`. `condition` is the mnemonic of the branch that `begin`
    is, "" if it is none, and `taken` whether the call lies where it is taken."""

    begin: Site
    end: Site
    lost: frozenset[str]
    condition: str = ""
    taken: bool = False


def bracket(
    graph: Graph, call: int, needed: frozenset[str], wanted: frozenset[str], emulation: Emulation, *, branches: bool = True
) -> Bracket:
    """The sites around the call at the address `call`. The registers `needed` hold their arguments at the begin, and those in
    `wanted` where it costs no more. `branches`: a conditional branch may be the begin. Unplannable with the reason."""
    each = graph.nodes.get(call)
    if each is None or each.flow not in CALLS:
        raise Unplannable(f"what is at {call:#x} is no call")
    end = _end(graph, each, emulation)
    found = min(_begins(graph, each, needed, wanted, emulation, branches), key=lambda each: each[0], default=None)
    if found is None:
        raise Unplannable(f"no instruction before the call at {call:#x} can be probed with its arguments in place")
    _, begin, lost, following = found
    if begin.instruction.flow is not Flow.BRANCH:
        return Bracket(begin, end, lost)
    return Bracket(begin, end, lost, begin.instruction.text.split()[0], begin.instruction.target == following)


_Begin = tuple[tuple[int, int, int], Site, frozenset[str], int]  # (what it costs), the site, what is lost, what follows it


def _begins(
    graph: Graph, call: Instruction, needed: frozenset[str], wanted: frozenset[str], emulation: Emulation, branches: bool
) -> Iterator[_Begin]:
    lost: frozenset[str] = frozenset()
    following = call.end
    for distance, each in enumerate(_before(graph, call)):
        if each is not call:
            lost |= each.writes
        if lost & needed:
            return
        cost, delta = site_cost(graph, each, emulation), graph.delta(each.address)
        if cost is not None and delta is not None and (branches or each.flow is not Flow.BRANCH):
            missing = lost & wanted
            yield (COST_NS[cost], len(missing), distance), Site(each, cost, delta), missing, following
        following = each.address


def _before(graph: Graph, call: Instruction) -> Iterator[Instruction]:
    """The call, and backwards what leads to it in a straight line; a branch is the last."""
    each = call
    certain = not any(graph.nodes[address].flow is Flow.INDIRECT_JUMP for address in graph.uncovered)
    while True:
        yield each
        before = graph.predecessors[each.address]
        if not certain or len(before) != 1 or each.address == graph.entry:
            return
        each = graph.nodes[before[0]]
        if each.flow is Flow.BRANCH and len(graph.successors[each.address]) > 1:
            yield each
        if each.flow not in (Flow.NEXT, Flow.JUMP):
            return


def _end(graph: Graph, call: Instruction, emulation: Emulation) -> Site:
    """The first cheap instruction that is sure to run past the call, else the first that can be probed."""
    fallback = None
    for each in _after(graph, call):
        cost, delta = site_cost(graph, each, emulation), graph.delta(each.address)
        if cost is None or delta is None:
            continue
        site = Site(each, cost, delta)
        if cost in _CHEAP:
            return site
        fallback = fallback or site
    if fallback is None:
        raise Unplannable(f"no instruction past the call at {call.address:#x} can be probed")
    return fallback


def _after(graph: Graph, call: Instruction) -> Iterator[Instruction]:
    """What runs after the call in a straight line, up to where it parts or calls again."""
    each = call
    seen = {call.address}
    while len(graph.successors[each.address]) == 1:
        (address,) = graph.successors[each.address]
        if address in seen:
            return
        seen.add(address)
        each = graph.nodes[address]
        yield each
        if each.flow not in (Flow.NEXT, Flow.JUMP):
            return
