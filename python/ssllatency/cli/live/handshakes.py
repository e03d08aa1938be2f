# SPDX-License-Identifier: Apache-2.0
"""Shows where the time of handshakes went, and why some failed: the time in calls by phase, the waits by what was waited for,
grouped by version, cipher, resumption and more; lists the slowest. Ends after -d seconds, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ssllatency.cli import options
from ssllatency.errors import SsllatencyError
from ssllatency.output.printing import show
from ssllatency.stopping import STOP
from ssllatency.tracing import live
from ssllatency.watch.fail_if import FailIf

if TYPE_CHECKING:
    from ssllatency.model.handshakes import Single
    from ssllatency.model.snapshot import Snapshot
    from ssllatency.targets import Selection
    from ssllatency.tracing.resolve import Resolved

SUMMARY = "show where the time of handshakes went, and why some failed"
EXAMPLES = (
    ('ssllatency handshakes -p "$(cat /run/nginx.pid)" -d 10', "where the time goes, and why some fail"),
    (
        "ssllatency handshakes -p 812 -d 10 --by version,resumed --slowest 5",
        "new and resumed sessions apart, and the five slowest",
    ),
    ("ssllatency handshakes --container web -d 60 --over 50ms", "each that takes 50 ms or more, as it ends, with its queue"),
)
STATUS = options.FAIL_STATUS
# Brought in while files are planned: what attaches, and what accept queues are asked with.
_MODULES = ("ssllatency.engines.sessions.handshakes", "ssllatency.tracing.handshake_sources", "socket")
_NOT_BY_JFR = ("by", "slowest", "over", "fail_if", "wait")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    options.add_report_options(parser)
    options.add_measuring_options(parser)
    parser.add_argument("--over", type=options.duration_ns, metavar="DURATION",
                        help="print each handshake whose client waited at least this long, such as 50ms, as it ends, with its "
                             "queue")  # fmt: skip
    parser.add_argument("--jfr", action="store_true",
                        help="measure Java's own TLS by the JVM's Flight Recorder instead of probes: a recording is started in "
                             "each JVM, and stopped after -d")  # fmt: skip
    options.add_fail_option(parser, "handshake")
    options.add_attaching_options(parser)
    options.add_budget_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, waits, detaches and prints."""
    selection = options.selection(arguments)
    if arguments.jfr:
        return _run_by_flight_recorder(selection, arguments)
    live.prepare()
    with ExitStack() as stack:
        resolved = live.resolved_ahead(
            selection,
            arguments,
            stack,
            handshakes=True,
            functions=False,
            modules=_MODULES,
            load=lambda known: _load_ahead(known, arguments),
        )
        from ssllatency.engines.source import Ability  # brought in by now
        from ssllatency.tracing.handshake_sources import attach

        session, follower = attach(Ability.HANDSHAKES | Ability.SINGLES, resolved, arguments, stack)
        live.announce(resolved, arguments.duration, what="handshakes")
        end, fail_if = live.RunEnd(resolved, arguments.duration, follower), FailIf(arguments.fail_if)
        early = live.take_first_looks(session)
        show_singles, show_report = _printers(arguments)
        show_singles(early)
        for snapshot in live.snapshots(session, end, arguments.interval, lambda: show_singles(session.poll())):
            fail_if.take(snapshot)
            show_report(resolved.noted(snapshot))
    return fail_if.status()


def _run_by_flight_recorder(selection: Selection, arguments: argparse.Namespace) -> int:
    if arguments.duration is None:
        raise SsllatencyError("--jfr needs a duration: add one, such as -d 10.", 2)
    given = [name for name in _NOT_BY_JFR if getattr(arguments, name)]
    if given or arguments.interval:
        option = f"--{given[0].replace('_', '-')}" if given else "-i"
        raise SsllatencyError(f"{option} can't be had with --jfr, which tells of all handshakes together.", 2)
    from ssllatency.output.page import output_page
    from ssllatency.reports.documents import document
    from ssllatency.reports.text import flight_recorder
    from ssllatency.tracing.jfr.recording import record

    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    snapshot = record(selection, arguments.duration)
    page = output_page(verbose=arguments.verbose)
    if arguments.json:
        show(document.to_json(snapshot))
    else:
        show(flight_recorder.render(snapshot, page), end="", colour=page.colour)
    return 0


def _load_ahead(known: Resolved, arguments: argparse.Namespace) -> None:
    from ssllatency.tracing.handshake_sources import load_ahead

    load_ahead(known, arguments)


def _printers(arguments: argparse.Namespace) -> tuple[Callable[[Sequence[Single]], None], Callable[[Snapshot], None]]:
    """Return printers of handshakes that took long, and of snapshots. The reports are imported here: not before the probes
    are attached, and not days later, when another version of them may have been installed."""
    from ssllatency.output.page import output_page
    from ssllatency.reports.documents import document
    from ssllatency.reports.text.handshakes import endings, report

    before: Snapshot | None = None

    def show_singles(singles: Sequence[Single]) -> None:
        page = output_page(verbose=arguments.verbose)
        for single in singles:
            show(document.single_to_json(single) if arguments.json else "\n".join(endings.single_lines(single, page)))

    def show_report(snapshot: Snapshot) -> None:
        nonlocal before
        if arguments.json:
            show(document.to_json(snapshot))
        else:
            page = output_page(verbose=arguments.verbose)
            show(report.render(snapshot, page, before), end="\n" if arguments.interval else "", colour=page.colour)
        before = snapshot

    return show_singles, show_report
