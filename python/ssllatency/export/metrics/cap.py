# SPDX-License-Identifier: Apache-2.0
"""A bound on the number of series. What is beyond it is added up in one overflow series for each metric, as OpenTelemetry has
it; a series stays where it was put, in its own place or in the overflow, so that neither ever falls."""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency.export.metrics.families import BY_NAME, OVERFLOW, MetricKind
from ssllatency.export.metrics.ledger import Value, added
from ssllatency.export.metrics.points import Labels, Point, labels

IN_OVERFLOW = labels({OVERFLOW: "true"})
_MOST_REMEMBERED = 100_000  # overflown series; of further ones what they have when they end is lost to the overflow

Series = tuple[str, Labels]


class Cap:
    """Lets so many series have a place of their own. `dropped` counts those that have had none."""

    def __init__(self, most: int, began_s: float) -> None:
        self._most, self._began_s = most, began_s
        self._own: set[Series] = set()
        self._overflown: dict[Series, Value] = {}  # and what they had counted by the last time
        self._kept: dict[str, Value] = {}  # what overflown series had that are no more
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._own) + len(self._kept.keys() | {family for family, _ in self._overflown})

    def place(self, points: Iterable[Point]) -> tuple[list[Point], list[Series]]:
        """The points of the series that have a place, with the overflow's, and the series that are no more."""
        points = list(points)
        present = {(point.family, point.labels) for point in points}
        ended = sorted(self._own - present)
        self._own &= present
        for series in self._overflown.keys() - present:
            self._end(series)
        placed = [point for point in points if self._has_place((point.family, point.labels), point.value)]
        return placed + self._overflow(), ended

    def _has_place(self, series: Series, value: Value) -> bool:
        if series in self._own:
            return True
        if series not in self._overflown and len(self._own) < self._most:
            self._own.add(series)
            return True
        self.dropped += series not in self._overflown
        if series in self._overflown or len(self._overflown) < _MOST_REMEMBERED:
            self._overflown[series] = value
        return False

    def _end(self, series: Series) -> None:
        family, value = series[0], self._overflown.pop(series)
        if BY_NAME[family].kind is not MetricKind.GAUGE:
            self._kept[family] = added([self._kept[family], value]) if family in self._kept else value

    def _overflow(self) -> list[Point]:
        values: dict[str, list[Value]] = {family: [value] for family, value in self._kept.items()}
        for (family, _), value in self._overflown.items():
            values.setdefault(family, []).append(value)
        return [Point(family, IN_OVERFLOW, added(parts), self._began_s) for family, parts in values.items()]
