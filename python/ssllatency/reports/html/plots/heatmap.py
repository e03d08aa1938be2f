# SPDX-License-Identifier: Apache-2.0
"""Durations over time as a heatmap: how many a second in each cell, in few enough levels to be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy
from matplotlib.axes import Axes

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError
from ssllatency.model.histogram import Grid
from ssllatency.reports.html.plots.columns import PlotColumn
from ssllatency.reports.html.plots.moments import TimeAxis, elapsed, time_axis
from ssllatency.reports.html.plots.plots import Plot, Size, duration_axis, plot
from ssllatency.reports.html.plots.svg import COLOURS
from ssllatency.units import counted, duration

LEVELS = (0.24, 0.38, 0.53, 0.68, 0.84, 1.0)
# Seen as well on white as on near-black.
HEAT = (0xE8, 0x59, 0x0C)

_MOST_ROWS = 64
_HEIGHT = 280


@dataclass(frozen=True)
class Scale:
    """The scale that two heatmaps share: the histograms' grid; `per_row` buckets of it make a row, from row `low` to `high`;
    the least and the greatest rate of a cell."""

    grid: Grid
    per_row: int
    low: int
    high: int
    least: float
    greatest: float
    end_s: float

    @property
    def span_ns(self) -> tuple[float, float]:
        """From which duration to which the rows are drawn."""
        return self.start_ns(self.low), self.start_ns(self.high + 1)

    def start_ns(self, row: int) -> float:
        """From which duration on the row is."""
        return self.grid.bucket_bounds(row * self.per_row)[0]

    @property
    def known_ns(self) -> tuple[float, float]:
        """Past these, how short or how long is not known."""
        return counted_ns(self.grid)

    def level(self, rate: float) -> int:
        """Return which of LEVELS shows so many a second, None of them being -1."""
        if rate <= 0:
            return -1
        if self.greatest <= self.least:
            return len(LEVELS) - 1
        position = math.log(rate / self.least) / math.log(self.greatest / self.least)
        return min(int(position * len(LEVELS)), len(LEVELS) - 1)

    def bounds(self, level: int) -> tuple[float, float]:
        """From how many a second to how many the level is."""
        ratio = self.greatest / self.least
        return self.least * ratio ** (level / len(LEVELS)), self.least * ratio ** ((level + 1) / len(LEVELS))


def counted_ns(grid: Grid) -> tuple[float, float]:
    """The durations that the grid's buckets count."""
    return grid.bucket_bounds(grid.first_bucket)[0], grid.bucket_bounds(grid.overflow - 1)[1]


def scale_of(timelines: Sequence[Sequence[PlotColumn]]) -> Scale | None:
    """The scale that shows them all; None where nothing was counted. SsllatencyError where their grids differ."""
    every = [column for columns in timelines for column in columns]
    filled = [bucket for column in every if column.times for bucket in column.times.exponential.by_bucket]
    grids = {column.times.exponential.grid for column in every if column.times and column.times.count}
    if not filled:
        return None
    if len(grids) > 1:
        raise SsllatencyError(
            "the recordings are of different versions of ssllatency, whose histograms have different bucket bounds: one page"
            " can't show both. `diff` without --html compares them."
        )
    least, most = min(filled), max(filled)
    per_row = next(size for size in (1, 2, 4, 8, 16) if most // size - least // size < _MOST_ROWS)
    rates = [rate for column in every for rate in _rows(column, per_row).values()]
    end_s = max(column.end_s for column in every)
    return Scale(grids.pop(), per_row, least // per_row, most // per_row, min(rates), max(rates), end_s)


def rows_axis(axes: Axes, scale: Scale) -> None:
    """The durations of the rows up the side."""
    duration_axis(axes, *scale.span_ns, *scale.known_ns)


def open_rows(scale: Scale) -> str:
    """The sentences about the rows of all that is too short or too long to be told apart: each sentence after a space."""
    (low, high), (shortest, longest) = scale.span_ns, scale.known_ns
    lowest = f" The lowest row: {duration(shortest)} or less." if low < shortest else ""
    return lowest + (f" The highest row: more than {duration(longest)}." if high > longest else "")


def heatmap(key: str, columns: Sequence[PlotColumn], scale: Scale, moments: TimeAxis, title: str, caption: str) -> Plot:
    """The heatmap of one recording."""
    number = sum(column.count for column in columns)
    low, high = scale.span_ns
    cells, gaps = _cells(columns, scale), _gaps(columns)

    def draw(axes: Axes, size: Size) -> None:
        extent = (0, columns[-1].end_s or 1, math.log10(low), math.log10(high))
        axes.imshow(cells, interpolation="none", extent=extent, aspect="auto", origin="lower", zorder=1)
        for start_s, end_s in gaps:
            axes.axvspan(start_s, end_s, facecolor="none", hatch="//", edgecolor=COLOURS["hatch"], linewidth=0, zorder=1)
        rows_axis(axes, scale)
        time_axis(axes, moments, size)

    spans = f"{counted(number, 'duration')} in {counted(len(columns), 'column')} of {elapsed(columns[0].end_s)}"
    description = f"{spans}; the darker a cell, the more of them in it. The table below has the numbers."
    caption = f"{caption}{' Hatched: not measured.' if gaps else ''}{open_rows(scale)}"
    return plot(key, draw, _HEIGHT, title, description, caption)


def _gaps(columns: Sequence[PlotColumn]) -> list[tuple[float, float]]:
    """From when to when nothing was measured."""
    spans = groupby(columns, key=lambda column: column.measured)
    held = [list(span) for measured, span in spans if not measured]
    return [(span[0].start_s, span[-1].end_s) for span in held]


def _rows(column: PlotColumn, per_row: int) -> dict[int, float]:
    """Return how many a second are in each of a column's rows."""
    counts: dict[int, int] = {}
    for bucket, count in column.times.exponential.by_bucket.items() if column.times else ():
        counts[bucket // per_row] = counts.get(bucket // per_row, 0) + count
    return {row: count / (column.counted_s or 1) for row, count in counts.items()}


def _cells(columns: Sequence[PlotColumn], scale: Scale) -> numpy.ndarray:
    image = numpy.zeros((scale.high - scale.low + 1, len(columns), 4), numpy.uint8)
    for position, column in enumerate(columns):
        for row, rate in _rows(column, scale.per_row).items():
            opacity = round(255 * LEVELS[scale.level(rate)])
            image[row - scale.low, position] = (*HEAT, opacity)
    return image
