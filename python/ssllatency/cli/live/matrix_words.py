# SPDX-License-Identifier: Apache-2.0
"""Sentences of a matrix before, without and after its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ssllatency.load.matrix.duration import known_s
from ssllatency.load.matrix.plan import Cell, Factor, Matrix, MatrixRun, Plan
from ssllatency.load.matrix.table import RATE, REPEAT, MatrixRows
from ssllatency.model.statistics.effects import Effects, Observation, design
from ssllatency.model.statistics.effects import effects as effects_of
from ssllatency.output.page import output_page
from ssllatency.reports.text import effects as effects_text
from ssllatency.reports.text.page import table
from ssllatency.units import counted, duration, printable

_Row = Mapping[str, str]
# The table's headings and the columns of the runs that they are of.
_CALLS, _WALL = "calls_mean_us", "wall_mean_us"
_MEASURED = {"CONNECTIONS/S": RATE, "IN CALLS": _CALLS, "WALL": _WALL}


def dry_run(matrix: Matrix, plan: Plan, left: Sequence[MatrixRun]) -> str:
    """The cells by the factors that vary, why others aren't run, and how long those take that are left."""
    varied = [factor for factor in Factor if len({cell[factor] for cell in plan.cells}) > 1]
    fixed = [f"{factor} {plan.cells[0][factor]}" for factor in Factor if factor not in varied]
    rows = [
        ["CELL", *varied],
        *([str(number), *(cell[factor] for factor in varied)] for number, cell in enumerate(plan.cells, 1)),
    ]
    lines = table([[printable(word) for word in row] for row in rows], left=len(rows[0]))
    rounds = f"{counted(matrix.warm_up, 'warm-up')} and {counted(matrix.repeats, 'repeat')}"
    return "\n".join(
        [
            *lines,
            "",
            *output_page().wrapped(f"In all: {', '.join(fixed)}.", "", "  "),
            *dropped(plan),
            f"{counted(len(plan.cells), 'cell')}, {rounds}: {counted(len(left), 'run')} to make, {_time(matrix, left)}.",
            "",
        ]
    )


def dropped(plan: Plan) -> list[str]:
    """A sentence for each reason why cells are left out."""
    return [f"Left out, {counted(number, 'cell')}: {printable(reason)}." for reason, number in plan.dropped.items()]


def _time(matrix: Matrix, runs: Sequence[MatrixRun]) -> str:
    total_s, unknown = known_s(matrix, runs)
    parts = [f"about {_clock(total_s)}"] if total_s else []
    if unknown:
        parts.append(f"{counted(unknown, 'run')} of h2load with {counted(matrix.connections, 'connection')} each")
    return " and ".join(parts) or "nothing"


def _clock(whole_s: float) -> str:
    minutes, seconds = divmod(round(whole_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def beginning(matrix: Matrix, plan: Plan, kept: MatrixRows, runs: Sequence[MatrixRun]) -> list[str]:
    """The sentences about what is about to be run."""
    sentences = dropped(plan)
    if kept.torn:
        sentences.append("The last row had been cut off in the middle: it is measured again.")
    already = f", {counted(len(kept.rows), 'run')} there already" if kept.rows else ""
    to_make = f"{counted(len(runs), 'run')} to make, {_time(matrix, runs)}"
    return [*sentences, f"{counted(len(plan.cells), 'cell')}{already}: {to_make}."]


def effects(rows: Sequence[_Row], cells: Sequence[Cell]) -> str:
    """The table of the main effects of these cells; "" while no repeat has them all."""
    by_heading: dict[str, Effects] = {}
    factors = [str(factor) for factor in Factor]
    keys = [cell.key for cell in cells]
    planned = design(factors, keys)
    for heading, column in _MEASURED.items():
        positive = [row for row in rows if float(row[column] or 0) > 0]
        numbers = [Observation(_levels(row), int(row[REPEAT]), float(row[column])) for row in positive]
        if measured := effects_of(planned, keys, numbers):
            by_heading[heading] = measured
    if not by_heading:
        return ""
    means = {heading: _mean(heading, effects) for heading, effects in by_heading.items()}
    return effects_text.render(by_heading, means, output_page())


def _levels(row: _Row) -> tuple[str, ...]:
    return tuple(row[factor] for factor in Factor)


def _mean(heading: str, measured: Effects) -> str:
    return f"{measured.mean:.1f}/s" if _MEASURED[heading] == RATE else duration(measured.mean * 1e3)


def ending(rows: Sequence[_Row], plan: Plan, matrix: Matrix, broken: Mapping[tuple[str, ...], str], output: str) -> list[str]:
    """The sentences about what there is now, and what there isn't."""
    sentences = [f"{counted(len(rows), 'run')} of {len(plan.cells) * matrix.repeats} in {output}."]
    if broken:
        again = "it is" if len(broken) == 1 else "they are"
        sentences.append(f"{counted(len(broken), 'cell')} failed; the next time {again} tried again.")
    if len(rows) < len(plan.cells) * matrix.repeats:
        sentences.append("The same command goes on where this one ended.")
    unequal = sum(1 for row in rows if row["connections"] and row["connections"] != row["handshakes"])
    if unequal:
        sentences.append(
            f"In {counted(unequal, 'run')} the server counted another number of handshakes than the client made connections:"
            " others used it meanwhile, or some were lost; see both columns."
        )
    return sentences
