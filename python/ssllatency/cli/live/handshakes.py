# SPDX-License-Identifier: Apache-2.0
"""Shows where the time of handshakes went, and why some failed: the time in calls by phase, the waits by what was waited for,
grouped by version, cipher, resumption and more; lists the slowest. Ends after -d seconds, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from ssllatency.cli import options
from ssllatency.engines.sessions.handshakes import HandshakeSession
from ssllatency.model.handshakes import Single
from ssllatency.model.snapshot import Snapshot
from ssllatency.output.page import output_page
from ssllatency.output.printing import show
from ssllatency.reports.documents import document
from ssllatency.reports.text.handshakes import endings as handshake_endings
from ssllatency.reports.text.handshakes import report as handshake_text
from ssllatency.tracing import handshakes, live
from ssllatency.tracing.watch.fail_if import FailIf

SUMMARY = "show where the time of handshakes went, and why some failed"
EXAMPLES = (
    ('ssllatency handshakes -p "$(cat /run/nginx.pid)" -d 10', "where the time goes, and why some fail"),
    (
        "ssllatency handshakes -p 812 -d 10 --by version,resumed --slowest 5",
        "new and resumed sessions apart, and the five slowest",
    ),
    ("ssllatency handshakes --container web -d 60 --over 50ms", "each that takes 50 ms or more, as it ends"),
    ("ssllatency handshakes -p 812 -d 10 --off-cpu", "whether the thread had a processor meanwhile"),
)
STATUS = options.FAIL_STATUS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    options.add_report_options(parser)
    options.add_measuring_options(parser)
    parser.add_argument("--over", type=options.duration_ns, metavar="DURATION",
                        help="print each handshake that took at least this long (50ms, 1s) as it ends")  # fmt: skip
    options.add_fail_option(parser, "handshake")
    options.add_attaching_options(parser)
    options.add_budget_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, waits, detaches and prints."""
    selection = options.selection(arguments)
    live.prepare()
    with ExitStack() as stack:
        resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
        session, follower = handshakes.attach(HandshakeSession, resolved, arguments, stack)
        live.announce(resolved, arguments.duration, what="handshakes")
        end, fail_if = live.RunEnd(resolved, arguments.duration, follower), FailIf(arguments.fail_if)
        before: Snapshot | None = None
        for snapshot in live.snapshots(session, end, arguments.interval, lambda: _print_slow(session.poll(), arguments)):
            fail_if.take(snapshot)
            _print(resolved.noted(snapshot), arguments, before)
            before = snapshot
    return fail_if.status()


def _print_slow(singles: list[Single], arguments: argparse.Namespace) -> None:
    page = output_page()
    for single in singles:
        text = document.single_to_json(single) if arguments.json else "\n".join(handshake_endings.single_lines(single, page))
        show(text)


def _print(snapshot: Snapshot, arguments: argparse.Namespace, before: Snapshot | None) -> None:
    if arguments.json:
        show(document.to_json(snapshot))
    else:
        page = output_page()
        show(handshake_text.render(snapshot, page, before), end="\n" if arguments.interval else "", colour=page.colour)
