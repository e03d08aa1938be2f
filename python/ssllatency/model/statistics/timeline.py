# SPDX-License-Identifier: Apache-2.0
"""The history of a recording: what of its handshakes changed, in which order, and how the changed time compares with the time
before.

A handshake is of the interval in which it ended, so a change is seen as late as the slowest take. Of what changed in the same
interval it isn't known which was first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import log

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import MEANWHILE, PHASES, WAITS, WINDOWED, Ending, Part
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Losses, Snapshot
from ssllatency.model.statistics.change_points import shortest_told, stretch_of
from ssllatency.model.statistics.compare import compare
from ssllatency.model.statistics.comparison import Comparison, Verdict

_MOST_COLUMNS = 200
_FEWEST_HANDSHAKES = 30
_FLOOR = 0.01  # of the mean handshake: times of a part below that are alike
_RATIO = 1.5  # a time or rate that changes by less isn't told
_PART_OF_WHOLE = 0.1  # nor a part whose change is less of the mean handshake
_SHARE = 0.02  # nor a share that changes by less


class Quantified(StrEnum):
    """A quantity of handshakes beside their times: how many end in a second, and which share of them failed, was
    abandoned, or of the successful ones was resumed."""

    RATE = "rate"
    FAILED = "failed"
    ABANDONED = "abandoned"
    RESUMED = "resumed"


@dataclass(frozen=True)
class Changed:
    """A change from interval number `start` on, until `end`: its values before and in that time, in nanoseconds of the mean
    successful handshake, in handshakes a second, or as a share."""

    what: Part | Quantified
    start: int
    end: int
    before: float
    within: float

    @property
    def is_felt(self) -> bool:
        """Whether it is something that clients feel."""
        return self.what in (Part.CLIENT_WAIT, Part.WALL, Quantified.FAILED, Quantified.ABANDONED)


@dataclass(frozen=True)
class ChangedTime:
    """The intervals from number `start` until `end` as a recording of their own, how it compares with what was before all
    changes, and whether clients waited longer in it, or more handshakes didn't succeed."""

    start: int
    end: int
    normal: Recording
    recording: Recording
    comparison: Comparison
    is_worse: bool


@dataclass(frozen=True)
class Timeline:
    """The history of a run: what changed, the first change first, and the time that it lasted; None and nothing where
    nothing changed. A change that is shorter than `shortest_s` may not be told from chance."""

    run: Run
    shortest_s: float
    changes: tuple[Changed, ...] = ()
    changed: ChangedTime | None = None

    def at(self, number: int) -> datetime:
        """Return when this interval began; the end of the last, for the number after it."""
        intervals = self.run.intervals
        before = intervals[min(number, len(intervals) - 1)]
        began = datetime.fromisoformat(before.started)
        try:
            return began if number < len(intervals) else began + timedelta(seconds=before.duration_s)
        except OverflowError:  # years end at 9999
            return began


def timeline(recording: Recording) -> Timeline | None:
    """The timeline of a recording of one run; None where it is too short, or has too few handshakes, to tell."""
    if len(recording.runs) != 1:
        return None
    run = recording.runs[0]
    columns = _columns(run.intervals)
    shortest = shortest_told(len(columns))
    if shortest is None or sum(column.ended for column in columns) < _FEWEST_HANDSHAKES:
        return None
    shortest_s = shortest * run.intervals[0].duration_s * (columns[0].end - columns[0].start)
    found = [*_numbers(columns), *_times(columns)]
    # Parts come and go within a whole that stays as it was: who has them is chance, too.
    found = found if any(change.is_felt or isinstance(change.what, Quantified) for change in found) else []
    changes = sorted(found, key=lambda change: (change.start, not change.is_felt, -abs(change.within - change.before)))
    return Timeline(run, shortest_s, tuple(changes), _changed_time(run, changes) if changes else None)


def _changed_time(run: Run, changes: Sequence[Changed]) -> ChangedTime:
    """The time that clients felt: of what got worse, if anything did."""
    felt = [change for change in changes if change.is_felt]
    worse = [change for change in felt if change.within > change.before]
    told = worse or felt or changes
    start, end = min(change.start for change in told), max(change.end for change in told)
    normal, recording = (_alone(run, part) for part in (run.intervals[: changes[0].start], run.intervals[start:end]))
    comparison = compare(normal, recording)
    return ChangedTime(start, end, normal, recording, comparison, bool(worse) or _is_worse(comparison))


def _is_worse(comparison: Comparison) -> bool:
    change = comparison.client_wait or comparison.handshake
    slower = change is not None and change.verdict is Verdict.SLOWER
    return slower or any(ending.verdict is Verdict.MORE for ending in comparison.endings)


def _alone(run: Run, intervals: Sequence[Snapshot]) -> Recording:
    """The handshakes of these intervals, without calls, of which a timeline tells nothing."""
    kept = tuple(replace(interval, series=(), sampling=(), losses=Losses()) for interval in intervals)
    return Recording((replace(run, intervals=kept),))


@dataclass
class _Column:
    """Sums over neighbouring intervals, from number `start` until `end`."""

    start: int
    end: int
    seconds: float = 0.0
    endings: Counter[Ending] = field(default_factory=Counter)
    times: Counter[Part] = field(default_factory=Counter)
    counts: Counter[Part] = field(default_factory=Counter)
    resumed: int = 0
    resumption_known: int = 0
    unphased: int = 0

    @property
    def ended(self) -> int:
        """The number of handshakes that ended."""
        return sum(self.endings.values())

    @property
    def successful(self) -> int:
        """The number of them that succeeded."""
        return self.endings[Ending.SUCCESS]

    def add(self, interval: Snapshot) -> None:
        """Adds the next interval."""
        self.end += 1
        self.seconds += interval.duration_s
        for group in interval.handshakes.groups if interval.handshakes else ():
            self.endings[group.ending] += group.count
            if group.ending is Ending.SUCCESS and group.count:
                self.times.update({part: times.total_ns for part, times in group.parts.items()})
                self.counts.update({part: times.count for part, times in group.parts.items()})
                self.resumed += group.resumed
                self.resumption_known += group.resumption_known
                self.unphased += group.unphased

    def ns(self, parts: Sequence[Part]) -> int:
        """The time of these parts in all."""
        return sum(self.times[part] for part in parts)


