# SPDX-License-Identifier: Apache-2.0
"""The exit sites of an operation: the cheapest set of instructions such that each way from the last call in it to a `ret`
crosses exactly one of them, with the return value already known: in a register, or as a constant.

The candidates lie in the tail of the operation: code that runs to a `ret` without a call and without a loop; and on the
branches into it, for one direction of a branch may be the way out while the other goes on. The tail is a small graph. Points
with no candidate between them are merged; the candidates are the edges between the rest; the sites are a minimum cut between
what comes before the tail and the `ret`s. A `ret` is a candidate itself, so there is a cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import CALLS, Cost, Emulation, Flow
from ssllatency.code.return_values import ExitValues, Value, return_values
from ssllatency.data_class import dataclass
from ssllatency.probes.sites.branches import endings, run_once, settled, topological_order
from ssllatency.probes.sites.cut import Edge, Point, Points, cut
from ssllatency.probes.sites.entry import Site, head_until, site_cost, site_delta
from ssllatency.stacks.operation import ReturnValue

# A single-stepped site costs ten times an emulated one on every call, while more sites only cost at attaching: so a cut takes
# any number of emulated sites before a single-stepped one.
_WEIGHTS = {Cost.OPTIMISED: 1, Cost.EMULATED: 1, Cost.SINGLE_STEPPED: 1000}

MAX_EXITS = 256
MAX_TAIL = 2_000  # instructions; a larger tail is left by its `ret`s
_ONE = ReturnValue()
_SOURCE: Point = ("source", 0)
_SINK: Point = ("sink", 0)


@dataclass(frozen=True)
class _Candidate:
    """A site, and the two points of the tail between which it lies."""

    before: Point
    after: Point
    site: Site


@dataclass(frozen=True)
class Chooser:
    """Chooses the exit sites of one operation. `result` is the machine's result register; `meaning` says what is returned;
    `branches`: whether that may be told by the direction of a branch, or be known as a constant."""

    graph: Graph
    emulation: Emulation
    result: str
    meaning: ReturnValue = _ONE
    branches: bool = True

    def sites(self, entry: int, *, only_returns: bool = False) -> list[Site]:
        """The cheapest sites that cover every way out once. `entry` is the entry site; `only_returns` takes the `ret`s
        themselves. Unplannable with the reason where a way out can't be covered."""
        for reason in self.graph.uncovered.values():
            raise Unplannable(reason)
        values = return_values(self.graph, tail(self.graph), self.result, self.meaning.bits)
        if not values:
            raise Unplannable("it never returns")
        only_returns = only_returns or len(values) > MAX_TAIL
        # No call may be counted as ended before it is counted as begun.
        beginning = head_until(self.graph, lambda instruction: instruction.address == entry)
        candidates = self._candidates(values, beginning, only_returns)
        sites = sorted(_least(_joined(self.graph, values, candidates), candidates), key=lambda site: site.address)
        if len(sites) > MAX_EXITS:
            raise Unplannable(f"it has more than {MAX_EXITS} ways out")
        return sites

    def _candidates(self, values: dict[int, Value | None], beginning: set[int], only_returns: bool) -> list[_Candidate]:
        candidates = []
        for address in values:
            site = self._on(address, values) if address not in beginning else None
            if site and (site.instruction.flow is Flow.RETURN or not only_returns):
                candidates.append(_Candidate(("before", address), ("after", address), site))
        if self.branches and not only_returns:
            taken = {candidate.site.address for candidate in candidates}
            for address in run_once(self.graph) - beginning - taken:
                candidates += self._into(address, values)
        return candidates

    def _on(self, address: int, values: dict[int, Value | None]) -> Site | None:
        """A site on an instruction of the tail, left whichever way it goes on."""
        instruction, value = self.graph.nodes[address], values[address]
        ending = ExitValues(value, value) if value is not None else self._endings(address, values)
        if ending is None or ending.goes_on or not settled(ending, branches=self.branches):
            return None
        cost = site_cost(self.graph, instruction, self.emulation)
        delta = 0 if instruction.flow is Flow.RETURN else site_delta(self.graph, address)
        single_stepped = cost is Cost.SINGLE_STEPPED and instruction.flow is not Flow.RETURN
        return None if cost is None or delta is None or single_stepped else Site(instruction, cost, delta, ending)

    def _endings(self, address: int, values: dict[int, Value | None]) -> ExitValues | None:
        return endings(self.graph, address, values) if self.branches else None

    def _fails(self, ending: ExitValues) -> bool:
        values = {ending.taken, ending.other} - {None}
        return all(isinstance(value, int) and not self.meaning.is_success(value) for value in values)

    def _into(self, address: int, values: dict[int, Value | None]) -> list[_Candidate]:
        """The sites on a branch that is left in one direction only, one for each that leads into the tail. Not where only
        failed calls leave: all others would pay for them."""
        instruction = self.graph.nodes[address]
        cost, delta = site_cost(self.graph, instruction, self.emulation), site_delta(self.graph, address)
        both = endings(self.graph, address, values)
        if both is None or cost is not Cost.EMULATED or delta is None:
            return []
        before: Point = ("after", address) if address in values else _SOURCE
        return [
            _Candidate(before, ("before", target), Site(instruction, cost, delta, ending))
            for target, ending in both.apart(instruction, self.graph.successors[address])
            if settled(ending, branches=self.branches) and not self._fails(ending)
        ]


