# SPDX-License-Identifier: Apache-2.0
"""Counts of processes, folded into those of their services: no total falls when a process ends, or when its PID is used again.

What is counted of a process is the engine's, cumulative. What a process had when it ended is kept with its service; then the
engine may forget the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from ssllatency.data_class import dataclass
from ssllatency.export.metrics.kept import KeptResults, Stage
from ssllatency.export.metrics.places import Places
from ssllatency.export.metrics.points import Distribution, Labels
from ssllatency.model.histogram import ExponentialHistogram

Value = Distribution | float
Row = tuple[str, Labels]  # a family, and the labels beside those of the service
Counts = Mapping[Row, Value]
_NOTHING: Counts = {}  # always the same one


def added(values: Sequence[Value]) -> Value:
    """The sum of at least one; all of one kind."""
    if len(values) == 1:
        return values[0]
    if not isinstance(values[0], Distribution):
        return sum(values)  # type: ignore[arg-type]
    parts: Sequence[Distribution] = values  # type: ignore[assignment]
    total_ns = sum([part.total_ns for part in parts])
    return Distribution(total_ns, ExponentialHistogram.added([part.buckets for part in parts]))


def bounded(places: Places, counts: Counts) -> Counts:
    """Add up what has no place of its own."""
    others = places.others(counts)
    if not others:
        return counts
    own = {row: value for row, value in counts.items() if row not in others}
    for row, other in others.items():
        own[other] = added([own[other], counts[row]]) if other in own else counts[row]
    return own


def since(later: Counts, earlier: Counts) -> Counts:
    """Return what was counted in between."""
    return {row: _since(value, earlier[row]) if row in earlier else value for row, value in later.items()}


def _since(later: Value, earlier: Value) -> Value:
    if isinstance(later, Distribution) and isinstance(earlier, Distribution):
        return Distribution(later.total_ns - earlier.total_ns, later.buckets - earlier.buckets)
    assert not isinstance(later, Distribution)
    assert not isinstance(earlier, Distribution)
    return later - earlier


@dataclass(frozen=True)
class Known:
    """A process that was seen: when it started, 0 where it had ended by then, and its service's labels."""

    started: int
    labels: Labels


class ServiceLookup(Protocol):
    """A lookup of who a process is."""

    def started(self, pid: int) -> int | None:
        """Return when it started, which with the PID names it for good; None where it isn't there."""

    def known(self, pid: int, name: str) -> Known:
        """Return who it is, by one look at it; `name` is what it is called where it is there no more."""


@dataclass(frozen=True)
class Folded:
    """A service's counts by now, since when it counts, and how many processes it has."""

    counts: Counts
    since_s: float
    processes: int


@dataclass
class ServiceCounts:
    """The part of a service that is kept: the counts of its processes that have ended, when it had a process last, and which
    of its rows have a place of their own. `since_s`: since when it counts."""

    since_s: float
    alive_s: float
    kept: Counts = field(default_factory=dict)
    places: Places = field(default_factory=Places)

    def keep(self, counts: Counts) -> None:
        """Adds what a process had when it ended."""
        kept = dict(self.kept)
        for row, value in counts.items():
            kept[row] = added([kept[row], value]) if row in kept else value
        self.kept = bounded(self.places, kept)

    def folded(self, alive: Sequence[Counts]) -> Folded:
        """With what its processes have by now."""
        counted = [counts for counts in (self.kept, *alive) if counts]
        if len(counted) == 1:
            return Folded(bounded(self.places, counted[0]), self.since_s, len(alive))
        rows: dict[Row, list[Value]] = {}
        for counts in counted:
            for row, value in counts.items():
                rows.setdefault(row, []).append(value)
        return Folded(bounded(self.places, {row: added(values) for row, values in rows.items()}), self.since_s, len(alive))


