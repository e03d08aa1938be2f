# SPDX-License-Identifier: Apache-2.0
"""Recordings over time, in few enough columns to be drawn: what was counted in each, exactly.

An interval belongs to the column that its middle lies in. Runs that overlap are laid over one another by the clock; runs far
apart each begin at 0, as the time between them would leave them no room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from statistics import median

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import add_times
from ssllatency.model.handshakes import Ending, Part, Times
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Snapshot

MOST_COLUMNS = 200
# Below this share, most of the time lies between the runs.
_COVERED = 0.5
# With less of a column measured, nothing can be said about it.
_MEASURED = 0.1

Pick = Callable[[Snapshot], Iterable[Times]]
_Placed = tuple[float, Snapshot]  # an interval, and when after the beginning it began


@dataclass(frozen=True)
class PlotColumn:
    """From `start_s` to `end_s` after the beginning. `measured`: whether that time was, or a good part of it. `counted_s`: how
    long the intervals took that are counted in it, of all runs. `times` is None where nothing was counted."""

    start_s: float
    end_s: float
    measured: bool
    counted_s: float
    times: Times | None

    @property
    def count(self) -> int:
        """The number of durations that were counted."""
        return self.times.count if self.times else 0


def successful(part: Part) -> Pick:
    """The times of this part in the successful handshakes."""

    def pick(snapshot: Snapshot) -> Iterator[Times]:
        for group in snapshot.handshakes.groups if snapshot.handshakes else ():
            if group.ending is Ending.SUCCESS and group.count:
                yield group.parts[part]

    return pick


def calls_of(function: str) -> Pick:
    """The calls of one function that succeeded, or may have."""

    def pick(snapshot: Snapshot) -> Iterator[Times]:
        for series in snapshot.series:
            if series.function == function and series.outcome.may_be_success and series.count:
                yield Times(series.total_ns, series.min_ns, series.max_ns, series.exponential)

    return pick


def beginning(recording: Recording) -> datetime | None:
    """Return when by the clock the first column begins; None where each run begins at 0."""
    return min(datetime.fromisoformat(run.started) for run in recording.runs) if _together(recording) else None


def side_by_side(recordings: Sequence[Recording], pick: Pick, most: int = MOST_COLUMNS) -> list[list[PlotColumn]]:
    """The columns of each recording from the beginning to its end, at most so many. All are equally wide, those of the other
    recordings too: columns at the same place are of the same time."""
    placed = [list(_placed(recording)) for recording in recordings]
    width_s = max(_width(recording, _reach(intervals), most) for recording, intervals in zip(recordings, placed, strict=True))
    return [_columns(intervals, width_s, pick, most) for intervals in placed]


def _columns(placed: Sequence[_Placed], width_s: float, pick: Pick, most: int) -> list[PlotColumn]:
    held: dict[int, list[Snapshot]] = {}
    for start_s, interval in placed:
        position = int((start_s + interval.duration_s / 2) / width_s) if width_s else 0
        held.setdefault(min(position, most - 1), []).append(interval)
    covered = _seconds_covered(placed, width_s, max(held) + 1)
    return [
        _column(position * width_s, width_s, held.get(position, []), seconds >= _MEASURED * width_s, pick)
        for position, seconds in enumerate(covered)
    ]


def _column(start_s: float, width_s: float, intervals: Sequence[Snapshot], measured: bool, pick: Pick) -> PlotColumn:
    picked = [times for interval in intervals for times in pick(interval) if times.count]
    counted_s = sum(interval.duration_s for interval in intervals)
    return PlotColumn(start_s, start_s + width_s, measured, counted_s, add_times(picked) if picked else None)


def _seconds_covered(placed: Iterable[_Placed], width_s: float, number: int) -> list[float]:
    """The time for which each column was measured, whichever column that was counted in."""
    covered = [0.0] * number
    for start_s, interval in placed:
        end_s = start_s + interval.duration_s
        for position in range(int(start_s / width_s), min(number, int(end_s / width_s) + 1)) if width_s else ():
            covered[position] += min(end_s, (position + 1) * width_s) - max(start_s, position * width_s)
    return covered


def _reach(placed: Iterable[_Placed]) -> float:
    """Return when after the beginning the last ended."""
    return max(start_s + interval.duration_s for start_s, interval in placed)


def _placed(recording: Recording) -> Iterator[_Placed]:
    """Each interval with the seconds from the beginning to its start."""
    starts = [_clock(run.started) for run in recording.runs]
    together = _together(recording)
    for run, start in zip(recording.runs, starts, strict=True):
        origin = min(starts) if together else start
        for interval in run.intervals:
            yield max(0.0, _clock(interval.started) - origin), interval


def _together(recording: Recording) -> bool:
    """Whether the runs are laid out by the clock."""
    return len(recording.runs) == 1 or _covered(recording)


def _covered(recording: Recording) -> bool:
    """Whether the runs fill the time from the first's start to the last's end well enough to be drawn by the clock."""
    spans = sorted((_clock(run.started), _end(run)) for run in recording.runs)
    covered = reached = 0.0
    for start, end in spans:
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered >= _COVERED * (reached - spans[0][0])


def _end(run: Run) -> float:
    return max(_clock(interval.started) + interval.duration_s for interval in run.intervals)


def _clock(started: str) -> float:
    return datetime.fromisoformat(started).timestamp()


def _width(recording: Recording, end_s: float, most: int) -> float:
    """Return how wide its columns are by themselves: a whole number of intervals, so that each column holds equally many."""
    usual_s = max(median(interval.duration_s for interval in run.intervals) for run in recording.runs)
    return usual_s * math.ceil(end_s / usual_s / most - 1e-6) if usual_s else end_s / most