def tail(graph: Graph) -> list[int]:
    """The instructions from which every way leads, without call or loop, to a `ret` or the process's end; later ones first."""

    def goes_on(address: int) -> bool:
        comes_back = graph.nodes[address].flow in CALLS and graph.successors[address]
        return bool(comes_back or address in graph.uncovered)

    return topological_order(graph.predecessors, graph.successors, is_barred=goes_on)


def _joined(graph: Graph, values: dict[int, Value | None], candidates: list[_Candidate]) -> Points:
    """The points of the tail; those are one that control passes between without crossing a candidate."""
    sites = {(candidate.site.address, candidate.after) for candidate in candidates}
    points = Points()
    for address, before, after in _passages(graph, values):
        if (address, after) not in sites:
            points.join(before, after)
    return points


def _passages(graph: Graph, values: dict[int, Value | None]) -> Iterator[tuple[int, Point, Point]]:
    """Each step that control can take in the tail: the instruction that takes it, from which point, to which."""
    for address in values:
        before, after = ("before", address), ("after", address)
        yield address, before, after
        if graph.nodes[address].flow is Flow.RETURN:
            yield address, after, _SINK
        predecessors = graph.predecessors[address]
        if not predecessors or address == graph.entry:
            yield address, _SOURCE, before
        for predecessor in predecessors:
            yield predecessor, ("after", predecessor) if predecessor in values else _SOURCE, before


def _least(points: Points, candidates: list[_Candidate]) -> list[Site]:
    """The candidates on the minimum cut."""
    between: dict[Edge, list[Site]] = {}
    for candidate in candidates:
        between.setdefault((points.find(candidate.before), points.find(candidate.after)), []).append(candidate.site)
    weights = {edge: sum(_WEIGHTS[site.cost] for site in sites) for edge, sites in between.items()}
    source, sink = points.find(_SOURCE), points.find(_SINK)
    chosen = cut(weights, source, sink) if source != sink else None
    if chosen is None:
        raise Unplannable("a way out of it has no instruction that can be probed")
    return _merged([site for edge in chosen for site in between[edge]])


def _merged(sites: list[Site]) -> list[Site]:
    """One site an instruction, where both directions of a branch were chosen one by one."""
    by_address: dict[int, Site] = {}
    for site in sites:
        earlier = by_address.get(site.address)
        by_address[site.address] = replace(site, ending=site.ending.joined(earlier.ending)) if earlier else site
    return list(by_address.values())
