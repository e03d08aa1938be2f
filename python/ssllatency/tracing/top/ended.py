# SPDX-License-Identifier: Apache-2.0
"""Frees the kernel's rows of processes that have ended, and keeps what they counted as their services'. Otherwise a host that
forks for each connection would have filled them all in minutes, and everything would be "other" from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ssllatency.engines.bpf.running import exists
from ssllatency.engines.source import HandshakeSource
from ssllatency.model.live.ended import EndedCounts, folded
from ssllatency.model.live.reading import UNKNOWN, processes_of
from ssllatency.model.snapshot import Snapshot
from ssllatency.tracing.top.services import ServiceNames


class LiveSession:
    """A session of handshakes by process, as live.readings() asks for it.

    `ended`: the processes that are told apart no more from the snapshot on that was read last, with their services. Once `most`
    kinds of handshakes of ended processes are told apart, those of later ones are "other", whose service is "".
    """

    def __init__(
        self, session: HandshakeSource, services: ServiceNames, most: int, is_there: Callable[[int], bool] = exists
    ) -> None:
        self._session, self._services, self._most, self._is_there = session, services, most, is_there
        self._known: frozenset[int] = frozenset()
        self._kept = EndedCounts()
        self.ended: Mapping[int, str] = {}

    @property
    def due_s(self) -> float:
        """The seconds until the next call, as Session says."""
        return self._session.due_s

    def poll(self) -> None:
        """Poll it, as Session says."""
        self._session.poll()

    def detach(self) -> None:
        """Detach it, as Session says."""
        self._session.detach()

    def close(self) -> None:
        """Close it, as Session says."""
        self._session.close()

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Everything counted so far, by processes that are there and by services of those that aren't. One that has the PID of
        another counts on with it."""
        gone = {pid for pid in self._known if not self._is_there(pid)}  # first, so that the snapshot has all of their counts
        snapshot = self._session.read(per_interval=per_interval)
        names, is_full = self._services.names(snapshot), len(self._kept.groups) >= self._most
        self.ended = {pid: "" if is_full else names.get(pid, UNKNOWN) for pid in gone}
        kept = self._kept
        if gone:
            self._kept = kept.plus(snapshot, self.ended)
            self._session.forget(gone)
        shown = folded(snapshot, self.ended)
        self._known = processes_of(shown)
        return kept.added_to(shown)
