# SPDX-License-Identifier: Apache-2.0
"""`ssllatency load --matrix`: runs each cell in its turn, keeps what both sides counted as CSV, and prints the effects."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack

from ssllatency.cli.live import matrix_words
from ssllatency.errors import SsllatencyError
from ssllatency.load.account import of_tools
from ssllatency.load.matrix import cells as matrix_cells
from ssllatency.load.matrix import file as matrix_file
from ssllatency.load.matrix import table as matrix_csv
from ssllatency.load.matrix.plan import Factor, Matrix, MatrixRun, Plan, order
from ssllatency.load.tools.choice import TOOLS, version_of
from ssllatency.output.printing import show, tell
from ssllatency.tracing import live
from ssllatency.tracing.load.matrix import MatrixBench


def run(arguments: argparse.Namespace) -> int:
    """Runs what is left of the matrix, and prints the effects of all that is there."""
    matrix = matrix_file.read(arguments.matrix)
    plan = matrix_cells.plan(matrix)
    if not plan.cells:
        raise SsllatencyError(f"{arguments.matrix} leaves no cell: {'; '.join(plan.dropped)}.")
    if arguments.dry_run:
        show(matrix_words.dry_run(matrix, plan, _left(matrix, plan, arguments.output)), end="")
        return 0
    if not arguments.output:
        raise SsllatencyError("Name the file for the runs' figures: -o FILE.", 2)
    for tool in sorted({cell[Factor.TOOL] for cell in plan.cells}):
        version_of(TOOLS[tool], account=of_tools(arguments.user))  # says where one isn't installed
    live.prepare()
    with matrix_csv.MatrixTable.open(arguments.output, matrix) as table:
        return _run(matrix, plan, table, arguments)


def _left(matrix: Matrix, plan: Plan, output: str | None) -> Sequence[MatrixRun]:
    """The runs that are left where the output holds some already."""
    kept = matrix_csv.kept(output, matrix) if output else matrix_csv.MatrixRows()
    return order(plan.cells, matrix, kept.done)


def _run(matrix: Matrix, plan: Plan, table: matrix_csv.MatrixTable, arguments: argparse.Namespace) -> int:
    runs = order(plan.cells, matrix, table.kept.done)
    for sentence in matrix_words.beginning(matrix, plan, table.kept, runs):
        tell(sentence)
    bench = MatrixBench(matrix, table, arguments)
    if runs:
        with ExitStack() as stack:
            bench.set_up(runs, stack)
            bench.work(runs)
    rows = (*table.kept.rows, *bench.rows)
    place = {cell.key: number for number, cell in enumerate(plan.cells)}
    in_file_order = sorted(rows, key=lambda row: place.get(tuple(row[factor] for factor in Factor), -1))
    whole = [cell for cell in plan.cells if cell.key not in bench.broken]
    show(matrix_words.effects(in_file_order, whole), end="")
    for sentence in matrix_words.ending(rows, plan, matrix, bench.broken, arguments.output):
        tell(sentence)
    return int(bool(bench.broken) or bench.stopped)
