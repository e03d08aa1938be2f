# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: keeps the last intervals in memory, and makes a recording of before and after when a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from ssllatency.data_class import dataclass
from ssllatency.model.snapshot import Snapshot
from ssllatency.units import counted
from ssllatency.watch.condition import Condition, Recent, ThresholdValue, joined
from ssllatency.watch.incident import Incidents, Step
from ssllatency.watch.kept import RecentIntervals

INTERVAL_S = 1.0


@dataclass(frozen=True)
class Bounds:
    """The time that is recorded before and after the condition began to hold, and how long it must not hold before the next
    time."""

    before_s: float
    after_s: float
    quiet_s: float


@dataclass(frozen=True)
class Incident:
    """The time at which a condition began to hold (RFC 3339), by which readings, on which host, and the recording's text and
    size."""

    began: str
    readings: tuple[ThresholdValue, ...]
    condition: str
    host: str
    recording: str
    intervals: int
    cut_short: bool = False

    @property
    def words(self) -> str:
        """The readings."""
        return joined(self.readings)


class Watcher:
    """Takes an interval after the other. `begun` is told when the condition begins to hold, `over` gets each incident."""

    def __init__(
        self,
        condition: Condition,
        bounds: Bounds,
        made_by: tuple[str, str],
        begun: Callable[[Sequence[ThresholdValue]], None],
        over: Callable[[Incident], None],
    ) -> None:
        """`made_by`: the version and the command line that recordings name."""
        self._condition, self._recent = condition, Recent(condition)
        self._incidents = Incidents(bounds.after_s, bounds.quiet_s)
        self._kept = RecentIntervals(bounds.before_s)
        self._made_by, self._begun, self._over = made_by, begun, over
        self._readings: tuple[ThresholdValue, ...] = ()
        self._began = ""
        self._last: Snapshot | None = None

    def take(self, interval: Snapshot) -> None:
        """The interval that has just ended."""
        self._last = interval
        self._kept.add(interval)
        if not self._incidents.is_recording:
            self._kept.trim()
        readings = self._recent.take(interval)
        step = self._incidents.take(bool(readings), interval.duration_s)
        if step is Step.BEGIN:
            self._readings, self._began = readings, _end_of(interval)
            self._begun(readings)
        elif step is Step.END:
            self._over(self._incident(interval))

    def end(self) -> None:
        """The run is over: what an incident under way has so far is its recording."""
        if self._incidents.is_recording and self._last:
            self._over(self._incident(self._last, cut_short=True))

    def _incident(self, last: Snapshot, *, cut_short: bool = False) -> Incident:
        left_out = self._kept.left_out
        notes = [
            f"Recorded as {self._condition.text!r} began to hold at {self._began}: {joined(self._readings)}.",
            *(["The watch ended before all of it was recorded."] if cut_short else []),
            *([f"{counted(left_out, 'interval')} were left out, as they were too large to be kept."] if left_out else []),
        ]
        text = self._kept.recording(last, *self._made_by, INTERVAL_S, notes)
        number = len(self._kept)
        return Incident(self._began, self._readings, self._condition.text, last.host, text, number, cut_short)


def _end_of(interval: Snapshot) -> str:
    end = datetime.fromisoformat(interval.started) + timedelta(seconds=interval.duration_s)
    return end.isoformat(timespec="milliseconds")
