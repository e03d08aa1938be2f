# SPDX-License-Identifier: Apache-2.0
"""Says where the time of whole handshakes went, and why those that failed did: time in calls by phase, waits by what was waited
for, by version, cipher, resumption and more, with the slowest one by one. Ends after -d seconds, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache

from ssllatency.cli import live, options
from ssllatency.cli.follow import Follower, rules_for
from ssllatency.cli.page import output_page
from ssllatency.cli.resolve import PlanSource, Resolved, resolve
from ssllatency.elf.names import Names, join
from ssllatency.engines.base import Request, Role, TracedImage
from ssllatency.engines.handshake_engine import HandshakeRequest, HandshakeSession
from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic import difference
from ssllatency.model.handshakes import Label, Single
from ssllatency.model.snapshot import Snapshot
from ssllatency.probes.handshake_plan import HandshakePlan
from ssllatency.reports import document, handshake_endings, handshake_text

SUMMARY = "where the handshakes' time went, and why the failed ones failed"
_LOOK_S = 0.1  # how often the slow handshakes are taken from the kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    parser.add_argument("-d", "--duration", type=options.positive, metavar="SECONDS", help="stop after so long")
    parser.add_argument("-i", "--interval", type=options.positive, metavar="SECONDS", help="a report of each interval")
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency/1; with -i one document a line")
    parser.add_argument("--by", type=labels, default=(), metavar="LABEL,…",
                        help=f"a row for each combination of these: {', '.join(Label)}")  # fmt: skip
    parser.add_argument(
        "--slowest", type=options.count, default=0, metavar="N", help="the N slowest one by one, with their splits"
    )
    parser.add_argument("--over", type=options.duration_ns, metavar="DURATION",
                        help="those that took at least 50ms, 1s … as they end")  # fmt: skip
    parser.add_argument("--off-cpu", action="store_true", help="split the time in calls into on and off the processor")
    parser.add_argument("--role", type=Role, choices=list(Role), default=Role.SERVER, help="which SSL objects count (server)")
    parser.add_argument("--max-groups", type=options.count, default=64, metavar="N",
                        help='how many rows --by makes, the others count under "other" (64)')  # fmt: skip
    parser.add_argument("--max-in-flight", type=options.whole, default=131072, metavar="N",
                        help="room for so many at a time, 290 bytes each; beyond, the oldest drop (131072)")  # fmt: skip
    options.add_attaching_options(parser)
    options.add_planning_options(parser)


def labels(text: str) -> tuple[Label, ...]:
    """Labels by name, separated by commas."""
    try:
        return tuple(dict.fromkeys(Label(word.strip().replace("-", "_")) for word in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} isn't a list of {', '.join(Label)}") from None


def run(arguments: argparse.Namespace) -> int:
    """Attaches, waits, detaches and prints."""
    selection = options.selection(arguments)
    if arguments.max_in_flight > 1 << 24:
        raise SsllatencyError("there can be room for at most 16777216 handshakes.", 2)
    live.prepare()
    with ExitStack() as stack:
        resolved = resolve(selection, arguments, stack)
        images = list(resolved.images)
        session = HandshakeSession(_request(resolved, images, arguments))
        stack.callback(session.close)
        session.start()

        def extend(later: Sequence[TracedImage]) -> None:
            session.extend(later, _plans(resolved.source, later))
            images.extend(later)

        follower = Follower(session, resolved, stack, extend)
        live.announce(resolved, arguments.duration, what="handshakes")
        for snapshot in _snapshots(session, arguments, live.Ending(resolved, arguments.duration, follower)):
            _print(resolved.noted(snapshot), arguments)
    return 0


def _plans(source: PlanSource, images: Sequence[TracedImage]) -> tuple[HandshakePlan, ...]:
    return tuple(source.handshakes_of(image) for image in images)


def _request(resolved: Resolved, images: Sequence[TracedImage], arguments: argparse.Namespace) -> HandshakeRequest:
    return HandshakeRequest(
        base=Request(
            resolved.images,
            resolved.targets,
            resolved.everyone,
            follow=rules_for(resolved),
            role=arguments.role,
            method=arguments.attach,
            links=arguments.links,
        ),
        plans=_plans(resolved.source, images),
        names=_names_of(images, resolved.source),
        by=arguments.by,
        most_rows=arguments.max_groups,
        off_cpu=arguments.off_cpu,
        slowest=arguments.slowest,
        over_ns=arguments.over,
        in_flight=arguments.max_in_flight,
    )


def _names_of(images: Sequence[TracedImage], source: PlanSource) -> Callable[[int], Names]:
    """The names of an image's codes: its own, and those of the other libraries that its processes map. Read when needed.

    `images` may grow.
    """

    @cache
    def own(index: int) -> Names:
        image = images[index]
        return source.names(image.file, image.plan.path)

    @cache
    def joined(index: int) -> Names:
        names: Names
        names, pids = own(index), set(images[index].pids)
        for other, image in enumerate(images):
            if other != index and pids & set(image.pids):
                names = join(names, own(other))
        return names

    return joined


def _snapshots(session: HandshakeSession, arguments: argparse.Namespace, end: live.Ending) -> Iterator[Snapshot]:
    """The whole run as one snapshot, or one for each interval. Slow handshakes are printed as they come."""
    earlier, stopped = None, False
    border = time.monotonic() + (arguments.interval or float("inf"))
    while not stopped:
        stopped = end.wait(min(border, time.monotonic() + _LOOK_S))
        if stopped:
            session.detach()
        _print_slow(session.poll(), arguments)
        if not stopped and time.monotonic() < border:
            continue
        border += arguments.interval or 0
        later = session.read(per_interval=arguments.interval is not None)
        yield later if earlier is None else difference(later, earlier)
        earlier = later


def _print_slow(singles: list[Single], arguments: argparse.Namespace) -> None:
    page = output_page()
    for single in singles:
        text = document.single_to_json(single) if arguments.json else "\n".join(handshake_endings.single_lines(single, page))
        print(text, flush=True)


def _print(snapshot: Snapshot, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(document.to_json(snapshot), flush=True)
    else:
        print(handshake_text.render(snapshot, output_page()), end="\n" if arguments.interval else "", flush=True)
