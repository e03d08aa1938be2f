# SPDX-License-Identifier: Apache-2.0
"""Moments: by the clock, or in seconds since the beginning; as text, and along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from ssllatency.data_class import dataclass
from ssllatency.reports.html.plots.plots import Size

_DAY_S = 86400.0
# Of a letter's height: how wide a digit is. And what stands beside an axis, in units of the plot.
_DIGIT_WIDTH = 0.64
_BESIDE = 90


@dataclass(frozen=True)
class TimeAxis:
    """The time from the beginning until `end_s` after it. `begun` is when by the clock the beginning was; None where times are
    told in seconds since then, as of recordings that are shown on one axis."""

    end_s: float
    begun: datetime | None = None

    @classmethod
    def of(cls, end_s: float, begun: datetime | None) -> TimeAxis:
        """Told by the clock where there is one that reaches so far: years end at 9999."""
        try:
            last = begun + timedelta(seconds=end_s) if begun else None
        except OverflowError:
            last = None
        return cls(end_s, begun if last else None)

    @property
    def zone(self) -> str:
        """A remark on the clock: a sentence after a space, "" where there is none."""
        return f" Times are {self.begun:%Z}." if self.begun else ""

    def text(self, value_s: float, step_s: float) -> str:
        """So many seconds after the beginning, as exactly as neighbours `step_s` apart need it; with the date where there are
        several."""
        if self.begun is None:
            return elapsed(value_s, step_s)
        at = self.begun + timedelta(seconds=round(value_s, 6))
        days = (self.begun + timedelta(seconds=self.end_s)).date() - self.begun.date()
        return f"{at:%m-%d} {_time_of_day(at, step_s)}" if days else _time_of_day(at, step_s)

    def marks(self, most: int) -> tuple[list[float], float]:
        """At most so many round times or one more, and the time between them."""
        step_s = _round_step(self.end_s / most)
        if not step_s:
            return [0.0], 1.0
        first_s = round(-_since_midnight(self.begun) % step_s, 6) % step_s if self.begun else 0.0
        number = int((self.end_s - first_s) / step_s + 1e-6) + 1
        return [first_s + step_s * position for position in range(number)], step_s

    def mark(self, value_s: float, step_s: float) -> str:
        """The words at a mark: the time of day, or at midnight the date."""
        if self.begun is None:
            return elapsed(value_s, step_s)
        at = self.begun + timedelta(seconds=round(value_s, 6))
        at_midnight = step_s >= 60 and not (at.hour or at.minute)
        return f"{at:%m-%d}" if at_midnight else f"{at:%H:%M}" if step_s >= 60 else _time_of_day(at, step_s)


def fitting_marks(moments: TimeAxis, size: Size) -> tuple[list[float], float]:
    """Return as many marks as there is room for without one text touching the next, and the time between them."""
    for most in range(size.marks, 1, -1):
        marks, step_s = moments.marks(most)
        longest = max(len(moments.mark(mark, step_s)) for mark in marks)
        if (size.width - _BESIDE) * step_s >= (longest + 1) * _DIGIT_WIDTH * size.letters * moments.end_s:
            return marks, step_s
    return moments.marks(1)


def time_axis(axes: Axes, moments: TimeAxis, size: Size) -> None:
    """Time along the bottom, at round times."""
    marks, step_s = fitting_marks(moments, size)
    axes.set_xlim(0, moments.end_s or 1)
    axes.xaxis.set_major_locator(FixedLocator(marks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: moments.mark(value, step_s)))


def elapsed(value_s: float, step_s: float = 1) -> str:
    """Seconds since the beginning: "7.5 s" up to two minutes, then "3:20", "1:03:20"."""
    if value_s < 120 or step_s < 1:
        return f"{round(value_s, 3):g} s"
    minutes, seconds = divmod(round(value_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _time_of_day(at: datetime, step_s: float) -> str:
    if step_s >= 1:
        return f"{at:%H:%M:%S}"
    decimals = min(6, math.ceil(-math.log10(step_s)))
    return f"{at:%H:%M}:{at.second + at.microsecond / 1e6:0{3 + decimals}.{decimals}f}"


def _since_midnight(at: datetime) -> float:
    return (at - at.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()


def _round_step(least_s: float) -> float:
    """The shortest round time that isn't shorter than this."""
    below_s: Sequence[float] = [digit * 10.0**power for power in range(-6, 1) for digit in (1, 2, 5)]
    above_s: Sequence[float] = (10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
    days_s = _DAY_S * math.ceil(least_s / _DAY_S)
    return next((step for step in (*below_s, *above_s) if step >= least_s), days_s)
