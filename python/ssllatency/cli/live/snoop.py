# SPDX-License-Identifier: Apache-2.0
"""Prints one line for each TLS call as it ends: who made it, what it returned, how long it took, and why it failed or
asked to be called again. Ends after -d seconds or --count lines, on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice

from ssllatency.cli import options
from ssllatency.engines.base import TracedImage
from ssllatency.engines.clock import wall_clock_ns
from ssllatency.engines.sessions.snoop import RING_BYTES, EventFilter, SnoopSession, Whom, events_of, events_with_whom
from ssllatency.errors import SsllatencyError, did_you_mean
from ssllatency.model.snapshot import Outcome
from ssllatency.output.page import output_page
from ssllatency.output.printing import tell, tell_line
from ssllatency.output.stream import Output
from ssllatency.probes.choice import chosen
from ssllatency.reports.rows.sampling import unprinted
from ssllatency.reports.text.events import JsonLines, columns
from ssllatency.reports.text.events import Whom as WhomColumn
from ssllatency.reports.text.frame import lost
from ssllatency.reports.words.units import counted
from ssllatency.stopping import stop_is_asked_for
from ssllatency.tracing import live
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.resolve import Resolved

SUMMARY = "print one line for each TLS call as it ends"
EXAMPLES = (
    ("ssllatency snoop -p 812 --min 1ms", "each call that takes a millisecond or more"),
    ("ssllatency snoop --comm haproxy --outcome failure", "each call that fails, with its reason"),
    ("ssllatency snoop -p 812 --function 'rsa_*' --count 100 --json", "a hundred private-key operations, as JSON"),
)
_LOOK_S = 0.05  # how long a call may wait in the ring buffer; a nearly full buffer wakes us sooner
_BATCHES = 8  # batches printed without a pause while calls keep coming; then the end of the run is checked for
_CLOCK_S = 10.0  # how often the wall clock is compared with the kernel's
_SAY_S = 1.0  # dropped calls are reported at most this often


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    group = parser.add_argument_group("filters (applied in the kernel)")
    group.add_argument("--function", action="append", metavar="NAME",
                       help="only calls of this function, or of those that match a shell pattern; repeatable")  # fmt: skip
    group.add_argument("--outcome", action="append", metavar="OUTCOME",
                       type=options.member_of(Outcome), choices=list(map(str, Outcome)),
                       help="only calls with this outcome: success, failure, retry or closed; repeatable")  # fmt: skip
    group.add_argument("--min", type=options.duration_ns, default=0, metavar="DURATION",
                       help="only calls that took at least this long, such as 200us or 1ms")  # fmt: skip
    options.add_role_option(group)
    parser.add_argument(
        "-d", "--duration", type=options.seconds, metavar="TIME", help="stop after this time: 10 (seconds), 30s, 5m"
    )
    parser.add_argument("--count", type=options.whole, metavar="N", help="stop after N lines")
    parser.add_argument("--by", type=options.who, default=(), metavar="LABEL,…",
                        help="add who shook hands to calls that end a handshake: sni, alpn, port, peer")  # fmt: skip
    options.add_peer_prefix_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options.expert(parser).add_argument("--buffer", type=options.whole, default=RING_BYTES >> 10, metavar="KIB",
                        help=f"size of the buffer for calls that aren't printed yet, in KiB ({RING_BYTES >> 10})")  # fmt: skip
    parser.add_argument("--columns", type=options.whole, help=argparse.SUPPRESS)  # the width of a pane of `top`
    options.add_attaching_options(parser)
    options.add_budget_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attaches, prints calls until the end, detaches, and prints the calls that were still on their way."""
    selection = options.selection(arguments)
    if arguments.buffer > 1 << 20:
        raise SsllatencyError("--buffer can be at most 1048576 KiB.", 2)
    live.prepare()
    with ExitStack() as stack:
        resolved = _only(arguments.function, live.resolved_ahead(selection, arguments, stack))
        event_filter = EventFilter(arguments.min, frozenset(arguments.outcome or Outcome))
        whom = Whom(arguments.by, arguments.peer_prefix, resolved.source.handshake_plan_of) if arguments.by else None
        session = SnoopSession(live.request(resolved, arguments), event_filter, arguments.buffer << 10, whom)
        stack.callback(session.close)
        session.attach()
        follower = Follower(session, resolved, stack, lambda images: session.extend(_chosen(arguments.function, images)))
        live.announce(resolved, arguments.duration)
        _Printer(session, arguments, live.RunEnd(resolved, arguments.duration, follower)).print_all()
    return 0


