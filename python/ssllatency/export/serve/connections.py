# SPDX-License-Identifier: Apache-2.0
"""Connections within bounds: so many in all and from one address, and none that keeps a thread for ever by being slow.

Whoever hasn't sent a whole request makes room first, the oldest first: silent connections keep nobody out. Where everyone is
being answered, a few more are let in for health checks alone, so that a probe isn't starved into a restart."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from threading import Event, Lock, Thread

from ssllatency.data_class import dataclass

MOST = 32
SHARE = 16  # of one address; an IPv6 network of 64 bits is one
FOR_HEALTH = 4  # beyond these
HEADER_S = 5.0  # from a connection's begin, or a request's first byte, until the whole header is there
REQUEST_S = 20.0  # from then to the end of the answer
IDLE_S = 130.0  # from then to the next request: longer than a scraper's interval, so that it needn't connect anew
_LOOK_S = 0.5


class _State(Enum):
    """The state of a connection."""

    SENDS = "its request isn't whole"
    ANSWERED = "it is being answered"
    RESTS = "it was answered, and may ask again"


@dataclass
class _Open:
    """A connection: whose it is, since when it is in its state, and whether it may only ask how we are."""

    network: str
    since_s: float
    state: _State = _State.SENDS
    only_health: bool = False


class Connections:
    """The connections that are open, and since when each is busy."""

    def __init__(self, most: int = MOST, share: int = SHARE, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.share = most, share
        self._clock = clock
        self._lock, self._over = Lock(), Event()
        self._open: dict[socket.socket, _Open] = {}
        self.refused = 0

    def start(self) -> None:
        """Has slow ones ended from now on."""
        Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """Ends that."""
        self._over.set()

    def admit(self, connection: socket.socket, address: str = "") -> bool:
        """Whether there is room for it: else one that has sent no whole request makes some, or one that only rests."""
        network = network_of(address)
        with self._lock:
            own = [one for one, kept in self._open.items() if kept.network == network]
            full = len(self._open) >= self.most
            admitted = _Open(network, self._clock())
            if full or len(own) >= self.share:
                self.refused += 1
                leaving = self._leaving(own if len(own) >= self.share else list(self._open))
                if leaving:
                    self._end(leaving)
                elif len(self._open) < self.most + FOR_HEALTH:
                    admitted.only_health = True
                else:
                    return False
            self._open[connection] = admitted
            return True

    def _leaving(self, among: list[socket.socket]) -> socket.socket | None:
        """Return which of these makes room."""
        for state in (_State.SENDS, _State.RESTS):
            found = [one for one in among if self._open[one].state is state]
            if found:
                return min(found, key=lambda one: self._open[one].since_s)
        return None

    def begin(self, connection: socket.socket) -> None:
        """A request's first byte is there."""
        self._note(connection, _State.SENDS)

    def answer(self, connection: socket.socket) -> bool:
        """A request is whole; whether it may ask for more than how we are."""
        self._note(connection, _State.ANSWERED)
        with self._lock:
            kept = self._open.get(connection)
            return kept is None or not kept.only_health

    def rest(self, connection: socket.socket) -> None:
        """It is answered."""
        self._note(connection, _State.RESTS)

    def _note(self, connection: socket.socket, state: _State) -> None:
        with self._lock:
            kept = self._open.get(connection)
            if kept:
                kept.state, kept.since_s = state, self._clock()

    def leave(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._lock:
            self._open.pop(connection, None)

    def end_slow(self) -> None:
        """Ends those that have been in their state for too long. One that rests may keep its thread busy all the same: with TLS
        there are messages that are no request."""
        allowed_s = {_State.SENDS: HEADER_S, _State.ANSWERED: REQUEST_S, _State.RESTS: IDLE_S}
        now_s = self._clock()
        with self._lock:
            for connection, kept in list(self._open.items()):
                if now_s - kept.since_s > allowed_s[kept.state]:
                    self._end(connection)

    @property
    def number(self) -> int:
        """The number of those that are open."""
        return len(self._open)

    @property
    def busy(self) -> int:
        """The number of those that don't rest."""
        with self._lock:
            return sum(kept.state is not _State.RESTS for kept in self._open.values())

    def _end(self, connection: socket.socket) -> None:
        """Its thread sees it closed."""
        self._open.pop(connection, None)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.end_slow()


def network_of(address: str) -> str:
    """Return whose an address is: an IPv4 address, also where it is mapped into IPv6, or an IPv6 network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
