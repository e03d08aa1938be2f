# SPDX-License-Identifier: Apache-2.0
"""Prints one line for each TLS call as it ends: who made it, what it returned, how long it took, and why it failed or
asked to be called again; or, with --handshakes, one for each whole handshake: how long its client waited, and where that time
went. Ends after -d seconds or --count lines, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from functools import partial

from ssllatency.cli import options
from ssllatency.cli.live.printers.call_printer import CallPrinter
from ssllatency.errors import SsllatencyError
from ssllatency.model.handshakes import Ending
from ssllatency.model.snapshot import Outcome
from ssllatency.targets import Selection
from ssllatency.tracing import call_sources, live

SUMMARY = "print one line for each TLS call as it ends, or for each handshake"
EXAMPLES = (
    ("ssllatency snoop -p 812 --min 1ms", "each call that takes a millisecond or more"),
    ("ssllatency snoop --comm haproxy --outcome failure", "each call that fails, with its reason"),
    ("ssllatency snoop -p 812 --function 'rsa_*' --count 100 --json", "a hundred private-key operations, as JSON"),
    (
        "ssllatency snoop -p 812 --handshakes --min 50ms",
        "each handshake whose client waits 50 ms or more, and where that time goes",
    ),
)
# How calls or handshakes end.
_OUTCOMES = tuple(dict.fromkeys((*map(str, Outcome), *map(str, Ending))))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("--handshakes", action="store_true",
                        help="print one line for each handshake instead: how long its client waited, and where that time went: "
                             "the server's own queue, the peer and the network, an offload, or the calls")  # fmt: skip
    group = parser.add_argument_group("filters")
    group.add_argument("--function", action="append", metavar="NAME",
                       help="only calls of this function, or of those that match a shell pattern; repeatable")  # fmt: skip
    group.add_argument("--outcome", action="append", metavar="OUTCOME", choices=_OUTCOMES,
                       help="only calls with this outcome: success, failure, retry, closed or unknown; of handshakes: success, "
                            "failure or abandoned; repeatable")  # fmt: skip
    group.add_argument("--min", type=options.duration_ns, default=0, metavar="DURATION",
                       help="only calls that took at least this long, such as 200us or 1ms; handshakes whose client waited at "
                            "least this long")  # fmt: skip
    options.add_role_option(group)
    parser.add_argument(
        "-d", "--duration", type=options.seconds, metavar="TIME", help="stop after this time: 10 (seconds), 30s, 5m"
    )
    parser.add_argument("--count", type=options.whole, metavar="N", help="stop after N lines")
    parser.add_argument("--by", type=options.who, default=(), metavar="LABEL,…",
                        help="add who the peer was to handshakes, and to calls that end one: sni, alpn, port, "
                             "peer")  # fmt: skip
    options.add_peer_prefix_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options.expert(parser).add_argument("--buffer", type=options.whole, default=call_sources.RING_BYTES >> 10, metavar="KIB",
                        help="size of the buffer for what has ended and isn't printed yet, in KiB "
                             f"({call_sources.RING_BYTES >> 10})")  # fmt: skip
    parser.add_argument("--columns", type=options.whole, help=argparse.SUPPRESS)  # the width of a pane of `top`
    options.add_attaching_options(parser)
    options.add_budget_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, prints until the end, detaches, and prints what had ended meanwhile."""
    selection = options.selection(arguments)
    if arguments.buffer > 1 << 20:
        raise SsllatencyError("--buffer can be at most 1048576 KiB.", 2)
    _refuse_contradictions(arguments)
    live.prepare()
    with ExitStack() as stack:
        if arguments.handshakes:
            _print_handshakes(selection, arguments, stack)
        else:
            _print_calls(selection, arguments, stack)
    return 0


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """SsllatencyError for options of calls with --handshakes, and for those of handshakes without."""
    if arguments.handshakes and arguments.function:
        raise SsllatencyError(
            "--function chooses among calls, and --handshakes prints whole handshakes: leave one of them out.", 2
        )
    noun, outcomes = ("handshake", Ending) if arguments.handshakes else ("call", Outcome)
    for outcome in arguments.outcome or ():
        if outcome not in set(map(str, outcomes)):
            names = ", ".join(outcomes)
            hint = "" if arguments.handshakes else "; --handshakes prints handshakes"
            raise SsllatencyError(f"--outcome {outcome}: {noun}s don't end that way; choose one of {names}{hint}.", 2)


def _print_calls(selection: Selection, arguments: argparse.Namespace, stack: ExitStack) -> None:
    choose = partial(call_sources.only, arguments.function)
    resolved = live.resolved_ahead(selection, arguments, stack, handshakes=bool(arguments.by), choose=choose)
    session, follower = call_sources.attach(resolved, arguments, stack)
    live.announce(resolved, arguments.duration)
    end = live.RunEnd(resolved, arguments.duration, follower)
    live.take_first_looks(session, session.wait)
    CallPrinter(session, arguments, end).print_all()


def _print_handshakes(selection: Selection, arguments: argparse.Namespace, stack: ExitStack) -> None:
    modules = ["ssllatency.tracing.handshake_sources", "ssllatency.cli.live.printers.handshake_printer"]
    resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True, functions=False, modules=modules)
    from ssllatency.cli.live.printers.handshake_printer import HandshakePrinter
    from ssllatency.engines.source import Ability
    from ssllatency.tracing.handshake_sources import attach

    session, follower = attach(Ability.SINGLES, resolved, arguments, stack, one_by_one=True)
    live.announce(resolved, arguments.duration, what="handshakes")
    end, early = live.RunEnd(resolved, arguments.duration, follower), live.take_first_looks(session)
    HandshakePrinter(session, arguments, end, early).print_all()
