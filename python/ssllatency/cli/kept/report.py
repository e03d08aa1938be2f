# SPDX-License-Identifier: Apache-2.0
"""Renders a recorded measurement: a recording of `ssllatency record`, or what `trace` and `handshakes` print with --json."""

from __future__ import annotations

import argparse
from pathlib import Path

from ssllatency.cli import options
from ssllatency.cli.kept import history
from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.timeline import timeline
from ssllatency.output import html, recordings
from ssllatency.output.page import output_page
from ssllatency.output.printing import show
from ssllatency.reports.documents import document
from ssllatency.reports.text import client as client_text
from ssllatency.reports.text import flight_recorder
from ssllatency.reports.text import timeline as timeline_text
from ssllatency.reports.text import trace as trace_text
from ssllatency.reports.text.page import Page

SUMMARY = "render a recorded measurement as text, JSON or an HTML page"
EXAMPLES = (
    ("ssllatency report before.jsonl", "as text"),
    ("ssllatency report before.jsonl --html page.html", "as a page to send or print"),
    ("ssllatency report before.jsonl --intervals --json", "a document for each interval, a line each"),
    ("ssllatency report incidents --at 03:12", "what `watch` has recorded there of that time"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("file", metavar="FILE", nargs="?",
                        help="a recording, or documents of schema ssllatency/1, - for standard input; or a folder "
                        "that `watch` writes to: its newest recording")  # fmt: skip
    parser.add_argument("--at", metavar="TIME", type=history.moment,
                        help="for a folder: the recording of that time, or the last one before it")  # fmt: skip
    parser.add_argument("--by-process", action="store_true", help="print a section for each process")
    parser.add_argument("--intervals", action="store_true", help="print a report for each interval instead of one for all")
    options.add_verbose_option(parser)
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument(
        "--json", action="store_true", help="print JSON, schema ssllatency/1; with --intervals one document per line"
    )
    html.add_option(outputs)
    history.add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the report."""
    if history.asked(arguments) == bool(arguments.file) or (arguments.at is not None and not arguments.file):
        raise SsllatencyError("name one measurement: a FILE, or --prometheus URL --service NAME.", 2)
    recording = _of_file(arguments) if arguments.file else history.recording(arguments)
    if arguments.html:
        html.write(arguments.html, recording)
        return 0
    if not arguments.json and not arguments.intervals:
        _tell_timeline(recording, output_page())
    snapshots = recording.intervals if arguments.intervals else (recording.total(),)
    for snapshot in snapshots:
        if arguments.json:
            show(document.to_json(snapshot, by_process=arguments.by_process))
        else:
            page = output_page(verbose=arguments.verbose)
            text = "\n".join(_reports(snapshot, page, by_process=arguments.by_process))
            show(text, end="\n" if arguments.intervals else "", colour=page.colour)
    return 0


def _of_file(arguments: argparse.Namespace) -> Recording:
    """The recording of the file, or of the folder, in which case its name is told."""
    if Path(arguments.file).is_dir():
        return recordings.read_near(arguments.file, arguments.at)
    if arguments.at is not None:
        raise SsllatencyError("--at chooses among the recordings of a folder: name that, as watch -o does.", 2)
    return recordings.read(arguments.file)


def _tell_timeline(recording: Recording, page: Page) -> None:
    """Print what happened in the recording, before the report of all of it."""
    told = timeline(recording)
    if told:
        show(timeline_text.render(told, page), colour=page.colour)
        show("The whole recording:\n", end="")


def _reports(snapshot: Snapshot, page: Page, *, by_process: bool) -> list[str]:
    """One for the handshakes where they were measured, one for the functions where they were. What is true of both, such as
    what tracing has cost, is said once."""
    if snapshot.flight_recordings:
        return [flight_recorder.render(snapshot, page)]
    handshakes = [client_text.render(snapshot, page)] if snapshot.handshakes or snapshot.client else []
    if not snapshot.series and handshakes:
        return handshakes
    functions = trace_text.render_functions if snapshot.handshakes else trace_text.render
    return [*handshakes, functions(snapshot, page, by_process=by_process)]
