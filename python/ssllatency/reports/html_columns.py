# SPDX-License-Identifier: Apache-2.0
"""A recording over time, in few enough columns to be drawn: what was counted in each, exactly.

An interval belongs to the column that its middle lies in. Runs that overlap are laid over one another by the clock; runs far
apart each begin at 0, as the time between them would leave them no room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from ssllatency.model.handshake_arithmetic import add_times
from ssllatency.model.handshakes import Ending, Part, Times
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Outcome, Snapshot

MOST_COLUMNS = 200
# Below this, most of the clock's time is between the runs.
_COVERED = 0.5
# So much of a column past the last one is no column: starts are whole microseconds.
_SLIVER = 0.01

Pick = Callable[[Snapshot], Iterable[Times]]


@dataclass(frozen=True)
class Column:
    """From `start_s` to `end_s` after the beginning; `measured_s` is the time traced in it, of all runs. `times` is None where
    nothing was counted."""

    start_s: float
    end_s: float
    measured_s: float
    times: Times | None

    @property
    def count(self) -> int:
        """How many durations were counted."""
        return self.times.count if self.times else 0


def successful_walls(snapshot: Snapshot) -> Iterator[Times]:
    """The wall times of the successful handshakes."""
    for group in snapshot.handshakes.groups if snapshot.handshakes else ():
        if group.ending is Ending.SUCCESS and group.count:
            yield group.parts[Part.WALL]


def calls_of(function: str) -> Pick:
    """The successful calls of one function."""

    def pick(snapshot: Snapshot) -> Iterator[Times]:
        for one in snapshot.series:
            if one.function == function and one.outcome is Outcome.SUCCESS and one.count:
                yield Times(one.total_ns, one.min_ns, one.max_ns, one.exponential)

    return pick


def columns(recording: Recording, pick: Pick, most: int = MOST_COLUMNS) -> list[Column]:
    """All columns from the beginning to the end, equally wide, at most so many."""
    placed = list(_placed(recording))
    end_s = max(start_s + interval.duration_s for start_s, interval in placed)
    width_s = _width(recording, end_s, most)
    number = max(1, math.ceil(end_s / width_s - _SLIVER)) if width_s else 1
    held: list[list[Snapshot]] = [[] for _ in range(number)]
    for start_s, interval in placed:
        position = int((start_s + interval.duration_s / 2) / width_s) if width_s else 0
        held[min(position, number - 1)].append(interval)
    return [_column(position * width_s, width_s, intervals, pick) for position, intervals in enumerate(held)]


def _column(start_s: float, width_s: float, intervals: Iterable[Snapshot], pick: Pick) -> Column:
    intervals = list(intervals)
    picked = [times for interval in intervals for times in pick(interval) if times.count]
    measured_s = sum(interval.duration_s for interval in intervals)
    return Column(start_s, start_s + width_s, measured_s, add_times(picked) if picked else None)


def _placed(recording: Recording) -> Iterator[tuple[float, Snapshot]]:
    """Each interval with the seconds from the beginning to its start."""
    starts = [_clock(run.started) for run in recording.runs]
    together = _covered(recording) or len(starts) == 1
    for run, start in zip(recording.runs, starts, strict=True):
        origin = min(starts) if together else start
        for interval in run.intervals:
            yield max(0.0, _clock(interval.started) - origin), interval


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
    """How wide a column is: a whole number of intervals, so that each column holds equally many."""
    usual_s = max(median(interval.duration_s for interval in run.intervals) for run in recording.runs)
    return usual_s * math.ceil(end_s / usual_s / most - 1e-6) if usual_s else end_s / most
