# SPDX-License-Identifier: Apache-2.0
"""Connections within bounds: so many, and none that keeps a thread for ever by being slow."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from threading import Event, Lock, Thread

MOST = 32
REQUEST_S = 20.0  # from a request's first byte, or the connection's, to the end of the answer
_LOOK_S = 1.0


class Connections:
    """What is open, and since when each is busy."""

    def __init__(self, most: int = MOST, request_s: float = REQUEST_S) -> None:
        self._most, self._request_s = most, request_s
        self._lock, self._over = Lock(), Event()
        self._busy_since: dict[socket.socket, float | None] = {}
        self.refused = 0

    def start(self) -> None:
        """Has slow ones ended from now on."""
        Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """Ends that."""
        self._over.set()

    def admit(self, connection: socket.socket) -> bool:
        """Whether there is room for it: else one that only waits makes some."""
        with self._lock:
            if len(self._busy_since) >= self._most:
                idle = next((other for other, since in self._busy_since.items() if since is None), None)
                self.refused += 1
                if idle is None:
                    return False
                self._end(idle)
            self._busy_since[connection] = time.monotonic()
            return True

    def begin(self, connection: socket.socket) -> None:
        """A request has begun."""
        self._note(connection, time.monotonic())

    def rest(self, connection: socket.socket) -> None:
        """It is answered."""
        self._note(connection, None)

    def _note(self, connection: socket.socket, since: float | None) -> None:
        with self._lock:
            if connection in self._busy_since:
                self._busy_since[connection] = since

    def leave(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._lock:
            self._busy_since.pop(connection, None)

    def end_slow(self) -> None:
        """Ends those that have been busy for too long."""
        late = time.monotonic() - self._request_s
        with self._lock:
            for connection in [one for one, since in self._busy_since.items() if since is not None and since < late]:
                self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        """Its thread sees it closed."""
        self._busy_since.pop(connection, None)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.end_slow()
