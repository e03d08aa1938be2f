# SPDX-License-Identifier: Apache-2.0
"""Keeps a measurement of functions and handshakes in a file, interval by interval; a crash loses at most the last interval.
Ends after -d seconds, on Ctrl-C or SIGTERM. `report`, `diff` and `merge` read the file."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from ssllatency import __version__
from ssllatency.cli import handshakes, live, options, recordings
from ssllatency.cli.resolve import resolve
from ssllatency.engines.full_session import FullSession
from ssllatency.model.arithmetic import difference
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.recording_document import end_line, header_line, interval_line, run_fields
from ssllatency.reports.units import counted

SUMMARY = "keep a measurement in a file, interval by interval"
_INTERVAL_S = 5.0
_POLL_S = 0.1  # how often the slow handshakes are taken from the kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    recordings.add_output_options(parser)
    parser.add_argument("-d", "--duration", type=options.positive, metavar="SECONDS", help="stop after so long")
    parser.add_argument("-i", "--interval", type=options.positive, default=_INTERVAL_S, metavar="SECONDS",
                        help=f"the length of an interval ({_INTERVAL_S:g})")  # fmt: skip
    parser.add_argument("--by-process", action="store_true", help="keep the functions of each process by themselves")
    handshakes.add_measuring_options(parser)
    options.add_attaching_options(parser)
    options.add_planning_options(parser)
    parser.set_defaults(over=None)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, writes an interval at a time, detaches."""
    selection = options.selection(arguments)
    recordings.refuse_overwriting(arguments.output, force=arguments.force)
    live.prepare()
    with ExitStack() as stack:
        resolved = resolve(selection, arguments, stack)
        session, follower = handshakes.attach(FullSession, resolved, arguments, stack)
        writer = stack.enter_context(recordings.Writer(arguments.output, force=arguments.force))
        first = session.read(per_interval=True)
        live.announce(resolved, arguments.duration, what="functions and handshakes")
        end = live.Ending(resolved, arguments.duration, follower)
        later = (resolved.noted(snapshot) for snapshot in _snapshots(session, arguments.interval, end))
        _write(writer, first, later, arguments)
    return 0


def _snapshots(session: FullSession, interval_s: float, end: live.Ending) -> Iterator[Snapshot]:
    """What has been counted by the end of each interval."""
    border, stopped = time.monotonic() + interval_s, False
    while not stopped:
        stopped = end.wait(min(border, time.monotonic() + _POLL_S))
        if stopped:
            session.detach()
        session.poll()
        if stopped or time.monotonic() >= border:
            yield session.read(per_interval=True)
            border += interval_s


def _write(writer: recordings.Writer, earlier: Snapshot, snapshots: Iterator[Snapshot], arguments: argparse.Namespace) -> None:
    """Writes each interval when it is over, the first since `earlier`, and says in the end what was written."""
    command = shlex.join(["ssllatency", *sys.argv[1:]])
    about = run_fields(earlier.host, earlier.kernel, __version__, command, arguments.interval)
    writer.write(header_line([about]))
    number = calls = ended = 0
    for number, later in enumerate(snapshots, 1):
        interval = difference(later, earlier)
        writer.write(interval_line(interval, number, by_process=arguments.by_process))
        calls += sum(series.count for series in interval.series)
        ended += sum(group.count for group in interval.handshakes.groups) if interval.handshakes else 0
        earlier = later
    writer.write(end_line(number))
    what = f"{counted(number, 'interval')} with {counted(ended, 'handshake')} and {counted(calls, 'call')}"
    print(f"ssllatency: {arguments.output} holds {what}.", file=sys.stderr)
