# SPDX-License-Identifier: Apache-2.0
"""The programs of the object handshakes that tell when peers' bytes arrive, and whose sockets applications read themselves."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.bpf.loadable import Loadable

TRACEPOINTS = ("at_socket_state", "at_arrival", "at_segment", "at_read")
# Sockets of handshakes that wait, and of connections that were just established. Those that are pushed out aren't split.
_FEWEST, _MOST = 1024, 32768
_ENOUGH_WITHOUT_SOCKET = 3


class Arrivals:
    """The tracing of sockets. `watched`: whether it is told when bytes arrive; without that the waits for peers are those
    for peers or this server."""

    def __init__(self, attachment: Attachment) -> None:
        self.watched = False
        self._attachment = attachment
        self._reads_tried = False

    def make_room(self, loaded: Loadable, in_flight: int) -> None:
        """To be called before the object is loaded: for so many handshakes in flight."""
        loaded.resize_map("arrivals", min(max(in_flight // 4, _FEWEST), _MOST))

    def watch(self, counters: ctypes.Structure) -> None:
        """Traces arrivals; `counters` are the object's, live."""
        self._counters = counters
        with suppress(OSError):
            self._attachment.attach_tracepoint("at_socket_state")
            try:
                self._attachment.attach_tracepoint("at_arrival")
            except OSError:  # before Linux 6.3
                self._attachment.attach_tracepoint("at_segment")
            self.watched = True
            self._counters.watches_arrivals = 1

    def poll(self) -> None:
        """Traces what threads read, once a few handshakes were without a socket that is known: their servers read it
        themselves."""
        if self._reads_tried or not self.watched or self._counters.without_socket < _ENOUGH_WITHOUT_SOCKET:
            return
        self._reads_tried = True
        with suppress(OSError):  # then their waits stay those for the peer or this server
            self._attachment.attach_tracepoint("at_read")
            self._counters.watches_reads_ns = time.monotonic_ns()