def _folded(parts: Sequence[ServiceCounts | Counts]) -> Folded:
    """Of a service, of what it has kept, and of the counts of its processes: the same object as long as all of these are."""
    service, _, *alive = parts
    assert isinstance(service, ServiceCounts)
    return service.folded([counts for counts in alive if not isinstance(counts, ServiceCounts)])


class Ledger:
    """Folds. A service that has had no process for `linger_s` is forgotten."""

    def __init__(
        self,
        processes: ServiceLookup,
        kept: KeptResults,
        began_s: float,
        linger_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._processes, self._clock = processes, clock
        self._linger_s, self._read_s = linger_s, began_s
        self._known: dict[int, Known] = {}
        self._last: dict[int, Counts] = {}
        self._earlier: dict[int, Counts] = {}  # what an earlier process of that PID had counted in the same rows
        self._services: dict[Labels, ServiceCounts] = {}
        self._left = 0  # rows without a place of their own, of services that were forgotten
        self._kept = kept

    @property
    def left(self) -> int:
        """The number of rows that have had no place of their own."""
        return self._left + sum(service.places.left for service in self._services.values())

    def gone(self) -> set[int]:
        """Those of the known processes that have ended: to be called before the counts are read, which then have all of theirs.
        Whoever has a PID now that was another's is found as well."""
        gone = set()
        for pid, known in list(self._known.items()):
            started = self._processes.started(pid)
            if started is None:
                gone.add(pid)
            elif known.started != started:
                self._hand_over(pid)
        return gone

    def _hand_over(self, pid: int) -> None:
        """The process that had this PID keeps what was counted by the last reading; what comes is the new one's."""
        self._service_of(pid).keep(self._own(pid, self._last.get(pid, _NOTHING)))
        self._earlier[pid] = self._last.get(pid, _NOTHING)
        self._known[pid] = self._processes.known(pid, "")

    def _own(self, pid: int, counts: Counts) -> Counts:
        return since(counts, self._earlier[pid]) if pid in self._earlier else counts

    def _service_of(self, pid: int) -> ServiceCounts:
        """Return its service's counts: what is new at a reading has counted since the one before."""
        return self._services.setdefault(self._known[pid].labels, ServiceCounts(self._read_s, self._clock()))

    def fold(self, counts: Mapping[int, Counts], gone: Collection[int], names: Mapping[int, str]) -> dict[Labels, Folded]:
        """The counts by service, from those by process. `gone` have ended, as they were found: after this the engine may forget
        them. `names` has those of all processes that are or were traced."""
        now = self._clock()
        parts: dict[Labels, list[Counts]] = {}
        for pid in sorted({*counts, *names, *self._known}):
            known = self._remember(pid, names)
            service, own = self._service_of(pid), self._own(pid, counts.get(pid, _NOTHING))
            if pid in gone:
                service.keep(own)
                self._forget(pid)
                continue
            service.alive_s = now
            self._last[pid] = counts.get(pid, _NOTHING)
            parts.setdefault(known.labels, []).append(own)
        self._end_services(parts, now)
        self._read_s = now
        return {
            labels: self._kept.of(Stage.SERVICE, labels, (service, service.kept, *parts.get(labels, ())), _folded)
            for labels, service in self._services.items()
        }

    def known(self, pid: int) -> Known | None:
        """A process that was alive at the last reading."""
        return self._known.get(pid)

    def _remember(self, pid: int, names: Mapping[int, str]) -> Known:
        if pid not in self._known:
            self._known[pid] = self._processes.known(pid, names.get(pid, ""))
        return self._known[pid]

    def _forget(self, pid: int) -> None:
        for remembered in (self._known, self._last, self._earlier):
            remembered.pop(pid, None)

    def _end_services(self, alive: Collection[Labels], now: float) -> None:
        over = [labels for labels, service in self._services.items() if now - service.alive_s > self._linger_s]
        for labels in over:
            if labels not in alive:
                self._left += self._services.pop(labels).places.left
