# SPDX-License-Identifier: Apache-2.0
"""The minimum cut, against trying all ways of cutting small graphs."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ssllatency.probes.sites.cut import UNBOUNDED, Edge, Point, cut

POINTS: list[Point] = [("point", number) for number in range(6)]
SOURCE, SINK = POINTS[0], POINTS[-1]
# Edges go forwards, as in code without loops.
PAIRS = [(start, end) for at, start in enumerate(POINTS) for end in POINTS[at + 1 :]]
graphs = st.dictionaries(st.sampled_from(PAIRS), st.integers(1, 20), min_size=1)


def cheapest(edges: dict[Edge, int]) -> int | None:
    """The weight of the best cut: each point lies before the cut or past it, and no edge leads back."""
    best = None
    for sides in product((False, True), repeat=len(POINTS) - 2):
        past = dict(zip(POINTS, (False, *sides, True), strict=True))
        if all(past[end] or not past[start] for start, end in edges):
            weight = sum(weight for (start, end), weight in edges.items() if past[end] and not past[start])
            best = weight if best is None else min(best, weight)
    return best


def crossings(edges: dict[Edge, int], chosen: set[Edge], point: Point, crossed: int) -> set[int]:
    """How often the paths from `point` to the sink cross the cut."""
    if point == SINK:
        return {crossed}
    found: set[int] = set()
    for start, end in edges:
        if start == point:
            found |= crossings(edges, chosen, end, crossed + ((start, end) in chosen))
    return found


@given(graphs)
def test_is_the_cheapest_and_each_path_crosses_it_once(edges: dict[Edge, int]) -> None:
    chosen = cut(edges, SOURCE, SINK)
    assert chosen is not None
    assert crossings(edges, chosen, SOURCE, 0) <= {1}
    # Points that no path connects to both ends may lie on either side, at no cost.
    assert sum(edges[edge] for edge in chosen) == cheapest(edges)


def test_takes_the_cut_nearest_to_the_sink() -> None:
    a, b = POINTS[1], POINTS[2]
    assert cut({(SOURCE, a): 5, (a, b): 5, (b, SINK): 5}, SOURCE, SINK) == {(b, SINK)}


def test_what_can_not_be_cut() -> None:
    assert cut({(SOURCE, SINK): UNBOUNDED}, SOURCE, SINK) is None


def test_nothing_to_cut() -> None:
    assert cut({}, SOURCE, SINK) == set()
