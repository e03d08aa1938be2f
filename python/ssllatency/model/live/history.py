# SPDX-License-Identifier: Apache-2.0
"""The last minutes of a running session: what happened in any time up to now, and in each interval by itself.

Readings are cumulative, so that what happened since any of them is one exact difference. Of the last seconds each is kept, of
the time before one in ten seconds. Of each interval there are counts and coarse histograms, enough to draw it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import causes_since
from ssllatency.model.arithmetic.snapshots import difference
from ssllatency.model.handshakes import Cause, Ending, Label, LabelValue
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.live.ended import folded
from ssllatency.model.live.reading import FUNCTION, LiveReading, labels_of, name_in
from ssllatency.model.process_label import ProcessLabel
from ssllatency.model.snapshot import Outcome, Snapshot

HISTORY_S = 300.0
_EACH_S, _APART_S = 15.0, 10.0
_MOST_FAILURES = 200
_MOST_KEYS = 512  # of an interval; beyond it nothing is drawn
COARSE = 2  # histogram buckets that are one of an interval's: 1.09 times from one to the next

Key = tuple[tuple[Label, LabelValue], ...]


@dataclass(frozen=True)
class Tally:
    """The handshakes or calls that ended in one interval: how many, how many of them failed, and how many took how long (coarse
    buckets)."""

    count: int
    failed: int
    buckets: Mapping[int, int]


@dataclass(frozen=True)
class HistoryInterval:
    """The time between two readings: handshakes by labels, calls by function."""

    at_s: float
    duration_s: float
    handshakes: Mapping[Key, Tally]
    functions: Mapping[str, Tally]


@dataclass(frozen=True)
class Failures:
    """Handshakes that didn't succeed for one cause, in the interval that ended `at_s`."""

    at_s: float
    cause: Cause


@dataclass(frozen=True)
class Window:
    """The counts in the time up to the newest reading, and the part of a processor that the tool itself took."""

    snapshot: Snapshot
    own_cpu: float | None


class History:
    """Readings of one session, the newest last; what is older than `HISTORY_S` is forgotten."""

    def __init__(self) -> None:
        self._kept: deque[LiveReading] = deque()
        self.intervals: deque[HistoryInterval] = deque()
        self.failures: deque[Failures] = deque(maxlen=_MOST_FAILURES)

    @property
    def newest(self) -> LiveReading | None:
        """The newest reading."""
        return self._kept[-1] if self._kept else None

    def add(self, reading: LiveReading) -> None:
        """Takes the next reading."""
        if reading.ended:
            self._kept = deque(_folded(kept, reading.ended) for kept in self._kept)
        if self.newest:
            self._note(self.newest, reading)
        self._kept.append(reading)
        self._thin(reading.at_s)

    def copy(self) -> History:
        """A copy, to which nothing is added any more."""
        kept = History()
        kept._kept, kept.intervals, kept.failures = self._kept.copy(), self.intervals.copy(), self.failures.copy()
        return kept

    def window(self, seconds: float) -> Window | None:
        """The counts in the last so many seconds, or since the first reading; None before there are two."""
        if len(self._kept) < 2:
            return None
        newest = self._kept[-1]
        # Half an interval of a second is within what a reading takes.
        old_enough = [reading for reading in self._kept if newest.at_s - reading.at_s >= seconds - 0.5]
        base = old_enough[-1] if old_enough else self._kept[0]
        if base is newest:
            base = self._kept[-2]
        return Window(difference(newest.snapshot, base.snapshot), _own_cpu(newest, base))

    def _note(self, earlier: LiveReading, later: LiveReading) -> None:
        at_s, duration_s = later.at_s, later.snapshot.duration_s - earlier.snapshot.duration_s
        handshakes, functions = _handshakes(earlier.snapshot, later.snapshot), _functions(earlier.snapshot, later.snapshot)
        self.intervals.append(HistoryInterval(at_s, duration_s, handshakes, functions))
        before, after = earlier.snapshot.handshakes, later.snapshot.handshakes
        if before and after:
            self.failures.extend(Failures(at_s, cause) for cause in causes_since(after.causes, before.causes))
        while self.intervals and self.intervals[0].at_s < at_s - HISTORY_S:
            self.intervals.popleft()
        while self.failures and self.failures[0].at_s < at_s - HISTORY_S:
            self.failures.popleft()

    def _thin(self, now_s: float) -> None:
        """Keeps a reading of the older ones in ten seconds."""
        kept: list[LiveReading] = []
        for reading in self._kept:
            is_late = now_s - reading.at_s <= _EACH_S
            if is_late or (now_s - reading.at_s <= HISTORY_S + _APART_S and _is_apart(reading, kept)):
                kept.append(reading)
        self._kept = deque(kept)


