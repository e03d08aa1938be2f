# SPDX-License-Identifier: Apache-2.0
"""What must hold of text that a stranger may have written: a file that is said to be a recording, a matrix or its table, and
what a program printed that is said to be a load generator. One of ssllatency's own errors, which is one printable sentence, or
else what was read can be written, and is the same when it is read again.
"""

from __future__ import annotations

import csv
import io
import math

from ssllatency.errors import SsllatencyError
from ssllatency.load.figures import LoadError
from ssllatency.load.matrix import cells as matrix_cells
from ssllatency.load.matrix import file as matrix_file
from ssllatency.load.matrix import table as matrix_csv
from ssllatency.load.matrix.plan import Factor
from ssllatency.load.run import ToolOutput
from ssllatency.load.tools.choice import TOOLS, Tool, report_of
from ssllatency.model.client import ClientReport
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents import document
from ssllatency.reports.documents.recording import to_lines
from ssllatency.reports.documents.recording_reading import from_text
from ssllatency.reports.text import client as client_text
from ssllatency.reports.text import trace as text
from ssllatency.watch import grammar
from ssllatency.watch.grammar import ConditionError
from ssllatency.watch.metrics import function_subjects, handshake_subjects

_MOST_CELLS, _MOST_COMPARISONS = 10_000, 16
_SUBJECTS = handshake_subjects() | function_subjects()
_COMMANDS = ((), ("-H", "Connection: close"))


def check_recording(data: bytes) -> None:
    """Of a recording: what is read is written, and read again as the same."""
    try:
        recording = from_text(data.decode(errors="replace"), "fuzzed")
    except SsllatencyError:
        return
    lines = "".join(to_lines(recording, by_process=True))
    again = from_text(lines, "fuzzed")
    assert again == recording
    assert "".join(to_lines(again, by_process=True)) == lines


def check_report(data: bytes) -> None:
    """Of the reports of a recording: text that does nothing to a terminal, and a document that is read again as the same."""
    try:
        total = from_text(data.decode(errors="replace"), "fuzzed").total()
    except SsllatencyError:
        return
    _check_reports(total)


def check_tool_output(data: bytes) -> None:
    """Of what a load generator printed, whichever it is: finite figures, which a report and a document can hold."""
    said = data.decode(errors="replace")
    for tool in TOOLS.values():
        for command in _COMMANDS:
            _check_output(tool, said, command)


def _check_output(tool: Tool, said: str, command: tuple[str, ...]) -> None:
    try:
        report = report_of(tool, ToolOutput(said, "", 0, 1.5), command)
    except LoadError:
        return
    assert all(math.isfinite(figure.value) and figure.value >= 0 for figure in report.figures)
    assert all(0 <= percent <= 100 for times in report.percentiles.values() for percent in times)
    known = report.connections
    assert known is None or known.most is None or 0 <= known.least <= known.most
    _check_reports(_of_client(report))


def _of_client(report: ClientReport) -> Snapshot:
    return Snapshot("web1", "6.1.0", "libbpf", "2030-01-31T12:00:00Z", 1.5, (), (), client=report)


def _check_reports(snapshot: Snapshot) -> None:
    assert document.from_json(document.to_json(snapshot, by_process=True)) == snapshot
    for report in (client_text.render(snapshot), text.render(snapshot, by_process=True)):
        assert report.isascii()
        assert all(line.isprintable() for line in report.split("\n"))


def check_matrix(data: bytes) -> None:
    """Of a matrix file: a bounded number of cells, each once, on servers that it has."""
    try:
        matrix = matrix_file.parse(data.decode())
    except (UnicodeDecodeError, LoadError):
        return
    plan = matrix_cells.plan(matrix)
    assert len(plan.cells) + sum(plan.dropped.values()) <= _MOST_CELLS
    assert len({cell.key for cell in plan.cells}) == len(plan.cells)
    for cell in plan.cells:
        assert cell[Factor.SERVER] in matrix.servers
        assert str(cell).isprintable()
    assert matrix.identity.isalnum()


def _check_lines(lines: tuple[str, ...]) -> None:
    assert all(line.isascii() and line.isprintable() for line in lines)


def check_condition(data: bytes) -> None:
    """Of a condition: a bounded number of comparisons, or a place in the text that is shown in printable characters."""
    try:
        condition = grammar.parse(data.decode(errors="replace"), _SUBJECTS)
    except ConditionError as error:
        _check_lines((str(error), *error.excerpt))
        return
    assert 0 < len(condition.comparisons) <= _MOST_COMPARISONS
    assert all(comparison.limit >= 0 for comparison in condition.comparisons)


def check_table(data: bytes) -> None:
    """Of a table of a matrix's runs: rows whose repeats are numbers, and which are read again as the same."""
    said = data.decode(errors="replace")
    try:
        rows = matrix_csv.read(said, "fuzzed", "identity")
    except LoadError:
        return
    assert len(matrix_csv.MatrixRows(rows).done) <= len(rows)
    if rows:
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows([matrix_csv.COLUMNS, *(one.values() for one in rows)])
        assert matrix_csv.read(written.getvalue(), "fuzzed", "identity") == rows
