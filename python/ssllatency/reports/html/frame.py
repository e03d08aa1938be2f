# SPDX-License-Identifier: Apache-2.0
"""Sections of a page about functions, of what was traced, and of what wasn't seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ssllatency.model.arithmetic.snapshots import by_function
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Missing, Snapshot
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.reports.html import change as html_change
from ssllatency.reports.html.blocks import NamedFact
from ssllatency.reports.html.tables import HtmlTable, compared, table
from ssllatency.reports.rows import losses as loss_rows
from ssllatency.reports.rows.cost import cost_sentences
from ssllatency.reports.rows.functions import HEADINGS, function_rows, unsuccessful
from ssllatency.reports.rows.row import Row
from ssllatency.reports.rows.sampling import sampling_sentences
from ssllatency.units import counted, ranges, seconds

_MOST_NAMES = 12


def headline(recording: Recording, whole: Snapshot) -> str:
    """Return when and how long was measured, for the top of the page."""
    length = f"{_clock(whole.started)}, {seconds(whole.duration_s)}"
    return f"{length}, {recording.label}" if recording.label else length


def facts(recording: Recording, whole: Snapshot) -> list[NamedFact]:
    """Where, when and how long was measured, by what."""
    runs, intervals = len(recording.runs), len(recording.intervals)
    length = f"{seconds(whole.duration_s)} in {counted(intervals, 'interval')}"
    commands = dict.fromkeys(run.command for run in recording.runs if run.command)
    return [
        NamedFact("Host", whole.host),
        *([NamedFact("File", recording.label)] if recording.label else []),
        NamedFact("Started", _clock(whole.started)),
        NamedFact("Measured", f"{length} of {counted(runs, 'run')}" if runs > 1 else length),
        NamedFact("Kernel", whole.kernel),
        NamedFact("Engine", whole.engine),
        *(NamedFact("Command", command) for command in list(commands)[:4]),
    ]


def _clock(started: str) -> str:
    return f"{datetime.fromisoformat(started):%Y-%m-%d %H:%M:%S %Z}"


def targets(whole: Snapshot) -> HtmlTable:
    """The traced programs with their processes and libraries."""
    pids: dict[tuple[str, str, str], list[int]] = {}
    for target in whole.targets:
        for library in target.libraries or (None,):
            gone = f"{library.path} (deleted)" if library and library.deleted else library.path if library else "no library"
            pids.setdefault((target.comm, gone, library.version if library else ""), []).append(target.pid)
    rows = [Row((comm, path, version or "-", ranges(numbers)), ()) for (comm, path, version), numbers in pids.items()]
    return table("Traced", ("Program", "Library", "Version", "Processes"), rows)


def functions(after: Snapshot, comparison: Comparison | None) -> HtmlTable:
    """Calls by function and outcome, the function that took the most time first."""
    before = comparison.before if comparison else None
    verdicts = html_change.function_verdicts(comparison) if comparison else None
    return compared("Calls by function and outcome", HEADINGS, _functions, after, before, verdicts)


def _functions(snapshot: Snapshot) -> list[Row]:
    return function_rows(by_function(snapshot).series)


def reasons(snapshot: Snapshot) -> list[str]:
    """Return why calls were retried or failed, a sentence a function."""
    return [f"{calls.words}." for calls in unsuccessful(by_function(snapshot).series)]


def missing(functions: Iterable[Missing]) -> HtmlTable:
    """The functions that were not traced, by library and reason."""
    rows = [
        Row((left_out.library, left_out.reason, _listed(left_out.functions)), ())
        for left_out in loss_rows.not_traced(functions)
    ]
    return table("Not traced", ("Library", "Reason", "Functions"), rows)


def _listed(names: Sequence[str]) -> str:
    beyond = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + beyond


def unseen(whole: Snapshot) -> list[str]:
    """Sentences about what was lost, what was still under way, and what tracing has cost."""
    handshakes = whole.handshakes
    return [
        *([f"Lost or uncertain: {phrase}." for phrase in loss_rows.losses(whole.losses, handshakes)] or ["Nothing was lost."]),
        *loss_rows.calls_in_flight(whole.in_flight),
        *(loss_rows.handshakes_in_flight(handshakes.in_flight) if handshakes else ()),
        *sampling_sentences(whole.sampling),
        *cost_sentences(whole.cost),
        *(f"Note: {note}" for note in loss_rows.notes(whole)),
    ]