def tallies(intervals: Iterable[HistoryInterval], view: str, services: Mapping[int, str], row: str | None) -> Iterator[Tally]:
    """For each interval what the row of that name is of it, in that view; with None what all rows are."""
    names = _Names(view, services)
    for interval in intervals:
        parts = interval.functions.items() if view == FUNCTION else interval.handshakes.items()
        yield _added(tally for key, tally in parts if row in (None, names.of(key)))


def counts(intervals: Sequence[HistoryInterval], view: str, services: Mapping[int, str]) -> dict[str, list[int]]:
    """By row, how many there were in each interval."""
    names, by_row = _Names(view, services), dict[str, list[int]]()
    for number, interval in enumerate(intervals):
        for key, tally in interval.functions.items() if view == FUNCTION else interval.handshakes.items():
            by_row.setdefault(names.of(key), [0] * len(intervals))[number] += tally.count
    return by_row


class _Names:
    """The names of the rows to which keys belong, each made once."""

    def __init__(self, view: str, services: Mapping[int, str]) -> None:
        self._view, self._services = view, services
        self._names: dict[Key | str, str] = {}

    def of(self, key: Key | str) -> str:
        """The name; a function's key is its name."""
        if isinstance(key, str):
            return key
        if key not in self._names:
            self._names[key] = name_in(self._view, dict(key), self._services)
        return self._names[key]


def _added(parts: Iterable[Tally]) -> Tally:
    count = failed = 0
    buckets: dict[int, int] = {}
    for part in parts:
        count, failed = count + part.count, failed + part.failed
        for bucket, number in part.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + number
    return Tally(count, failed, buckets)


def _folded(reading: LiveReading, ended: Mapping[int, str]) -> LiveReading:
    if reading.processes.isdisjoint(ended):
        return reading
    return replace(reading, snapshot=folded(reading.snapshot, ended))


def _is_apart(reading: LiveReading, kept: list[LiveReading]) -> bool:
    return not kept or reading.at_s - kept[-1].at_s >= _APART_S - 0.5


def _own_cpu(later: LiveReading, earlier: LiveReading) -> float | None:
    elapsed_s = later.snapshot.duration_s - earlier.snapshot.duration_s
    return max(0.0, later.own_cpu_s - earlier.own_cpu_s) / elapsed_s if elapsed_s > 0 else None


def _handshakes(earlier: Snapshot, later: Snapshot) -> dict[Key, Tally]:
    before = {(_identity(key), ending): wall for (key, ending), wall in _walls(earlier).items()}
    tallies: dict[Key, Tally] = {}
    for (key, ending), wall in _walls(later).items():
        since = _since(wall, before.get((_identity(key), ending)))
        if not since.count or (key not in tallies and len(tallies) >= _MOST_KEYS):
            continue
        success = ending is Ending.SUCCESS
        tally = Tally(since.count, 0 if success else since.count, _coarse(since) if success else {})
        tallies[key] = _added([tallies[key], tally]) if key in tallies else tally
    return tallies


def _walls(snapshot: Snapshot) -> dict[tuple[Key, Ending], ExponentialHistogram]:
    walls: dict[tuple[Key, Ending], list[ExponentialHistogram]] = {}
    for group in snapshot.handshakes.groups if snapshot.handshakes else ():
        walls.setdefault((_key(labels_of(group)), group.ending), []).append(group.whole.exponential)
    return {key: ExponentialHistogram.added(parts) for key, parts in walls.items()}


def _key(labels: Mapping[Label, LabelValue]) -> Key:
    return tuple((label, value) for label, value in labels.items() if label is not Label.RESUMED)


def _identity(key: Key) -> tuple[tuple[Label, int | str | None], ...]:
    """A process is identified by its PID alone: its name may become known, or change, later."""
    return tuple((label, value.identity if isinstance(value, ProcessLabel) else value) for label, value in key)


def _functions(earlier: Snapshot, later: Snapshot) -> dict[str, Tally]:
    before = {(series.function, series.outcome, series.pid): series.exponential for series in earlier.series}
    parts: dict[str, list[Tally]] = {}
    for series in later.series:
        since = _since(series.exponential, before.get((series.function, series.outcome, series.pid)))
        if since.count:
            failed = since.count if series.outcome is Outcome.FAILURE else 0
            buckets = _coarse(since) if series.outcome.may_be_success else {}
            parts.setdefault(series.function, []).append(Tally(since.count, failed, buckets))
    return {function: _added(outcomes) for function, outcomes in parts.items()}


def _since(later: ExponentialHistogram, earlier: ExponentialHistogram | None) -> ExponentialHistogram:
    return later if earlier is None else later - earlier


def _coarse(histogram: ExponentialHistogram) -> dict[int, int]:
    buckets: dict[int, int] = {}
    for bucket, count in histogram.by_bucket.items():
        buckets[bucket // COARSE] = buckets.get(bucket // COARSE, 0) + count
    return buckets
