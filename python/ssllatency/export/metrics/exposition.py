# SPDX-License-Identifier: Apache-2.0
"""Makes readings, one after the other, of what is counted: by service, of the host, and of this program itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ssllatency import __version__
from ssllatency.data_class import dataclass
from ssllatency.export.metrics.cap import IN_OVERFLOW, Cap
from ssllatency.export.metrics.certificates import expiries
from ssllatency.export.metrics.collect import OTHER, ByProcess, of_host
from ssllatency.export.metrics.families import BY_NAME, FAMILIES, MetricKind
from ssllatency.export.metrics.kept import KeptResults, Stage
from ssllatency.export.metrics.ledger import Counts, Folded, Ledger, Row, ServiceLookup, Value, bounded
from ssllatency.export.metrics.places import Places
from ssllatency.export.metrics.points import Distribution, Labels, Point, Reading, labels
from ssllatency.model.cost import TracingCost
from ssllatency.model.snapshot import Snapshot

_TARGETS: Row = ("ssllatency.targets", ())
_ORDER = {family.name: number for number, family in enumerate(FAMILIES)}


@dataclass(frozen=True)
class Own:
    """Facts that this program knows of itself: how many targets it couldn't trace, what the last reading took, and how many
    processes are there that get no probe."""

    refused: int
    reading_s: float
    spared: int = 0


class Exposition:
    """Keeps what must not fall. At most `most` series; a service that has had no process for `linger_s` is left out."""

    def __init__(self, processes: ServiceLookup, most: int, linger_s: float, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._began_s = clock()
        self._kept = KeptResults()
        self._ledger = Ledger(processes, self._kept, self._began_s, linger_s, clock)
        self._cap = Cap(most, self._began_s)
        self._untold = Places()  # of processes that aren't told apart
        self._by_process = ByProcess(self._kept)
        self._highest: dict[tuple[str, Labels], float] = {}
        self._of_no_service: dict[tuple[str, Labels], Point] = {}  # those of the last reading
        self._cost: TracingCost | None = None

    def gone(self) -> set[int]:
        """The processes that have ended, whom the engine may forget after the next reading; to be called before its snapshot
        is taken."""
        return self._ledger.gone()

    def read(self, snapshot: Snapshot, gone: set[int], own: Own) -> Reading:
        """The snapshot's counts as points."""
        counts = self._by_process.read(snapshot)
        untold = bounded(self._untold, counts.pop(OTHER, {}))
        folded = self._ledger.fold(counts, gone, {target.pid: target.comm for target in snapshot.targets})
        before, self._of_no_service = self._of_no_service, {}
        points = self._points_of_no_service(chain(self._of_host(snapshot), _in_overflow(untold)), before)
        for service, of in folded.items():
            points += self._points_of(service, of)
        served = (snapshot.handshakes.certificates if snapshot.handshakes else None) or ()
        boot_s = self._clock() - time.clock_gettime(time.CLOCK_BOOTTIME)
        points += self._points_of_no_service(expiries(served, self._ledger.known, boot_s), before)
        self._kept.end_reading()
        placed, ended = self._cap.place(points)
        placed += [Point(family, values, value, self._began_s) for family, values, value in self._of_itself(snapshot, own)]
        placed.sort(key=lambda point: _ORDER[point.family])
        return Reading(snapshot.host, self._clock(), tuple(placed), tuple(ended))

    def _points_of_no_service(
        self, found: Iterable[tuple[str, Labels, Value]], before: Mapping[tuple[str, Labels], Point]
    ) -> list[Point]:
        """The points of series whose labels are all here: those of the reading before, where they are the same."""
        points = []
        for family, values, value in found:
            last = before.get((family, values))
            point = Point(family, values, value, self._began_s) if last is None else _next(last, value)
            self._of_no_service[family, values] = point
            points.append(point)
        return points

    def _points_of(self, service: Labels, folded: Folded) -> Sequence[Point]:
        """The points of a service: those of the last reading, where they are the same."""
        before: _ServicePoints = self._kept.last(Stage.POINTS, service) or _NO_POINTS
        return self._kept.of(Stage.POINTS, service, (folded,), lambda parts: _points(service, parts[0], before)).points

    def _of_host(self, snapshot: Snapshot) -> Iterator[tuple[str, Labels, Value]]:
        """Counters never fall: some are estimates, which may be corrected downwards."""
        for family, values, value in of_host(snapshot):
            if BY_NAME[family].kind is MetricKind.COUNTER and not isinstance(value, float | int):
                raise TypeError(family)
            yield family, values, self._risen(family, values, value)

    def _risen(self, family: str, values: Labels, value: Value) -> Value:
        if BY_NAME[family].kind is not MetricKind.COUNTER or not isinstance(value, float | int):
            return value
        highest = max(value, self._highest.get((family, values), 0))
        self._highest[family, values] = highest
        return highest

    def _of_itself(self, snapshot: Snapshot, own: Own) -> Iterator[tuple[str, Labels, Value]]:
        if (overhead := self._overhead(snapshot.cost)) is not None:
            yield "ssllatency.overhead", (), overhead
        yield "ssllatency.targets.refused", (), own.refused
        yield "ssllatency.targets.spared", (), own.spared
        yield "ssllatency.series", (), len(self._cap)
        yield "ssllatency.series.dropped", (), self._cap.dropped + self._ledger.left + self._untold.left
        yield "ssllatency.reading", (), own.reading_s
        about = {"version": __version__, "engine": snapshot.engine, "kernel": snapshot.kernel}
        yield "ssllatency.build.info", labels(about), 1

    def _overhead(self, cost: TracingCost | None) -> float | None:
        """Return what tracing took since the last reading; None where that isn't known, or the processes did nothing."""
        before, self._cost = self._cost or TracingCost(0, 0, 0, 0), cost
        if cost is None or cost.cpu_ns is None or before.cpu_ns is None or cost.cpu_ns <= before.cpu_ns:
            return None
        return max(0, cost.total_ns - before.total_ns) / (cost.cpu_ns - before.cpu_ns)


