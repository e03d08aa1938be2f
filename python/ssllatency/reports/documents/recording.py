# SPDX-License-Identifier: Apache-2.0
"""A recording as lines of JSON, schema "ssllatency-recording/1": a line about its runs, a line an interval, a line at the end.

The line of an interval is the interval's document of schema ssllatency/1 with its "run" and its number, "interval".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents import document

SCHEMA = "ssllatency-recording/1"


def header_line(runs: Sequence[Mapping[str, object]]) -> str:
    """The first line; about each run what run_fields() gives."""
    return _line({"schema": SCHEMA, "runs": list(runs)})


def run_fields(
    host: str, kernel: str, version: str, command: str, interval_s: float | None, notes: Sequence[str] = ()
) -> dict[str, object]:
    """The fields of a run in the first line. `version` is ssllatency's."""
    return {
        "host": host,
        "kernel": kernel,
        "version": version,
        "command": command,
        "interval_s": interval_s,
        "notes": list(notes),
    }


def interval_line(interval: Snapshot, number: int, run: int = 0, *, by_process: bool = False) -> str:
    """The line of an interval; each run's are numbered from 1. Functions are added up over processes unless `by_process`."""
    return numbered(interval_text(interval, by_process=by_process), number, run)


def interval_text(interval: Snapshot, *, by_process: bool = False) -> str:
    """The interval's document by itself, whose number isn't known yet."""
    return json.dumps(document.to_document(interval, by_process=by_process), allow_nan=False)


def numbered(text: str, number: int, run: int = 0) -> str:
    """The line of an interval, of what interval_text() gave."""
    return f'{{"run": {run}, "interval": {number}, {text[1:]}\n'


def end_line(intervals: int) -> str:
    """The last line: so many intervals were written."""
    return _line({"end": {"intervals": intervals}})


def to_lines(recording: Recording, *, by_process: bool = False) -> Iterator[str]:
    """All lines of a recording, each with its newline."""
    yield header_line([_fields_of(run) for run in recording.runs])
    for position, run in enumerate(recording.runs):
        for number, interval in enumerate(run.intervals, 1):
            yield interval_line(interval, number, position, by_process=by_process)
    yield end_line(sum(len(run.intervals) for run in recording.runs))


def _line(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, allow_nan=False) + "\n"


def _fields_of(run: Run) -> dict[str, object]:
    first = run.intervals[0]
    return run_fields(first.host, first.kernel, run.version, run.command, run.interval_s, run.notes)
