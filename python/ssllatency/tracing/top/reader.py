# SPDX-License-Identifier: Apache-2.0
"""Reads a session once an interval until the run ends or is to end; in a thread of its own beside a screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from ssllatency.engines.source import Ability, HandshakeSource
from ssllatency.model.live.reading import LiveReading
from ssllatency.model.snapshot import Snapshot
from ssllatency.stopping import stop_is_asked_for
from ssllatency.tracing import live
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.resolve import Resolved
from ssllatency.tracing.top.ended import LiveSession
from ssllatency.tracing.top.services import ServiceNames


class End(live.RunEnd):
    """The end of a run that can be asked for as well, from any thread."""

    def __init__(self, resolved: Resolved, duration: float | None, follower: Follower | None = None) -> None:
        super().__init__(resolved, duration, follower)
        self._asked = threading.Event()

    def ask(self) -> None:
        """Has the run end soon."""
        self._asked.set()

    def why_it_stays(self) -> str:
        """Return why what was shown last may stay on the screen after the end: "" where a signal, the user or the time ended
        it."""
        ended = self._asked.is_set() or stop_is_asked_for() or time.monotonic() >= self.at
        return "" if ended else "All traced processes have ended."

    def has_come(self) -> bool:
        """Whether the run is over."""
        return self._asked.is_set() or super().has_come()


class Reader:
    """The reader of a session. The probes are gone after the last reading."""

    def __init__(self, session: HandshakeSource, resolved: Resolved, end: live.RunEnd, most: int) -> None:
        """`most` as for LiveSession."""
        self._services = ServiceNames()
        self._functions = Ability.FUNCTIONS in session.abilities
        self._session, self._resolved, self._end = LiveSession(session, self._services, most), resolved, end

    def readings(self, interval: float | None) -> Iterator[LiveReading]:
        """One at once, one after each interval, and one at the end."""
        yield self._reading(self._session.read(per_interval=True))
        for snapshot in live.readings(self._session, self._end, interval, self._session.poll):
            yield self._reading(snapshot)

    def _reading(self, snapshot: Snapshot) -> LiveReading:
        services = self._services.names(snapshot)
        taken_s, ended = time.process_time(), self._session.ended
        return LiveReading(self._resolved.noted(snapshot), services, taken_s, ended, self._functions)
