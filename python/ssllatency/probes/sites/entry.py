# SPDX-License-Identifier: Apache-2.0
"""The entry site of an operation: the cheapest instruction at the head of the function that each call crosses exactly once,
with the arguments still in their registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile

from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import Cost, Emulation, Flow, Instruction
from ssllatency.code.return_values import NOT_LEFT, ExitValues
from ssllatency.data_class import dataclass
from ssllatency.probes.costs import COST_NS
from ssllatency.stacks.base import LARGEST_FRAME


@dataclass(frozen=True)
class Site:
    """An instruction to probe; `ending` is what is returned past it, where it is a way out."""

    instruction: Instruction
    cost: Cost
    stack_delta: int
    ending: ExitValues = NOT_LEFT

    @property
    def address(self) -> int:
        return self.instruction.address


def site_cost(graph: Graph, instruction: Instruction, emulation: Emulation) -> Cost | None:
    """The cost of a probe on the instruction, None where there must be none."""
    cost = instruction.cost(emulation)
    leaf = graph.functions[instruction.address] not in graph.calling
    return None if cost is Cost.OPTIMISED and leaf else cost


def site_delta(graph: Graph, address: int) -> int | None:
    """Return how far the stack is at a site from where it was at the entry; None where that isn't known, or a cookie has no
    room."""
    delta = graph.delta(address)
    return delta if delta is not None and 0 <= delta < LARGEST_FRAME else None


def head(graph: Graph) -> Iterator[Instruction]:
    """The instructions from the entry that control runs through in a straight line, entered nowhere but at the top."""
    address = graph.entry
    before = graph.predecessors[address] if graph.comes_back else []
    while graph.predecessors[address] == before:
        instruction = graph.nodes[address]
        yield instruction
        if instruction.flow is not Flow.NEXT or not graph.successors[address]:
            return
        before, address = [address], instruction.end


def head_until(graph: Graph, last: Callable[[Instruction], bool]) -> set[int]:
    """The addresses of the head up to the first instruction that is the `last`, that one included."""
    addresses = set()
    for instruction in head(graph):
        addresses.add(instruction.address)
        if last(instruction):
            break
    return addresses


def _candidates(graph: Graph, needed: frozenset[str], emulation: Emulation) -> Iterator[Site]:
    certain = graph.certain
    for instruction in head(graph):
        cost = site_cost(graph, instruction, emulation)
        delta = site_delta(graph, instruction.address)
        if cost is not None and delta is not None and instruction.flow is not Flow.RETURN:  # which is left for the exit
            yield Site(instruction, cost, delta)
        if needed & instruction.writes or not (certain or instruction.landing_pad):
            return


def _cheapest(graph: Graph, sites: Iterator[Site]) -> Site:
    if graph.predecessors[graph.entry] and not graph.comes_back:
        raise Unplannable("its first instruction is part of a loop")
    cheapest = min(sites, key=lambda site: COST_NS[site.cost], default=None)
    if cheapest is None:
        raise Unplannable("no instruction at its entry can be probed")
    return cheapest


def entry_site(graph: Graph, needed: frozenset[str], emulation: Emulation) -> Site:
    """The cheapest site, the first among equals, at which the registers `needed` still hold the arguments."""
    return _cheapest(graph, _candidates(graph, needed, emulation))


def return_probe_site(graph: Graph, needed: frozenset[str], emulation: Emulation) -> Site:
    """The entry site of a kernel return probe: only where the return address is still where the call left it."""
    early = head_until(graph, lambda instruction: instruction.moves_return_address)
    candidates = _candidates(graph, needed, emulation)
    return _cheapest(graph, (site for site in candidates if site.stack_delta == 0 and site.address in early))


def keeps(graph: Graph, site: Site, register: str) -> bool:
    """Whether the register still holds its argument at the entry site."""
    before = takewhile(lambda instruction: instruction.address != site.address, head(graph))
    return all(register not in instruction.writes for instruction in before)
