# SPDX-License-Identifier: Apache-2.0
"""The programs of the object handshakes that tell when peers' bytes arrive, whose sockets applications read themselves, and
when goroutines wait for sockets."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.program_choice import TRACEPOINT_OF_QUIC, TRACEPOINTS_OF_GO
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.host.kernel import release
from ssllatency.host.preemption import loses_tracepoints

TRACEPOINTS = ("at_socket_state", "at_arrival", "at_segment", "at_read")
# Sockets of handshakes that wait, and of connections that were just established. Those that are pushed out aren't split.
_FEWEST, _MOST = 1024, 32768
_ENOUGH_WITHOUT_SOCKET = 3


class Arrivals:
    """The tracing of sockets. `watched`: whether it is told when bytes arrive; without that the waits for peers are those
    for peers or this server. `sees_waits`: whether it is told when goroutines wait; without that their runtime has sites for
    it."""

    def __init__(self, attachment: Attachment) -> None:
        self.watched = self.sees_waits = False
        self._attachment = attachment
        self._reads_tried = self._waits_tried = self._datagrams_tried = False

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

    def watch_waits(self) -> None:
        """Traces what receives and sends return; to be called once there is a Go program. Each one counts, so not on kernels
        that may leave one out."""
        if self._waits_tried or loses_tracepoints(release()):
            return
        self._waits_tried = True
        with suppress(OSError):  # before Linux 6.3
            for program in TRACEPOINTS_OF_GO:
                self._attachment.attach_tracepoint(program)
            self.sees_waits = True
            self._counters.watches_transfers = 1

    def poll(self) -> None:
        """Traces what threads read, once a few handshakes were without a socket that is known: their servers read it
        themselves. And what they receive, once one is over QUIC whose port is asked for: each one counts, as with waits."""
        if self._counters.without_port and not self._datagrams_tried and not loses_tracepoints(release()):
            self._datagrams_tried = True
            with suppress(OSError):  # before Linux 6.3
                self._attachment.attach_tracepoint(TRACEPOINT_OF_QUIC)
                self._counters.watches_datagrams_ns = time.monotonic_ns()
        if self._reads_tried or not self.watched or self._counters.without_socket < _ENOUGH_WITHOUT_SOCKET:
            return
        self._reads_tried = True
        with suppress(OSError):  # then their waits stay those for the peer or this server
            self._attachment.attach_tracepoint("at_read")
            self._counters.watches_reads_ns = time.monotonic_ns()
