# SPDX-License-Identifier: Apache-2.0
"""Records a measurement of functions and handshakes to a file, interval by interval; a crash loses at most the last interval.
Ends after -d seconds, on Ctrl-C or SIGTERM. `report`, `diff` and `merge` read the file."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack

from ssllatency import __version__
from ssllatency.cli import options
from ssllatency.engines.source import Ability
from ssllatency.model.snapshot import Snapshot
from ssllatency.output import recordings
from ssllatency.output.printing import tell
from ssllatency.reports.documents.recording import end_line, header_line, interval_line, run_fields
from ssllatency.tracing import handshake_sources, live
from ssllatency.units import counted

SUMMARY = "record a measurement to a file, interval by interval"
EXAMPLES = (
    ("ssllatency record -p 812 -d 60 -i 2 -o before.jsonl", "a minute in intervals of two seconds"),
    ("ssllatency record --comm nginx --slowest 5 -o nginx.jsonl", "until Ctrl-C, with the slowest handshakes of each interval"),
)
_INTERVAL_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    recordings.add_output_options(parser)
    parser.add_argument(
        "-d", "--duration", type=options.seconds, metavar="TIME", help="stop after this time: 10 (seconds), 30s, 5m"
    )
    parser.add_argument("-i", "--interval", type=options.seconds, default=_INTERVAL_S, metavar="TIME",
                        help=f"the length of an interval ({_INTERVAL_S:g})")  # fmt: skip
    parser.add_argument("--by-process", action="store_true", help="record the functions of each process separately")
    options.add_measuring_options(parser)
    options.add_attaching_options(parser)
    options.add_budget_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, writes an interval at a time, detaches."""
    selection = options.selection(arguments)
    recordings.refuse_overwriting(arguments.output, force=arguments.force)
    live.prepare()
    with ExitStack() as stack:
        resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
        session, follower = handshake_sources.attach(Ability.FUNCTIONS | Ability.HANDSHAKES, resolved, arguments, stack)
        writer = stack.enter_context(recordings.Writer(arguments.output, force=arguments.force))
        earlier = session.read(per_interval=True)
        live.announce(resolved, arguments.duration, what="functions and handshakes")
        end = live.RunEnd(resolved, arguments.duration, follower)
        intervals = live.snapshots(session, end, arguments.interval, session.poll, earlier)
        _write(writer, (resolved.noted(interval) for interval in intervals), earlier, arguments)
    return 0


def _write(writer: recordings.Writer, intervals: Iterator[Snapshot], first: Snapshot, arguments: argparse.Namespace) -> None:
    """Writes each interval as it ends, and says at the end what was written. `first` names host and kernel."""
    command = shlex.join(["ssllatency", *sys.argv[1:]])
    writer.write(header_line([run_fields(first.host, first.kernel, __version__, command, arguments.interval)]))
    number = calls = ended = 0
    for number, interval in enumerate(intervals, 1):
        writer.write(interval_line(interval, number, by_process=arguments.by_process))
        calls += sum(series.count for series in interval.series)
        ended += sum(group.count for group in interval.handshakes.groups) if interval.handshakes else 0
    writer.write(end_line(number))
    contents = f"{counted(number, 'interval')} with {counted(ended, 'handshake')} and {counted(calls, 'call')}"
    tell(f"{arguments.output} holds {contents}.")
