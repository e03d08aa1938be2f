# SPDX-License-Identifier: Apache-2.0
"""Traces TLS calls and prints the ssllatency report: latency histograms and stats by function, for calls that succeeded and
for all others, then percentiles, reasons of retries and failures, and what was not traced or was lost. Ends after -d seconds,
on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.cli import options
from ssllatency.engines import choice
from ssllatency.engines.base import LinearRange
from ssllatency.model.snapshot import Snapshot
from ssllatency.output.printing import show
from ssllatency.tracing import live
from ssllatency.watch.fail_if import FailIf

SUMMARY = "print latency histograms and stats by function"
EXAMPLES = (
    ('ssllatency trace -p "$(cat /run/nginx.pid)" -d 10', "ten seconds of nginx, its workers and those that start meanwhile"),
    ("ssllatency trace --comm haproxy -i 5", "a report every 5 s, until Ctrl-C"),
    (
        "ssllatency trace --library /usr/lib/x86_64-linux-gnu/libssl.so.3 -d 10 --json",
        "everyone who maps this library, as JSON",
    ),
    ("ssllatency trace -p 812 -d 60 --budget 2%", "at no more than 2 % of anybody's CPU time"),
    ("ssllatency trace -p 812 -d 10 --exact", "every call, whatever that costs"),
)
STATUS = options.FAIL_STATUS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    options.add_report_options(parser)
    parser.add_argument("--by-process", action="store_true", help="print a section for each process")
    options.add_role_option(parser)
    parser.add_argument("--hist", type=options.linear_range, default=LinearRange(), metavar="MIN:MAX:STEP",
                        help="range and step of the linear histogram in microseconds (0:1000:200)")  # fmt: skip
    options.expert(parser).add_argument("--max-processes", type=options.count, default=256, metavar="N",
                        help='distinguish at most N processes; the rest are counted under "other" (256)')  # fmt: skip
    options.add_fail_option(parser, "function")
    options.add_attaching_options(parser)
    options.add_engine_option(parser)
    options.add_budget_options(parser)
    parser.add_argument("--floor", action="store_true", help=argparse.SUPPRESS)  # empty programs, for the benchmark


def run(arguments: argparse.Namespace) -> int:
    """Attaches, waits, detaches and prints."""
    selection = options.selection(arguments)
    engine_name = live.prepare(arguments.engine)
    with ExitStack() as stack:
        modules = [choice.module(engine_name), "ssllatency.tracing.function_sources"]
        resolved = live.resolved_ahead(selection, arguments, stack, modules=modules)
        from ssllatency.tracing.function_sources import attach  # brought in by now

        source, follower = attach(engine_name, resolved, arguments, stack)
        live.announce(resolved if follower else replace(resolved, waits=False), arguments.duration)
        if follower:
            live.take_first_looks(source)
        fail_if = FailIf(arguments.fail_if)
        end, show = live.RunEnd(resolved, arguments.duration, follower), _printer(arguments)
        for snapshot in live.snapshots(source, end, arguments.interval, source.poll if follower else None):
            fail_if.take(snapshot)
            show(resolved.noted(snapshot))
    return fail_if.status()


def _printer(arguments: argparse.Namespace) -> Callable[[Snapshot], None]:
    """Return a printer of snapshots. The reports are imported here: not before the probes are attached, and not days later,
    when another version of them may have been installed."""
    from ssllatency.output.page import output_page
    from ssllatency.reports.documents import document
    from ssllatency.reports.text import trace as text

    before: Snapshot | None = None

    def show_report(snapshot: Snapshot) -> None:
        nonlocal before
        if arguments.json:
            show(document.to_json(snapshot, by_process=arguments.by_process))
        else:
            page = output_page(verbose=arguments.verbose)
            report = text.render(snapshot, page, by_process=arguments.by_process, before=before)
            show(report, end="\n" if arguments.interval else "", colour=page.colour)
        before = snapshot

    return show_report
