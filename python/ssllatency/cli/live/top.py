# SPDX-License-Identifier: Apache-2.0
"""Shows the handshakes of running servers live, or the calls of functions, redrawn each second: rates, percentiles, where the
time goes, why handshakes fail. Ends at q, after -d seconds, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ssllatency.cli import options
from ssllatency.errors import SsllatencyError
from ssllatency.output.printing import show, tell
from ssllatency.tracing import handshake_sources, live
from ssllatency.tracing.top.reader import End, Reader

if TYPE_CHECKING:
    from ssllatency.reports.live.shown import ViewChoice

SUMMARY = "show handshakes live, redrawn each second"
EXAMPLES = (
    ("ssllatency top --all", "every service of this host"),
    ('ssllatency top -p "$(cat /run/nginx.pid)" --once', "one look as lines, for scripts"),
)
_INTERVAL_S = 1.0
_MOST_GROUPS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("-d", "--duration", type=options.seconds, metavar="TIME", help="stop after this time: 10 (seconds), 5m")
    parser.add_argument("-i", "--interval", type=options.seconds, default=_INTERVAL_S, metavar="TIME",
                        help=f"how often it is redrawn ({_INTERVAL_S:g})")  # fmt: skip
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--plain", action="store_true", help="print lines instead of a full screen, anew each interval")
    how.add_argument("--once", action="store_true", help="print what happened in one interval, and end")
    parser.add_argument("--view", metavar="VIEW", default="service",
                        help="what rows stand for at first: service, process, function, a label of --by (service)")  # fmt: skip
    parser.add_argument("--functions", action="store_true",
                        help="measure the calls of functions too; --view function does")  # fmt: skip
    parser.add_argument("--sort", metavar="COLUMN", default="rate",
                        help="the column that orders the rows at first: name, rate, failed, p50, p99, … (rate)")  # fmt: skip
    parser.add_argument(
        "--filter",
        metavar="TEXT",
        default="",
        help="only rows with this in their name or service, at first; or pod:TEXT, namespace:TEXT",
    )
    parser.add_argument("--by", type=options.labels, default=(), metavar="LABEL,…",
                        help="more labels that rows can stand for: sni, port, peer, version, cipher, …")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", default="",
                        help="where r records to (ssllatency-DATE-TIME.jsonl in the current folder)")  # fmt: skip
    options.add_role_option(parser)
    parser.add_argument("--max-groups", type=options.count, default=_MOST_GROUPS, metavar="N",
                        help="distinguish at most N kinds of handshakes, 141 KiB of kernel memory each; the rest is \"other\" "
                             f"({_MOST_GROUPS})")  # fmt: skip
    parser.add_argument("--max-in-flight", type=options.room, default=131072, metavar="N",
                        help="keep up to N handshakes in flight for a process (131072)")  # fmt: skip
    options.add_peer_prefix_option(parser)
    options.add_budget_options(parser)
    options.add_attaching_options(parser)
    parser.set_defaults(over=None, slowest=0)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, shows, detaches."""
    selection = options.selection(arguments)
    arguments.by = _labels(arguments)
    choice = _choice(arguments)
    lines = arguments.plain or arguments.once or _falls_back()
    if not lines:
        _need_screen()
    live.prepare()
    with ExitStack() as stack:
        resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
        functions = _wants_functions(arguments, choice)
        session, follower, what = handshake_sources.attach_useful(resolved, arguments, stack, functions=functions)
        duration = arguments.interval if arguments.once else arguments.duration
        live.announce(resolved, duration, what=what)
        live.take_first_looks(session)
        end = End(resolved, duration, follower)
        reader = Reader(session, resolved, end, arguments.max_groups)
        if lines:
            _print(reader, choice, None if arguments.once else arguments.interval)
        else:
            _show(reader, end, choice, arguments)
    return 0


def _labels(arguments: argparse.Namespace) -> tuple[object, ...]:
    """By what handshakes are told apart in the kernel."""
    from ssllatency.model.handshakes import Label

    return tuple(dict.fromkeys((Label.PROCESS, Label.RESUMED, *arguments.by)))


def _choice(arguments: argparse.Namespace) -> ViewChoice:
    """The first view. SsllatencyError for a view or column that there isn't."""
    from ssllatency.model.live.reading import views
    from ssllatency.reports.live.columns import columns
    from ssllatency.reports.live.shown import ViewChoice

    names = views(arguments.by)
    view = arguments.view.replace("-", "_")
    if view not in names:
        raise SsllatencyError(f"--view is one of {', '.join(names)}; --by adds labels.", 2)
    keys = ("name", *(column.key for column in columns(view)))
    if arguments.sort not in keys:
        raise SsllatencyError(f"--sort is one of {', '.join(keys)}.", 2)
    return ViewChoice(view=view, sort=arguments.sort, contains=arguments.filter)


def _wants_functions(arguments: argparse.Namespace, choice: ViewChoice) -> bool:
    from ssllatency.model.live.reading import FUNCTION

    return arguments.functions or choice.view == FUNCTION


def _falls_back() -> bool:
    """Whether this terminal has no full screen, so that lines are printed."""
    if os.environ.get("TERM", "dumb") not in ("dumb", "") or not sys.stdout.isatty():
        return False
    tell("this terminal has no full screen: lines are printed, as with --plain.")
    return True


def _need_screen() -> None:
    """SsllatencyError where there can be no full screen."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise SsllatencyError(
            "top draws on a terminal, and standard input, output or error is none: add --plain to print lines, or --once for"
            " scripts.",
            2,
        )
    from ssllatency.output.screen.need import need_textual

    need_textual()


def _print(reader: Reader, choice: ViewChoice, interval: float | None) -> None:
    """Prints lines after each interval; with None once, at the end."""
    from ssllatency.model.live.history import History
    from ssllatency.output.page import output_page
    from ssllatency.reports.live.text import render

    history = History()
    for reading in reader.readings(interval):
        history.add(reading)
        text = render(history, replace(choice, window_s=interval or _FOREVER_S), output_page())
        if text:
            show(text, end="\n" if interval else "")


_FOREVER_S = 1e9


def _show(reader: Reader, end: End, choice: ViewChoice, arguments: argparse.Namespace) -> None:
    """The full screen."""
    from ssllatency.output.screen.recorder import Recorder
    from ssllatency.output.screen.running import run_screen

    command = shlex.join(["ssllatency", *sys.argv[1:]])
    recorder = Recorder(lambda: _file_name(arguments.output), command, arguments.interval)
    run_screen(reader.readings(arguments.interval), end.ask, choice, recorder, end.why_it_stays)


def _file_name(output: str) -> str:
    return output or time.strftime("ssllatency-%Y%m%d-%H%M%S.jsonl")
