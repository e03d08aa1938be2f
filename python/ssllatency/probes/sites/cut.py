# SPDX-License-Identifier: Apache-2.0
"""The cheapest way to cut all paths of a graph from a source to a sink, each exactly once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

UNBOUNDED = 1 << 30

Point = tuple[str, int]
Edge = tuple[Point, Point]
_Residual = Mapping[Point, Mapping[Point, int]]


class Points:
    """Points of a graph, of which those that nothing can separate are joined."""

    def __init__(self) -> None:
        self._parents: dict[Point, Point] = {}

    def find(self, point: Point) -> Point:
        """The one that stands for the point and all that are joined with it."""
        while point in self._parents:
            parent = self._parents[point]
            if parent in self._parents:
                self._parents[point] = self._parents[parent]
            point = parent
        return point

    def join(self, point: Point, other: Point) -> None:
        """Makes one of two."""
        point, other = self.find(point), self.find(other)
        if point != other:
            self._parents[point] = other


def cut(edges: Mapping[Edge, int], source: Point, sink: Point) -> set[Edge] | None:
    """The edges of least total weight that every path from `source` to `sink` crosses exactly once; None if there are none.

    `edges` maps (from, to) to a weight. Among equal cuts it is the one nearest to the sink. (Maximum flow by augmenting paths.
    An edge may be walked backwards without limit, so that no path can cross the cut, return before it and cross it again.)
    """
    residual: dict[Point, dict[Point, int]] = {source: {}, sink: {}}
    for (start, end), weight in edges.items():
        residual.setdefault(start, {})
        residual.setdefault(end, {})
        residual[start][end] = residual[start].get(end, 0) + weight
        residual[end][start] = max(residual[end].get(start, 0), UNBOUNDED)
    while path := _path(residual, source, sink):
        width = min(residual[start][end] for start, end in path)
        if width >= UNBOUNDED:
            return None
        for start, end in path:
            residual[start][end] -= width
            residual[end][start] += width
    past = _reaching(residual, sink)
    return {(start, end) for start, end in edges if start not in past and end in past}


def _path(residual: _Residual, source: Point, sink: Point) -> list[Edge]:
    """A shortest path with capacity left, empty if there is none."""
    came = {source: source}
    work = deque([source])
    while work and sink not in came:
        point = work.popleft()
        for neighbour, capacity in residual[point].items():
            if capacity > 0 and neighbour not in came:
                came[neighbour] = point
                work.append(neighbour)
    path = []
    point = sink
    while point in came and point != source:
        path.append((came[point], point))
        point = came[point]
    return path[::-1]


def _reaching(residual: _Residual, sink: Point) -> set[Point]:
    """The points from which capacity is left to the sink."""
    reached = {sink}
    work = [sink]
    while work:
        point = work.pop()
        for neighbour in residual[point]:
            if neighbour not in reached and residual[neighbour].get(point, 0) > 0:
                reached.add(neighbour)
                work.append(neighbour)
    return reached
