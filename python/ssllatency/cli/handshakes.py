# SPDX-License-Identifier: Apache-2.0
"""Says where the time of whole handshakes went, and why those that failed did: time in calls by phase, waits by what was waited
for, by version, cipher, resumption and more, with the slowest one by one. Ends after -d seconds, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TypeVar

from ssllatency.cli import options
from ssllatency.tracing import live
from ssllatency.tracing.follow import Follower
from ssllatency.output.page import output_page
from ssllatency.tracing.plan_source import PlanSource
from ssllatency.output.printing import show
from ssllatency.tracing.resolve import Resolved
from ssllatency.openssl.names.names import Names, join
from ssllatency.engines.base import TracedImage
from ssllatency.engines.sessions.full import FullSession
from ssllatency.engines.sessions.handshakes import HandshakeRequest, HandshakeSession
from ssllatency.model.handshakes import Label, Single
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents import document
from ssllatency.reports.text.handshakes import endings as handshake_endings
from ssllatency.reports.text.handshakes import report as handshake_text
from ssllatency.targets import listening

SUMMARY = "where the handshakes' time went, and why the failed ones failed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    options.add_report_options(parser)
    add_measuring_options(parser)
    parser.add_argument("--over", type=options.duration_ns, metavar="DURATION",
                        help="those that took at least 50ms, 1s … as they end")  # fmt: skip
    options.add_attaching_options(parser)


def add_measuring_options(parser: argparse.ArgumentParser) -> None:
    """What of the handshakes is measured, and how much of it is kept; none is printed by itself unless --over is added."""
    parser.set_defaults(over=None)
    parser.add_argument("--by", type=labels, default=(), metavar="LABEL,…",
                        help=f"a row for each combination of these: {', '.join(Label)}")  # fmt: skip
    parser.add_argument(
        "--slowest", type=options.count, default=0, metavar="N", help="the N slowest one by one, with their splits"
    )
    parser.add_argument("--off-cpu", action="store_true", help="split the time in calls into on and off the processor")
    options.add_role_option(parser)
    parser.add_argument("--max-groups", type=options.count, default=64, metavar="N",
                        help='how many rows --by makes, the others count under "other" (64)')  # fmt: skip
    parser.add_argument("--max-in-flight", type=room, default=131072, metavar="N",
                        help="room for so many at a time, 290 bytes each; beyond, the oldest drop (131072)")  # fmt: skip


def labels(text: str) -> tuple[Label, ...]:
    """Labels by name, separated by commas."""
    try:
        return tuple(dict.fromkeys(Label(word.strip().replace("-", "_")) for word in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} isn't a list of {', '.join(Label)}") from None


def room(text: str) -> int:
    """For how many handshakes there is to be room."""
    number = options.whole(text)
    if number > 1 << 24:
        raise argparse.ArgumentTypeError("there can be room for at most 16777216 handshakes")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Attaches, waits, detaches and prints."""
    selection = options.selection(arguments)
    live.prepare()
    with ExitStack() as stack:
        resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
        session, follower = attach(HandshakeSession, resolved, arguments, stack)
        live.announce(resolved, arguments.duration, what="handshakes")
        end = live.Ending(resolved, arguments.duration, follower)
        for snapshot in live.snapshots(session, end, arguments.interval, lambda: _print_slow(session.poll(), arguments)):
            _print(resolved.noted(snapshot), arguments)
    return 0


S = TypeVar("S", HandshakeSession, FullSession)


def attach(kind: type[S], resolved: Resolved, arguments: argparse.Namespace, stack: ExitStack) -> tuple[S, Follower]:
    """A session that measures what the options ask for, attached as long as `stack`; and who follows what comes later."""
    images = list(resolved.images)
    session = kind(request_for(resolved, images, arguments))
    stack.callback(session.close)
    if isinstance(session, HandshakeSession):
        session.start()

    def extend(later: Sequence[TracedImage]) -> None:
        session.extend(later, [resolved.source.handshake_plan_of(image) for image in later])
        images.extend(later)

    return session, Follower(session, resolved, stack, extend)


def request_for(resolved: Resolved, images: Sequence[TracedImage], arguments: argparse.Namespace) -> HandshakeRequest:
    """What the options ask for, of these images, which may grow."""
    return HandshakeRequest(
        base=live.request(resolved, arguments),
        plans=tuple(resolved.source.handshake_plan_of(image) for image in images),
        names=_names_of(images, resolved.source),
        by=arguments.by,
        most_rows=arguments.max_groups,
        off_cpu=arguments.off_cpu,
        slowest=arguments.slowest,
        over_ns=arguments.over,
        in_flight=arguments.max_in_flight,
        blocking=listening.blocks({pid for image in images for pid in image.pids}),
    )


def _names_of(images: Sequence[TracedImage], source: PlanSource) -> Callable[[int], Names]:
    """The names of an image's codes: its own, and those of the other libraries that its processes map. Read when needed.

    `images` may grow.
    """

    @cache
    def own(index: int) -> Names:
        return source.names_of(images[index])

    @cache
    def joined(index: int) -> Names:
        names: Names
        names, pids = own(index), set(images[index].pids)
        for other, image in enumerate(images):
            if other != index and pids & set(image.pids):
                names = join(names, own(other))
        return names

    return joined


def _print_slow(singles: list[Single], arguments: argparse.Namespace) -> None:
    page = output_page()
    for single in singles:
        text = document.single_to_json(single) if arguments.json else "\n".join(handshake_endings.single_lines(single, page))
        show(text)


def _print(snapshot: Snapshot, arguments: argparse.Namespace) -> None:
    if arguments.json:
        show(document.to_json(snapshot))
    else:
        show(handshake_text.render(snapshot, output_page()), end="\n" if arguments.interval else "")