def _only(patterns: list[str] | None, resolved: Resolved) -> Resolved:
    """The functions that the user named, and only the files that contain any of them."""
    if not patterns:
        return resolved
    parts = [(_chosen(patterns, [image]), file) for image, file in zip(resolved.images, resolved.files, strict=True)]
    images = tuple(image for kept, _ in parts for image in kept)
    if not images:
        names = {planned.operation for image in resolved.images for planned in image.plan.operations}
        raise SsllatencyError(
            f"no function that is traced here matches {' or '.join(patterns)}: {did_you_mean(patterns[0], names)}"
            "`ssllatency probes` lists them."
        )
    return replace(resolved, images=images, files=tuple(file for kept, file in parts if kept))


def _chosen(patterns: list[str] | None, images: Sequence[TracedImage]) -> list[TracedImage]:
    """The functions that the user named, and only the images that contain any of them."""
    if not patterns:
        return list(images)
    parts = (replace(image, plan=chosen(image.plan, patterns)) for image in images)
    return [image for image in parts if image.plan.operations]


class _Printer:
    """Prints a session's events to standard output, and what was missed to standard error."""

    def __init__(self, session: SnoopSession, arguments: argparse.Namespace, ending: live.RunEnd) -> None:
        self._session, self._ending, self._left = session, ending, arguments.count
        page = replace(output_page(), most=arguments.columns) if arguments.columns else output_page()
        self._json = JsonLines(session.keys) if arguments.json else None
        self._lines = self._json or columns(session.keys, page)
        self._whom = WhomColumn(self._lines, session.keys.whom, page) if arguments.by else None
        self._output = Output(sys.stdout.fileno(), self._give_up, colour=page.colour and not arguments.json)
        self._shown = self._unwritten = self._told = 0
        self._wall_ns, self._compared, self._said = wall_clock_ns(), time.monotonic(), 0.0

    def print_all(self) -> None:
        """Prints events until the run ends, or as many lines as were asked for."""
        self._output.write([self._lines.heading])
        while self._left != 0 and not self._ending.has_come():
            self._session.poll()
            self._session.wait(live.pause_s(min(self._session.due_s, self._ending.at), _LOOK_S))
            self._output.check()
            self._print(islice(self._session.batches(), _BATCHES))
            if time.monotonic() >= self._said + _SAY_S:
                self._tell_of_drops()
        self._session.detach()
        self._print(self._session.batches())
        self._tell_of_drops()
        self._tell_at_the_end()

    def _give_up(self) -> bool:
        """Called while the reader blocks our output, so that probes are removed in time and a signal ends the wait."""
        if self._ending.has_come():
            self._session.detach()
        return stop_is_asked_for()

    def _print(self, batches: Iterable[bytes]) -> None:
        now = time.monotonic()
        if now > self._compared + _CLOCK_S:
            self._wall_ns, self._compared = wall_clock_ns(), now
        for batch in batches:
            lines = self._render(batch)
            written = self._output.write(lines)
            self._shown += written
            self._unwritten += len(lines) - written
            if self._left is not None:
                self._left -= len(lines)
                if not self._left:
                    return
            if time.monotonic() >= self._session.due_s:
                self._session.poll()

    def _render(self, batch: bytes) -> list[str]:
        if self._whom:
            return self._whom.render(islice(events_with_whom(batch), self._left), self._wall_ns)
        return self._lines.render(islice(events_of(batch), self._left), self._wall_ns)

    def _tell_of_drops(self) -> None:
        """Reports the calls dropped since the last report."""
        dropped = self._session.losses().events_dropped
        if dropped == self._told:
            return
        more, self._told, self._said = dropped - self._told, dropped, time.monotonic()
        tell(f"{counted(more, 'call')} dropped: they came faster than they could be printed.")
        if self._json:
            self._output.write([self._json.dropped(more, time.time_ns())])

    def _tell_at_the_end(self) -> None:
        running = self._session.in_flight()
        for sentence in unprinted(self._session.sampling()):
            tell_line(sentence)
        tell_line(f"{counted(self._shown, 'call')} shown.")
        if running:
            tell_line(f"{counted(running, 'call')} had begun and not returned.")
        if self._unwritten:
            tell_line(f"{counted(self._unwritten, 'call')} not printed: their reader had stopped.")
        for line in lost(self._session.losses()):
            tell_line(line)