_Value = Callable[[_Column], float]
_Over = Callable[[Sequence[_Column]], float]
_IsTold = Callable[[float, float], bool]


def _columns(intervals: Sequence[Snapshot]) -> list[_Column]:
    """Return as many as can be looked at; a last interval that was cut off is of the column before. None without handshakes."""
    if any(interval.handshakes is None for interval in intervals):
        return []
    width = -(-len(intervals) // _MOST_COLUMNS)
    columns: list[_Column] = []
    for number, interval in enumerate(intervals):
        is_cut_off = number == len(intervals) - 1 and interval.duration_s < intervals[0].duration_s / 2
        if not columns or (number % width == 0 and not is_cut_off):
            columns.append(_Column(number, number))
        columns[-1].add(interval)
    return columns


def _numbers(columns: Sequence[_Column]) -> Iterator[Changed]:
    """Return what changed beside times."""
    yield from _changed(
        Quantified.RATE,
        columns,
        lambda column: log((column.ended + 0.5) / max(column.seconds, 1e-6)),
        lambda part: sum(column.ended for column in part) / max(sum(column.seconds for column in part), 1e-6),
        _is_other_ratio,
    )
    yield from _shares(Quantified.FAILED, columns, _number(Ending.FAILURE), lambda column: column.ended)
    yield from _shares(Quantified.ABANDONED, columns, _number(Ending.ABANDONED), lambda column: column.ended)
    yield from _shares(Quantified.RESUMED, columns, lambda column: column.resumed, lambda column: column.resumption_known)


def _number(ending: Ending) -> Callable[[_Column], int]:
    return lambda column: column.endings[ending]


def _shares(
    what: Quantified, columns: Sequence[_Column], part: Callable[[_Column], int], whole: Callable[[_Column], int]
) -> Iterator[Changed]:
    yield from _changed(
        what,
        [column for column in columns if whole(column)],
        lambda column: part(column) / whole(column),
        lambda chosen: sum(map(part, chosen)) / sum(map(whole, chosen)),
        lambda before, within: abs(within - before) >= _SHARE,
    )


def _times(columns: Sequence[_Column]) -> Iterator[Changed]:
    """Return which times of the mean successful handshake changed: its whole, and its parts."""
    chosen = [column for column in columns if column.successful]
    if not chosen:
        return
    whole = _whole(chosen)
    mean_ns = sum(column.ns((whole,)) for column in chosen) / sum(column.successful for column in chosen)
    early = (Part.QUEUE_START,) if whole is Part.CLIENT_WAIT else ()
    parts: dict[Part, Sequence[Part]] = {whole: (whole,), Part.QUEUE: (*early, Part.QUEUE_SERVER)}
    parts |= {part: (part,) for part in (*MEANWHILE, *_told_parts(chosen))}
    for what, pieces in parts.items():
        yield from _changed(what, chosen, *_mean_of(pieces, mean_ns))


def _mean_of(pieces: Sequence[Part], mean_ns: float) -> tuple[_Value, _Over, _IsTold]:
    """The mean of these parts, of a handshake that takes `mean_ns` in all, as _changed() asks for it."""

    def over(columns: Sequence[_Column]) -> float:
        return sum(column.ns(pieces) for column in columns) / sum(column.successful for column in columns)

    def is_told(before: float, within: float) -> bool:
        return _is_other_ratio(before, within) and abs(within - before) >= _PART_OF_WHOLE * mean_ns

    return lambda column: log(over((column,)) + _FLOOR * mean_ns), over, is_told


def _whole(columns: Sequence[_Column]) -> Part:
    """The part that is all of what clients waited for: as whole_part(), of sums."""
    known = all(column.counts[Part.CLIENT_WAIT] == column.successful for column in columns)
    return Part.CLIENT_WAIT if known and any(column.times[Part.QUEUE_START] for column in columns) else Part.WALL


def _told_parts(columns: Sequence[_Column]) -> Iterator[Part]:
    """Waits, phases, and what a thread was off the processor for; without the phases that weren't watched all the time."""
    yield from (wait for wait in WAITS if wait is not Part.QUEUE_SERVER)
    unphased = any(column.unphased for column in columns)
    yield from (phase for phase in PHASES if not (unphased and phase in (*WINDOWED, Part.REST)))
    yield from (Part.OFF_CPU_RUNNABLE, Part.OFF_CPU_THROTTLED)


def _changed(
    what: Part | Quantified,
    columns: Sequence[_Column],
    value: _Value,
    over: _Over,
    is_told: _IsTold,
) -> Iterator[Changed]:
    """The change of a quantity, whose value over several columns is `over`, where there is one to report."""
    stretch = stretch_of([value(column) for column in columns])
    if stretch:
        before, within = over(columns[: stretch.start]), over(columns[stretch.start : stretch.end])
        if is_told(before, within):
            yield Changed(what, columns[stretch.start].start, columns[stretch.end - 1].end, before, within)


def _is_other_ratio(before: float, within: float) -> bool:
    return max(before, within) > _RATIO * min(before, within)
