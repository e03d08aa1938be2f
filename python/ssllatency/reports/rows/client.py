# SPDX-License-Identifier: Apache-2.0
"""A load generator's figures: a row for each number, and one for each thing that was timed."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.client import ClientReport, Figure
from ssllatency.units import seconds

_STATISTICS = ("min", "mean", "sd", "median", "max")


@dataclass(frozen=True)
class ClientRow:
    """A row: its name, its cells, and what the numbers hold."""

    name: str
    cells: tuple[str, ...]
    includes: str


@dataclass(frozen=True)
class Timings:
    """The times of a load generator: a row for each thing, a column for each statistic that the tool has of any."""

    statistics: tuple[str, ...]
    rows: tuple[ClientRow, ...]


def figure_rows(client: ClientReport) -> list[ClientRow]:
    """The figures that aren't statistics of something timed."""
    return [ClientRow(figure.name, (_value(figure),), figure.includes) for figure in client.figures if _timed(figure) is None]


def timings(client: ClientReport) -> Timings:
    """The figures that are."""
    figures: dict[str, dict[str, Figure]] = {}
    for figure in client.figures:
        if timed := _timed(figure):
            name, statistic = timed
            figures.setdefault(name, {})[statistic] = figure
    statistics = tuple(statistic for statistic in _STATISTICS if any(statistic in row for row in figures.values()))
    return Timings(statistics, tuple(_row(name, row, statistics) for name, row in figures.items()))


def percentile_rows(client: ClientReport) -> tuple[list[str], list[ClientRow]]:
    """The percentiles that the tool has of anything, as headings, and a row for each thing that was timed."""
    percents = sorted({percent for times_s in client.percentiles.values() for percent in times_s})
    rows = [
        ClientRow(name, tuple(_seconds(times_s.get(percent)) for percent in percents), "")
        for name, times_s in client.percentiles.items()
    ]
    return [f"{percent:g} %" for percent in percents], rows


def _timed(figure: Figure) -> tuple[str, str] | None:
    """The thing and the statistic that a figure's name says, "connect, mean": documents have but the name."""
    name, _, statistic = figure.name.rpartition(", ")
    return (name, statistic) if statistic in _STATISTICS else None


def _row(name: str, figures: dict[str, Figure], statistics: Sequence[str]) -> ClientRow:
    cells = tuple(_value(figures[statistic]) if statistic in figures else "-" for statistic in statistics)
    return ClientRow(name, cells, next(iter(figures.values())).includes)


def _value(figure: Figure) -> str:
    if figure.unit == "s":
        return _seconds(figure.value)
    if figure.unit == "count":
        return f"{figure.value:.0f}"
    if figure.unit == "1/s":
        return f"{figure.value:.1f}/s"
    return f"{figure.value:.0f} {figure.unit}"


def _seconds(value_s: float | None) -> str:
    return "-" if value_s is None else seconds(value_s) if value_s else "0 s"
