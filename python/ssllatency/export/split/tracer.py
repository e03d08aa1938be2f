# SPDX-License-Identifier: Apache-2.0
"""The process that traces: follows what comes and goes, and answers each question of the other one with the counts by now."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from ssllatency.engines.resources import collect_seldom, trim_heap
from ssllatency.engines.source import Ability, HandshakeSource
from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.exposition import Exposition, Own
from ssllatency.export.metrics.points import Frames, Reading
from ssllatency.export.services import Services
from ssllatency.export.split.channel import READY, Broken, TracersEnd
from ssllatency.stopping import stop_is_asked_for
from ssllatency.targets import Selection
from ssllatency.tracing import handshake_sources, live
from ssllatency.tracing.follow import Follower

_LEAST_S = 1.0  # between two readings of the kernel's maps
_TEND_S = 600.0  # so often the counts of processes that have ended are taken even though nobody asks
_LOOK_S = 0.25  # a new child that needs links of its own, or a question, ends the wait at once
_LOOK_AT_REST_S = 0.5  # so long a load isn't measured against the budget that begins when nobody worked


def run(
    selection: Selection, arguments: argparse.Namespace, channel: TracersEnd, stack: ExitStack, announce: Callable[[], None]
) -> None:
    """Attaches to the targets as long as `stack`, then answers until a signal asks for the end."""
    resolved = live.resolved_ahead(selection, arguments, stack, handshakes=True)
    session, follower = handshake_sources.attach(Ability.FUNCTIONS | Ability.HANDSHAKES, resolved, arguments, stack)
    live.announce(resolved, None, what="functions and handshakes")
    with suppress(Broken):  # run() says so
        channel.send(READY + b"\n")
    announce()
    collect_seldom()
    exposition = Exposition(Services(), arguments.max_series, arguments.linger)
    Tracer(session, follower, channel, exposition, resolved.gather).run()


class Tracer:
    """Runs until a signal asks for the end. SsllatencyError where the other process has ended."""

    def __init__(
        self,
        session: HandshakeSource,
        follower: Follower,
        channel: TracersEnd,
        exposition: Exposition,
        gather: Callable[[], object] = lambda: None,
    ) -> None:
        """`gather` takes what processes that read files say: until it has been called they wait, with all their memory."""
        self._session, self._follower, self._channel, self._exposition = session, follower, channel, exposition
        self._gather = gather
        self._frames, self._reading = Frames(), Reading("", 0.0)
        self._read_s = float("-inf")
        self._took_s = 0.0

    def run(self, *, tidy_s: float = _TEND_S) -> None:
        """Answers."""
        try:
            while not stop_is_asked_for():
                asked = self._follower.wait(self._look_s, also=self._channel.fileno()) and self._channel.asked()
                self._session.poll()
                self._gather()
                if time.monotonic() - self._read_s > tidy_s:
                    self._read()
                if asked:
                    self._answer()
        except Broken:
            raise SsllatencyError("the process that speaks to the network has ended: so does this one.") from None

    @property
    def _look_s(self) -> float:
        return live.pause_s(self._session.due_s, _LOOK_AT_REST_S if self._session.rests else _LOOK_S)

    def _answer(self) -> None:
        if time.monotonic() - self._read_s >= _LEAST_S:
            self._read()
        self._channel.send(self._frames.frame(self._reading))
        trim_heap()

    def _read(self) -> None:
        began_s = time.monotonic()
        gone = self._exposition.gone()
        snapshot = self._session.read(per_interval=True)
        own = Own(self._follower.refused, self._took_s, self._follower.spared)
        self._reading = self._exposition.read(snapshot, gone, own)
        if gone:
            self._session.forget(gone)
        self._read_s = time.monotonic()
        self._took_s = self._read_s - began_s
