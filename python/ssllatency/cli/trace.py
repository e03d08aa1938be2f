# SPDX-License-Identifier: Apache-2.0
"""Traces TLS calls and prints the ssllatency report: latency histograms and stats by function, for calls that succeeded and
for all others, then percentiles, reasons, and what was left out or lost. Ends after -d seconds, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack

from ssllatency.cli import live, options
from ssllatency.cli.follow import Follower, rules_for
from ssllatency.cli.resolve import resolve
from ssllatency.engines import choice
from ssllatency.engines.base import LinearRange, Request, Role, Session
from ssllatency.engines.trace_session import TraceSession
from ssllatency.model.arithmetic import difference
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports import document, text

SUMMARY = "the ssllatency report: histograms and stats by function"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("-d", "--duration", type=options.positive, metavar="SECONDS", help="stop after so long")
    parser.add_argument("-i", "--interval", type=options.positive, metavar="SECONDS", help="a report of each interval")
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency/1; with -i one document a line")
    parser.add_argument("--by-process", action="store_true", help="a section for each process")
    parser.add_argument("--role", type=Role, choices=list(Role), default=Role.SERVER, help="which SSL objects count (server)")
    parser.add_argument("--hist", type=options.linear_range, default=LinearRange(), metavar="MIN:MAX:STEP",
                        help="linear histogram in microseconds (0:1000:200)")  # fmt: skip
    parser.add_argument("--max-processes", type=options.count, default=256, metavar="N",
                        help='how many processes are told apart, the others count under "other" (256)')  # fmt: skip
    options.add_attaching_options(parser)
    options.add_planning_options(parser)
    options.add_engine_option(parser)
    parser.add_argument("--floor", action="store_true", help=argparse.SUPPRESS)  # empty programs, for the benchmark


def run(arguments: argparse.Namespace) -> int:
    """Attaches, waits, detaches and prints."""
    selection = options.selection(arguments)
    engine = choice.engine(live.prepare(arguments.engine))
    with ExitStack() as stack:
        resolved = resolve(selection, arguments, stack)
        request = Request(
            images=resolved.images,
            targets=resolved.targets,
            everyone=resolved.everyone,
            follow=rules_for(resolved),
            role=arguments.role,
            linear=arguments.hist,
            maximum_processes=arguments.max_processes,
            floor=arguments.floor,
            method=arguments.attach,
            links=arguments.links,
        )
        session = engine.attach(request)
        stack.callback(session.close)
        follower = Follower(session, resolved, stack, session.extend) if isinstance(session, TraceSession) else None
        live.announce(resolved, arguments.duration)
        for snapshot in _snapshots(session, arguments, live.Ending(resolved, arguments.duration, follower)):
            _print(resolved.noted(snapshot), arguments)
    return 0


def _snapshots(session: Session, arguments: argparse.Namespace, end: live.Ending) -> Iterator[Snapshot]:
    """The whole run as one snapshot, or one for each interval."""
    if arguments.interval is None:
        end.wait(float("inf"))
        session.detach()
        yield session.read()
        return
    earlier, border, stopped = None, time.monotonic(), False
    while not stopped:
        border += arguments.interval
        stopped = end.wait(border) or border >= end.at
        if stopped:
            session.detach()
        later = session.read(per_interval=True)
        yield later if earlier is None else difference(later, earlier)
        earlier = later


def _print(snapshot: Snapshot, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(document.to_json(snapshot, by_process=arguments.by_process), flush=True)
    else:
        print(text.render(snapshot, by_process=arguments.by_process), end="\n" if arguments.interval else "", flush=True)
