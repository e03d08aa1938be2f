# SPDX-License-Identifier: Apache-2.0
"""Combines recordings of several hosts or runs into one. Every interval of every run is kept, so all sums are exact."""

from __future__ import annotations

import argparse

from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.output import parquet, recordings
from ssllatency.output.printing import tell
from ssllatency.reports.documents.recording import to_lines
from ssllatency.units import counted

SUMMARY = "combine recordings of several hosts or runs into one"
EXAMPLES = (("ssllatency merge web1.jsonl web2.jsonl -o web.jsonl", "several hosts as one, exactly"),)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="recordings, or documents of schema ssllatency/1")
    recordings.add_output_options(parser, required=False)
    parser.add_argument("--parquet", metavar="FILE",
                        help="write all histograms as rows of a Parquet file, for DuckDB and the like")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Reads all, and writes one."""
    outputs = [name for name in (arguments.output, arguments.parquet) if name is not None]
    if not outputs:
        raise SsllatencyError("there is nothing to write: give -o FILE for a recording, --parquet FILE for a table.", 2)
    for name in outputs:
        recordings.refuse_overwriting(name, force=arguments.force)
    if len(set(arguments.files)) < len(arguments.files):
        raise SsllatencyError("a file is named twice: its counts would be added twice.", 2)
    read = [recordings.read(name) for name in arguments.files]
    merged = Recording(tuple(run for recording in read for run in recording.runs))
    _check(merged)
    if arguments.parquet:
        rows = parquet.write(arguments.parquet, merged)
        tell(f"{arguments.parquet} holds {counted(rows, 'row')} of {_extent(merged)}.")
    if arguments.output:
        with recordings.Writer(arguments.output, force=arguments.force) as writer:
            writer.write("".join(to_lines(merged, by_process=True)))
        tell(f"{arguments.output} holds {_extent(merged)}.")
    return 0


def _extent(merged: Recording) -> str:
    runs, intervals = counted(len(merged.runs), "run"), counted(len(merged.intervals), "interval")
    return f"{intervals} of {runs} on {', '.join(merged.hosts)}"


def _check(merged: Recording) -> None:
    """SsllatencyError if the runs can't be added up, or one of them occurs twice."""
    for number, run in enumerate(merged.runs):
        if any(run.intervals[0] == other.intervals[0] for other in merged.runs[:number]):
            host = run.intervals[0].host
            raise SsllatencyError(f"the run on {host} from {run.started} is in two of the files: it would be added twice.", 2)
    merged.total()
