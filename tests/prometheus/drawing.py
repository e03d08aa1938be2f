# SPDX-License-Identifier: Apache-2.0
"""Draws a dashboard's panels from what Prometheus answers, as Grafana would: units, legends, stacks, tables and heatmaps.

SSLLATENCY_PICTURES=folder pytest tests/unit/deploy/test_panels.py     # keeps the picture, to be looked at
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Times = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Drawn:
    """A series of a panel: its name in the legend, its points, and the query that it is of."""

    name: str
    points: Times
    expression: str


def legend(pattern: str, labels: Mapping[str, str]) -> str:
    """A series' name, as Grafana makes it of the pattern."""
    return re.sub(r"\{\{ *(\w+) *\}\}", lambda match: labels.get(match[1], ""), pattern).strip()


def shown(value: float, unit: str) -> str:
    """A value in a unit, as Grafana shows it: three digits or so."""
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit == "s":
        factor, name = next((pair for pair in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if abs(value) * pair[0] >= 1), (1e9, "ns"))
        return f"{value * factor:.3g} {name}" if value else "0 s"
    factor, name = next((pair for pair in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= pair[0]), (1, ""))
    ends = {"ops": f"{name} ops/s", "decbytes": f" {name}B"}
    return f"{value / factor:.3g}{ends.get(unit, name and f' {name}')}"


def series_of(answers: Sequence[Mapping[str, Any]], pattern: str, expression: str) -> list[Drawn]:
    """The series of an answer to a range query, without points that are no numbers."""
    return [
        Drawn(legend(pattern, answer["metric"]), points, expression)
        for answer in answers
        if (points := [(float(at), float(value)) for at, value in answer.get("values", ()) if not math.isnan(float(value))])
    ]


def buckets_of(answers: Sequence[Mapping[str, Any]]) -> list[tuple[float, float, float, float]]:
    """Of native histograms over time: the time, the bounds of a bucket, and what is in it."""
    return [
        (float(at), float(low), float(high), float(number))
        for answer in answers
        for at, histogram in answer.get("histograms", ())
        for _, low, high, number in histogram.get("buckets", ())
    ]


def draw(path: Path, panels: Sequence[Mapping[str, Any]], data: Mapping[int, Any]) -> None:
    """Writes a picture of the panels, each where the dashboard has it. `data`: by number of a panel its series, its buckets or
    its table's rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = Figure(figsize=(24 * 0.7, bottom * 0.42), dpi=72)
    for panel in panels:
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        high = (h - 1.2) * 0.62  # the rest is the legend's
        axes = figure.add_axes(((x + 1.1) / 24, 1 - (y + 0.9 + high) / bottom, (w - 1.4) / 24, high / bottom))
        axes.set_title(panel["title"], fontsize=8, loc="left")
        axes.tick_params(labelsize=6)
        _FORMS[panel["type"]](axes, panel, data[panel["id"]])
    FigureCanvasAgg(figure).print_png(str(path))


def alone(panel: Mapping[str, Any]) -> set[str]:
    """The names of the series that stand for themselves in a panel of stacked ones."""
    wanted = {"id": "custom.stacking", "value": {"mode": "none"}}
    overrides = panel["fieldConfig"]["overrides"]
    return {override["matcher"]["options"] for override in overrides if wanted in override["properties"]}


def bases(panel: Mapping[str, Any], drawn: Sequence[Drawn]) -> list[dict[float, float]]:
    """For each series what it stands upon at each time: nothing where it isn't stacked."""
    config, others = panel["fieldConfig"], alone(panel)
    is_stacked = config["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    height: dict[float, float] = {}
    stood_upon: list[dict[float, float]] = []
    for series in drawn:
        stands = is_stacked and series.name not in others
        stood_upon.append(dict(height) if stands else {})
        height |= {at: value + height.get(at, 0) for at, value in series.points if stands}
    return stood_upon


def _lines(axes: Any, panel: Mapping[str, Any], drawn: Sequence[Drawn]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    for series, base in zip(drawn, bases(panel, drawn), strict=True):
        times = [at for at, _ in series.points]
        values = [value + base.get(at, 0) for at, value in series.points]
        last = shown(series.points[-1][1], defaults["unit"])
        (line,) = axes.plot(times, values, linewidth=1, label=f"{series.name}  {last}", marker=".", markersize=2)
        if "stacking" in defaults["custom"] and series.name not in alone(panel):
            axes.fill_between(times, [base.get(at, 0) for at in times], values, alpha=0.4, color=line.get_color())
    axes.set_xticks([])
    axes.set_ylim(bottom=defaults.get("min"))
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    axes.set_yticks(ticks, [shown(tick, defaults["unit"]) for tick in ticks])
    if drawn:
        axes.legend(fontsize=5.5, loc="upper left", bbox_to_anchor=(0, -0.02), ncols=3, frameon=False, borderaxespad=0)


def _heat(axes: Any, panel: Mapping[str, Any], buckets: Sequence[tuple[float, float, float, float]]) -> None:
    from matplotlib.collections import LineCollection

    unit = panel["options"]["yAxis"]["unit"]
    most = max((number for *_, number in buckets), default=1)
    colours = [(0.8, 0.2, 0.1, max(0.08, number / most)) for *_, number in buckets]
    axes.add_collection(LineCollection([((at, low), (at, high)) for at, low, high, _ in buckets], linewidths=6, colors=colours))
    axes.set_xlim(min(at for at, *_ in buckets) - 1, max(at for at, *_ in buckets) + 1)
    axes.set_yscale("log")
    axes.set_ylim(min(low for _, low, *_ in buckets if low > 0), max(high for _, _, high, _ in buckets))
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    axes.set_yticks(ticks, [shown(tick, unit) for tick in ticks])
    axes.set_xticks([])


def _table(axes: Any, _panel: Mapping[str, Any], rows: Sequence[Sequence[str]]) -> None:
    axes.axis("off")
    if rows:
        made = axes.table(cellText=rows[1:], colLabels=rows[0], loc="upper left", fontsize=7)
        made.auto_set_font_size(False)
        made.set_fontsize(7)


_FORMS = {"timeseries": _lines, "heatmap": _heat, "table": _table}
