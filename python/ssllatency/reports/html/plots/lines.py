# SPDX-License-Identifier: Apache-2.0
"""Lines: percentiles over time, and how durations are distributed; a recording's own drawn through, the one before dashed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from ssllatency.model.handshakes import Times
from ssllatency.model.timed import quantile_ns
from ssllatency.reports.html.plots.columns import PlotColumn
from ssllatency.reports.html.plots.heatmap import Scale, open_rows, rows_axis
from ssllatency.reports.html.plots.moments import TimeAxis, time_axis
from ssllatency.reports.html.plots.plots import Plot, Size, duration_axis, plot
from ssllatency.reports.html.plots.svg import COLOURS
from ssllatency.reports.html.words import typeset
from ssllatency.units import duration

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_HEIGHT = 280
_WIDTHS = {"p50": 2.4, "p90": 1.8, "p99": 1.2}
_ROOM = 1.12


def percentiles(
    key: str, timelines: Sequence[Sequence[PlotColumn]], moments: TimeAxis, title: str, caption: str
) -> Plot | None:
    """The percentiles of each column, of the recording and then of the one before; None where there are none."""
    curves = [{name: _curve(columns, q) for name, q in QUANTILES.items()} for columns in timelines]
    values = [value for lines in curves for line in lines.values() for _, value in line if not math.isnan(value)]
    if not values:
        return None
    low, high = min(values) / _ROOM, max(values) * _ROOM

    def draw(axes: Axes, size: Size) -> None:
        duration_axis(axes, low, high)
        time_axis(axes, moments, size)
        for age, lines in reversed(list(enumerate(curves))):
            for name, line in lines.items():
                _line(axes, line, name, "--" if age else "-")
        _labels(axes, size, curves[0], math.log10(high / low), moments.end_s)

    words = ["after" if len(timelines) > 1 else "", "before"]
    description = " ".join(_range(word, lines) for word, lines in zip(words, curves, strict=False))
    return plot(key, draw, _HEIGHT, title, description, caption)


def _curve(columns: Sequence[PlotColumn], q: float) -> list[tuple[float, float]]:
    """The middle of each column and its q-quantile, not a number where it has none."""
    curve = []
    for column in columns:
        value = quantile_ns(column.times, q) if column.times else None
        curve.append(((column.start_s + column.end_s) / 2, value or math.nan))
    return curve


def _line(axes: Axes, line: Sequence[tuple[float, float]], name: str, style: str) -> None:
    alone = [
        position
        for position in range(len(line))
        if all(math.isnan(line[near][1]) for near in (position - 1, position + 1) if 0 <= near < len(line))
    ]
    axes.plot([x for x, _ in line], [math.log10(y) for _, y in line], style, color=COLOURS[name], linewidth=_WIDTHS[name],
              marker="o", markevery=alone, markersize=4, fillstyle="none" if style == "--" else "full")  # fmt: skip


def _labels(axes: Axes, size: Size, lines: dict[str, list[tuple[float, float]]], span: float, end_s: float) -> None:
    """The name of each line at its end, no two over one another."""
    apart = 1.4 * size.letters / _HEIGHT * span
    reached = -math.inf
    for name, line in lines.items():
        values = [math.log10(value) for _, value in line if not math.isnan(value)]
        if values:
            reached = max(values[-1], reached + apart)
            axes.annotate(name, (end_s, reached), (4, 0), textcoords="offset points", color=COLOURS[name], va="center",
                          weight="bold", annotation_clip=False)  # fmt: skip


def _range(word: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    sentences = []
    for name, line in lines.items():
        values = [value for _, value in line if not math.isnan(value)]
        if values:
            low, high = duration(min(values)), duration(max(values))
            sentences.append(f"{name} {word} between {low} and {high}" if word else f"{name} between {low} and {high}")
    return typeset(f"{', '.join(sentences)}.") if sentences else ""


def distribution(key: str, measured: Sequence[Times | None], scale: Scale, title: str, caption: str) -> Plot:
    """The share of the durations that each row of the heatmap's scale has, of the recording and then of the one before; None
    where nothing was counted."""

    def draw(axes: Axes, size: Size) -> None:
        rows_axis(axes, scale)
        edges = [math.log10(scale.start_ns(row)) for row in range(scale.low, scale.high + 2)]
        for age, times in reversed(list(enumerate(measured))):
            colour, style = (COLOURS["before"], "--") if age else (COLOURS["after"], "-")
            if times:
                axes.stairs(_shares(times, scale), edges, orientation="horizontal", fill=len(measured) == 1,
                            color=colour, linewidth=2, linestyle=style)  # fmt: skip
        axes.set_xlim(0)
        axes.set_xlabel("% of all in each row")
        axes.locator_params(axis="x", nbins=size.marks)

    names = ("All",) if len(measured) == 1 else ("After", "Before")
    description = " ".join(_quantiles(name, times) for name, times in zip(names, measured, strict=True))
    return plot(key, draw, _HEIGHT, title, typeset(description), caption + open_rows(scale))


def _quantiles(name: str, times: Times | None) -> str:
    if times is None:
        return f"{name}: none."
    return f"{name}: {', '.join(f'{word} {duration(quantile_ns(times, q))}' for word, q in QUANTILES.items())}."


def _shares(times: Times, scale: Scale) -> list[float]:
    shares = [0.0] * (scale.high - scale.low + 1)
    for bucket, count in times.exponential.by_bucket.items():
        shares[bucket // scale.per_row - scale.low] += 100 * count / times.count
    return shares
