# SPDX-License-Identifier: Apache-2.0
"""The programs of the object handshakes that tell when peers' bytes arrive, whose sockets applications read themselves, and
when goroutines wait for sockets."""

from __future__ import annotations

import ctypes
import math
import time
from contextlib import suppress

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.program_choice import TRACEPOINTS_OF_GO
from ssllatency.engines.bpf.loadable import Closable, Loadable
from ssllatency.errors import SsllatencyError
from ssllatency.host.kernel import release
from ssllatency.host.preemption import loses_tracepoints

TRACEPOINTS = ("at_socket_state", "at_arrival", "at_segment", "at_read")
# Sockets of handshakes that wait, and of connections that were just established. Those that are pushed out aren't split.
_FEWEST, _MOST = 1024, 32768
_ENOUGH_WITHOUT_SOCKET = 3  # as many handshakes, unless it is asked who shook hands
# How often it is looked whether a process is left that runs Go's code, and how long one may stay away, as while it restarts.
_LOOK_S, _LINGER_S = 1.0, 10.0
_NOT_NOW = (1 << 64) - 1


class Arrivals:
    """The tracing of sockets. `watched`: whether it is told when bytes arrive; without that the waits for peers are those
    for peers or this server. `sees_waits`: whether it is told when goroutines wait; without that their runtime has sites for
    it."""

    def __init__(self, attachment: Attachment, *, wants_sockets: bool) -> None:
        """`wants_sockets`: the ports or the peers of handshakes are asked for."""
        self.watched = self.sees_waits = False
        self._attachment, self._enough = attachment, 1 if wants_sockets else _ENOUGH_WITHOUT_SOCKET
        self._reads_tried = self._waits_tried = False
        self._waits: list[Closable] = []  # the links
        self._look_s, self._nobody_since_s = 0.0, math.inf

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
        """Traces what receives and sends return; to be called before a Go program is traced. Each one counts, so not on kernels
        that may leave one out."""
        self._nobody_since_s = math.inf
        if self.sees_waits:
            self._resume_waits()
        elif not (self._waits_tried or loses_tracepoints(release())):
            self._waits_tried = True
            self.sees_waits = self._attach_waits()  # not before Linux 6.3

    def _attach_waits(self) -> bool:
        try:
            for program in TRACEPOINTS_OF_GO:
                self._waits.append(self._attachment.attach_tracepoint(program))
        except OSError:
            self._attachment.remove_links(self._waits)
            return False
        self._counters.watches_transfers = 1
        return True

    def _resume_waits(self) -> None:
        if not self._waits and self._attach_waits():
            self._counters.transfers_since_ns = time.monotonic_ns()

    def _pause_waits(self) -> None:
        self._counters.transfers_since_ns = _NOT_NOW
        self._counters.watches_transfers = 0
        self._attachment.remove_links(self._waits)

    def _tend_waits(self) -> None:
        """Every process of the machine pays for what its receives and sends hit: not for long where no Go program is left."""
        if not self.sees_waits or (not self._waits and not self._attachment.processes.of_go):
            return
        now_s = time.monotonic()
        if self._waits and now_s < self._look_s:
            return
        self._look_s = now_s + _LOOK_S
        if self._attachment.processes.go_is_left():
            self.watch_waits()
            return
        self._nobody_since_s = min(self._nobody_since_s, now_s)
        if self._waits and now_s - self._nobody_since_s >= _LINGER_S:
            self._pause_waits()

    def poll(self) -> None:
        """To be called several times a second. Traces what threads read, once a few handshakes were without a socket that is
        known: their servers read it themselves."""
        self._tend_waits()
        if self._reads_tried or not self.watched or self._counters.without_socket < self._enough:
            return
        self._reads_tried = True
        with suppress(OSError, SsllatencyError):  # then their waits stay those for the peer or this server
            self._attachment.attach_tracepoint("at_read")
            self._counters.watches_reads_ns = time.monotonic_ns()
