# SPDX-License-Identifier: Apache-2.0
"""The programs of the object handshakes that tell when peers' bytes arrive, whose sockets applications read themselves, and
where Go's handshakes find nothing to read."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.host.kernel import release

TRACEPOINTS = ("at_socket_state", "at_arrival", "at_segment", "at_read")
_READS_TOLD_SINCE = (6, 3, 0)  # of Linux: older kernels needn't load what they can't attach
# Sockets of handshakes that wait, and of connections that were just established. Those that are pushed out aren't split.
_FEWEST, _MOST = 1024, 32768
_ENOUGH_WITHOUT_SOCKET = 3


def tracepoints_of_go() -> tuple[str, ...]:
    """The programs for Go that this kernel can attach to tracepoints."""
    return ("at_go_read",) if release() >= _READS_TOLD_SINCE else ()


class Arrivals:
    """The tracing of sockets. `watched`: whether it is told when bytes arrive; without that the waits for peers are those
    for peers or this server."""

    def __init__(self, attachment: Attachment) -> None:
        self.watched = False
        self._attachment = attachment
        self._reads_tried = False
        self._sees_reads_of_go: bool | None = None

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

    def watch_reads_of_go(self) -> bool:
        """Traces what is read, so that Go's handshakes needn't be watched where goroutines park, as those that wait for data do
        as well. Returns whether the kernel tells it, since Linux 6.3; may be called again."""
        if self._sees_reads_of_go is None:
            self._sees_reads_of_go = False
            if self.watched and tracepoints_of_go():
                with suppress(OSError):
                    self._attachment.attach_tracepoint("at_go_read")
                    self._sees_reads_of_go = True
        return self._sees_reads_of_go

    def poll(self) -> None:
        """Traces what threads read, once a few handshakes were without a socket that is known: their servers read it
        themselves."""
        if self._reads_tried or not self.watched or self._counters.without_socket < _ENOUGH_WITHOUT_SOCKET:
            return
        self._reads_tried = True
        with suppress(OSError):  # then their waits stay those for the peer or this server
            self._attachment.attach_tracepoint("at_read")
            self._counters.watches_reads_ns = time.monotonic_ns()
