# SPDX-License-Identifier: Apache-2.0
"""Combines recordings of several hosts or runs into one. Every interval of every run is kept, so all sums are exact."""

from __future__ import annotations

import argparse

from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.output import recordings
from ssllatency.output.printing import tell
from ssllatency.reports.documents.recording import to_lines
from ssllatency.reports.words.units import counted

SUMMARY = "combine recordings of several hosts or runs into one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="recordings, or documents of schema ssllatency/1")
    recordings.add_output_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads all, and writes one."""
    recordings.refuse_overwriting(arguments.output, force=arguments.force)
    if len(set(arguments.files)) < len(arguments.files):
        raise SsllatencyError("a file is named twice: its counts would be added twice.", 2)
    read = [recordings.read(name) for name in arguments.files]
    merged = Recording(tuple(run for recording in read for run in recording.runs))
    _check(merged)
    with recordings.Writer(arguments.output, force=arguments.force) as writer:
        writer.write("".join(to_lines(merged, by_process=True)))
    runs, intervals = counted(len(merged.runs), "run"), counted(len(merged.intervals), "interval")
    tell(f"{arguments.output} holds {intervals} of {runs} on {', '.join(merged.hosts)}.")
    return 0


def _check(merged: Recording) -> None:
    """SsllatencyError if the runs can't be added up, or one of them occurs twice."""
    for number, run in enumerate(merged.runs):
        if any(run.intervals[0] == other.intervals[0] for other in merged.runs[:number]):
            host = run.intervals[0].host
            raise SsllatencyError(f"the run on {host} from {run.started} is in two of the files: it would be added twice.", 2)
    merged.total()
