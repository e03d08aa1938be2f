# SPDX-License-Identifier: Apache-2.0
"""Where an operation's call ends: the cheapest set of instructions such that each way from the last call in it to a `ret`
crosses exactly one of them, with the return value already in a known register.

The candidates lie in the tail of the operation: code that runs to a `ret` without a call and without a loop. The tail is a
small graph. Two of its points that no candidate separates are one; the candidates are the edges between them; the sites are a
minimum cut between what comes before the tail and the `ret`s. A `ret` is a candidate itself, so there is a cut.
"""

from __future__ import annotations

from ssllatency.probes.cut import Edge, Point, cut
from ssllatency.probes.entry import Site, head, site_cost
from ssllatency.probes.flow import Graph, Unplannable
from ssllatency.probes.machine import Emulation, Flow, Instruction
from ssllatency.probes.plan import Cost

_CALLS = (Flow.CALL, Flow.INDIRECT_CALL)
# A single-stepped site costs ten times an emulated one on every call; the number of sites only costs at attaching.
_WEIGHTS = {Cost.OPTIMISED: 1, Cost.EMULATED: 1, Cost.SINGLE_STEPPED: 1000}

MAX_TAIL = 2_000  # instructions; a larger tail is left by its `ret`s
_SOURCE: Point = ("source", 0)
_SINK: Point = ("sink", 0)


def tail(graph: Graph) -> list[int]:
    """The instructions from which every way leads, without call or loop, to a `ret` or the process's end; later ones first."""
    pending = {address: len(successors) for address, successors in graph.successors.items()}
    work = [address for address, count in pending.items() if count == 0]
    found = []
    while work:
        address = work.pop()
        comes_back = graph.nodes[address].flow in _CALLS and graph.successors[address]
        if comes_back or address in graph.uncovered:
            continue
        found.append(address)
        for predecessor in graph.predecessors[address]:
            pending[predecessor] -= 1
            if pending[predecessor] == 0:
                work.append(predecessor)
    return found


def value_registers(graph: Graph, order: list[int], result: str, wide: bool) -> dict[int, str]:
    """For each instruction of the tail that leads to a `ret`, the register that holds the return value before it, "" if none
    does. `wide`: all 64 bits count, so a 32-bit copy doesn't carry the value."""
    held: dict[int, str] = {}
    for address in order:
        each = graph.nodes[address]
        if each.flow is Flow.RETURN:
            held[address] = result
            continue
        after = {held[successor] for successor in graph.successors[address] if successor in held}
        if after:
            held[address] = _before(each, after.pop(), wide) if len(after) == 1 else ""
    return held


def _before(each: Instruction, register: str, wide: bool) -> str:
    """The register that holds, before `each`, what `register` holds after it."""
    copied = each.copy
    if copied and copied[0] == register and not (wide and copied[2] < 64):
        return copied[1]
    return "" if register in each.writes else register


class _Points:
    """Points of the tail, joined where no candidate lies between them."""

    def __init__(self) -> None:
        self._parents: dict[Point, Point] = {}

    def find(self, point: Point) -> Point:
        while point in self._parents:
            parent = self._parents[point]
            if parent in self._parents:
                self._parents[point] = self._parents[parent]
            point = parent
        return point

    def join(self, one: Point, other: Point) -> None:
        one, other = self.find(one), self.find(other)
        if one != other:
            self._parents[one] = other


def _site(graph: Graph, address: int, register: str, emulation: Emulation) -> Site | None:
    each = graph.nodes[address]
    cost = site_cost(graph, each, emulation)
    delta = 0 if each.flow is Flow.RETURN else graph.delta(address)
    single_stepped = cost is Cost.SINGLE_STEPPED and each.flow is not Flow.RETURN
    if cost is None or delta is None or not register or single_stepped:
        return None
    return Site(each, cost, delta, register)


def _joined(graph: Graph, held: dict[int, str], candidates: dict[int, Site]) -> _Points:
    points = _Points()
    for address in held:
        before, after = ("before", address), ("after", address)
        if address not in candidates:
            points.join(before, after)
        if graph.nodes[address].flow is Flow.RETURN:
            points.join(after, _SINK)
        predecessors = graph.predecessors[address]
        if not predecessors or address == graph.entry:
            points.join(before, _SOURCE)
        for predecessor in predecessors:
            points.join(before, ("after", predecessor) if predecessor in held else _SOURCE)
    return points


def exit_sites(
    graph: Graph, result: str, entry: int, emulation: Emulation, *, wide: bool = False, only_returns: bool = False
) -> list[Site]:
    """The cheapest sites that cover every way out once. `entry` is the entry site; `result` the machine's result register.

    `wide`: the value has 64 bits, else 32. `only_returns` takes the `ret`s themselves. Unplannable with the reason where a way
    out can't be covered.
    """
    for reason in graph.uncovered.values():
        raise Unplannable(reason)
    held = value_registers(graph, tail(graph), result, wide)
    if not held:
        raise Unplannable("it never returns")
    beginning = _until(graph, entry)
    only_returns = only_returns or len(held) > MAX_TAIL
    candidates = {}
    for address, register in held.items():
        site = _site(graph, address, register, emulation) if address not in beginning else None
        if site and (graph.nodes[address].flow is Flow.RETURN or not only_returns):
            candidates[address] = site
    return sorted(_least(_joined(graph, held, candidates), candidates), key=lambda site: site.address)


def _least(points: _Points, candidates: dict[int, Site]) -> list[Site]:
    """The candidates on the minimum cut."""
    between: dict[Edge, list[Site]] = {}
    for address, site in candidates.items():
        between.setdefault((points.find(("before", address)), points.find(("after", address))), []).append(site)
    weights = {edge: sum(_WEIGHTS[site.cost] for site in sites) for edge, sites in between.items()}
    source, sink = points.find(_SOURCE), points.find(_SINK)
    chosen = cut(weights, source, sink) if source != sink else None
    if chosen is None:
        raise Unplannable("a way out of it has no instruction that can be probed")
    return [site for edge in chosen for site in between[edge]]


def _until(graph: Graph, entry: int) -> set[int]:
    """The head of the operation up to its entry site: no call may be counted as ended before it is counted as begun."""
    found = set()
    for each in head(graph):
        found.add(each.address)
        if each.address == entry:
            break
    return found