def _in_overflow(untold: Counts) -> Iterator[tuple[str, Labels, Value]]:
    """The series of processes that aren't told apart."""
    for (family, values), value in untold.items():
        yield family, labels(dict((*IN_OVERFLOW, *values))), value


class _ServicePoints(NamedTuple):
    """The points of a service, each after the row that it is of, and since when they count."""

    since_s: float
    rows: Sequence[Row]
    points: Sequence[Point]


_NO_POINTS = _ServicePoints(math.nan, (), ())


def _points(service: Labels, of: Folded, before: _ServicePoints) -> _ServicePoints:
    """The points of a service, which had these before."""
    rows, values = [_TARGETS, *of.counts], [of.processes, *of.counts.values()]
    if before.since_s != of.since_s:
        before = _NO_POINTS
    if before.rows == rows:  # as in most readings
        return before._replace(points=list(map(_next, before.points, values)))
    last_of = dict(zip(before.rows, before.points, strict=True))
    points = [_point_of(service, row, value, of.since_s, last_of.get(row)) for row, value in zip(rows, values, strict=True)]
    return _ServicePoints(of.since_s, rows, points)


def _point_of(service: Labels, row: Row, value: Value, since_s: float, last: Point | None) -> Point:
    if last is not None:
        return _next(last, value)
    family, values = row
    return Point(family, labels(dict((*service, *values))), value, since_s)


def _next(last: Point, value: Value) -> Point:
    """The series' next point: the last one where its value is the same, or where nobody has seen it."""
    if last.is_hidden:
        last.value = value
        return last
    if last.value is value or (value.is_same(last.value) if isinstance(value, Distribution) else last.value == value):
        return last
    return last.with_value(value)
