# SPDX-License-Identifier: Apache-2.0
"""The sites around one call in a function: the cheapest instruction before it that leads to it alone, and one past it.

Both lie in the straight line that the call is in, so each run of the call crosses both, the process's end aside. Before the
call nothing else may be entered or left, but for calls that are known to take no time: each instruction there is the only way
to the next. What is past the call may be reached by other ways as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import CALLS, Cost, Emulation, Flow, Instruction
from ssllatency.data_class import dataclass
from ssllatency.probes.costs import COST_NS
from ssllatency.probes.sites.entry import Site, site_cost

_CHEAP = (Cost.OPTIMISED, Cost.EMULATED)


@dataclass(frozen=True)
class Begin:
    """The beginning of a call. `lost` are registers that don't hold their arguments yet. `condition` is the mnemonic of the
    branch that `site` is, "" if it is none, and `taken` whether the call lies where it is taken."""

    site: Site
    lost: frozenset[str] = frozenset()
    condition: str = ""
    taken: bool = False


def begin_site(
    graph: Graph,
    call: int,
    needed: frozenset[str],
    wanted: frozenset[str],
    emulation: Emulation,
    *,
    branches: bool = False,
    passing: Collection[int] = (),
) -> Begin:
    """The site at, or before, the call at the address `call`. The registers `needed` hold their arguments there, and those in
    `wanted` where it costs no more. `branches`: it may be a conditional branch. `passing`: calls that may lie behind it.
    Unplannable with the reason."""
    instruction = graph.nodes.get(call)
    if instruction is None or instruction.flow not in CALLS:
        raise Unplannable(f"what is at {call:#x} is no call")
    ways = _before(graph, instruction, passing)
    begins = (begin for begin in _begins(graph, ways, needed, wanted, emulation) if branches or not begin[1].condition)
    best = min(begins, key=lambda begin: begin[0], default=None)
    if best is None:
        raise Unplannable(f"no instruction before the call at {call:#x} can be probed with its arguments in place")
    return best[1]


def _begins(
    graph: Graph, backwards: Iterable[Instruction], needed: frozenset[str], wanted: frozenset[str], emulation: Emulation
) -> Iterator[tuple[tuple[int, int, int], Begin]]:
    """Each with what to rank it by: what it costs, how much is lost, how far away it is."""
    lost: frozenset[str] = frozenset()
    following = -1
    for distance, instruction in enumerate(backwards):
        lost |= instruction.writes if distance else frozenset()
        if lost & needed:
            return
        cost, delta = site_cost(graph, instruction, emulation), graph.delta(instruction.address)
        branch = instruction.flow is Flow.BRANCH
        if cost is not None and delta is not None and (not branch or instruction.condition):
            begin = Begin(
                Site(instruction, cost, delta), lost & wanted, instruction.condition, branch and instruction.target == following
            )
            yield (COST_NS[cost], len(begin.lost), distance), begin
        following = instruction.address


def _before(graph: Graph, call: Instruction, passing: Collection[int]) -> Iterator[Instruction]:
    """The call, and backwards what leads to it in a straight line, the calls `passing` too; a branch is the last."""
    instruction = call
    certain = graph.certain
    while True:
        yield instruction
        before = graph.predecessors[instruction.address]
        if not certain or len(before) != 1 or instruction.address == graph.entry:
            return
        instruction = graph.nodes[before[0]]
        if instruction.flow is Flow.BRANCH and len(graph.successors[instruction.address]) > 1:
            yield instruction
        if instruction.flow not in (Flow.NEXT, Flow.JUMP) and instruction.address not in passing:
            return


def end_site(graph: Graph, call: int, avoid: Collection[int], emulation: Emulation) -> Site:
    """The first cheap instruction that is sure to run past the call, else the first that can be probed; none of those at the
    addresses `avoid`. Unplannable with the reason."""
    candidates = [site for site in _ends(graph, graph.nodes[call], emulation) if site.address not in avoid]
    chosen = next((site for site in candidates if site.cost in _CHEAP), next(iter(candidates), None))
    if chosen is None:
        raise Unplannable(f"no instruction past the call at {call:#x} can be probed")
    return chosen


def _ends(graph: Graph, call: Instruction, emulation: Emulation) -> Iterator[Site]:
    for instruction in _after(graph, call):
        cost, delta = site_cost(graph, instruction, emulation), graph.delta(instruction.address)
        if cost is not None and delta is not None:
            yield Site(instruction, cost, delta)


def _after(graph: Graph, call: Instruction) -> Iterator[Instruction]:
    """The instructions after the call in a straight line, up to where it parts or calls again."""
    instruction = call
    seen = {call.address}
    while len(graph.successors[instruction.address]) == 1:
        (address,) = graph.successors[instruction.address]
        if address in seen:
            return
        seen.add(address)
        instruction = graph.nodes[address]
        yield instruction
        if instruction.flow not in (Flow.NEXT, Flow.JUMP):
            return
