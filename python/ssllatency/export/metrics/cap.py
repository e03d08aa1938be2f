# SPDX-License-Identifier: Apache-2.0
"""A bound on the number of series. What is beyond it is added up in one overflow series for each metric, as OpenTelemetry has
it, or left out where a sum would mean nothing; a series stays where it was put, in its own place or in the overflow, so that
neither ever falls."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, compress

from ssllatency.export.metrics.families import BY_NAME, OVERFLOW, MetricKind
from ssllatency.export.metrics.ledger import Value, added
from ssllatency.export.metrics.points import Labels, Point, labels
from ssllatency.model.keyed import KeyedCache

IN_OVERFLOW = labels({OVERFLOW: "true"})
_MOST_REMEMBERED = 100_000  # overflown series; of further ones what they have when they end is lost to the overflow

Series = tuple[str, Labels]
_Identity = tuple[str, int]  # a family, and which object the labels are: a tenth of the work of looking at them


class Cap:
    """Lets so many series have a place of their own. `dropped` counts those that have had none."""

    def __init__(self, most: int, began_s: float) -> None:
        self._most, self._began_s = most, began_s
        self._own: set[Series] = set()
        self._overflown: dict[Series, list[Value]] = {}  # and what each had counted by the last time, alone in a list
        self._series: tuple[list[str], list[Labels]] = ([], [])  # of the last reading, in order: which keeps their labels
        self._places: dict[_Identity, list[Value] | None] = {}  # theirs: as in _overflown, None for a place of its own
        self._has_own: list[bool] = []
        self._counted: list[tuple[int, list[Value]]] = []  # of the others, the number of each, and where its value is kept
        self._overflown_by_family: dict[str, list[list[Value]]] = {}  # of those whose sum means something; none: made anew
        self._sums: KeyedCache[str, Value, Value] = KeyedCache(added)  # of the overflow, by family
        self._kept: dict[str, Value] = {}  # what overflown series had that are no more
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._own) + len(self._kept.keys() | {family for family, _ in self._overflown})

    def place(self, points: Iterable[Point]) -> tuple[list[Point], list[Series]]:
        """The points of the series that have a place, with the overflow's, and the series that are no more."""
        points = list(points)
        series = [point.family for point in points], [point.labels for point in points]
        if series == self._series and len(self._overflown) < _MOST_REMEMBERED:  # as in most readings
            return self._placed_as_before(points) + self._overflow(), []
        self._series, self._overflown_by_family = series, {}
        identities = list(zip(series[0], map(id, series[1]), strict=True))
        ended: list[Series] = []
        known = sum(map(self._places.__contains__, identities))
        if known != len(self._places):  # else there are those of the reading before, as in most readings
            ended = self._end_absent({(point.family, point.labels) for point in points})
            self._places = {}
        placed = self._placed(identities, points)
        if len(self._overflown) == _MOST_REMEMBERED:
            self._places = {}  # as those that aren't remembered count anew each time
        return placed + self._overflow(), ended

    def _placed_as_before(self, points: list[Point]) -> list[Point]:
        """The points that have a place, where all are of the series that they were of the last time."""
        for number, counted in self._counted:
            counted[0] = points[number].value
        return list(compress(points, self._has_own))

    def _end_absent(self, present: set[Series]) -> list[Series]:
        """Frees the places of the series that are no more, and returns them."""
        ended = sorted(self._own - present)
        self._own &= present
        for series in self._overflown.keys() - present:
            self._end(series)
        return ended

    def _placed(self, identities: Iterable[_Identity], points: Iterable[Point]) -> list[Point]:
        """The points that have a place; the values of the others are kept."""
        places, placed = self._places, []
        self._has_own, self._counted = [], []
        for number, (identity, point) in enumerate(zip(identities, points, strict=True)):
            if identity not in places:
                places[identity] = self._place_of((point.family, point.labels))
            overflown = places[identity]
            point.is_hidden = overflown is not None
            self._has_own.append(overflown is None)
            if overflown is None:
                placed.append(point)
                continue
            self._counted.append((number, overflown))
            if overflown:
                overflown[0] = point.value
            else:
                overflown.append(point.value)
        return placed

    def _place_of(self, series: Series) -> list[Value] | None:
        """None where it has one of its own, and else where its value is kept."""
        if series in self._own:
            return None
        if series not in self._overflown and len(self._own) < self._most:
            self._own.add(series)
            return None
        self.dropped += series not in self._overflown
        if len(self._overflown) < _MOST_REMEMBERED:
            return self._overflown.setdefault(series, [])
        return self._overflown.get(series, [])

    def _end(self, series: Series) -> None:
        family, (value,) = series[0], self._overflown.pop(series)
        if BY_NAME[family].kind is not MetricKind.GAUGE:
            self._kept[family] = added([self._kept[family], value]) if family in self._kept else value

    def _overflow(self) -> list[Point]:
        if not self._overflown_by_family:
            for (family, _), counted in self._overflown.items():
                if BY_NAME[family].adds:
                    self._overflown_by_family.setdefault(family, []).append(counted)
        values: dict[str, list[Value]] = {family: [value] for family, value in self._kept.items()}
        for family, several in self._overflown_by_family.items():
            values.setdefault(family, []).extend(chain.from_iterable(several))
        return [Point(family, IN_OVERFLOW, value, self._began_s) for family, value in self._sums.of(values).items()]
