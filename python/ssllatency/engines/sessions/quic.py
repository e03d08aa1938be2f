# SPDX-License-Identifier: Apache-2.0
"""The programs of the object handshakes that tell at which port handshakes over QUIC come in, and who their peers are."""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from ssllatency import abi
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.program_choice import DATAGRAMS, PACKETS, PROGRAMS_OF_QUIC
from ssllatency.engines.attach.sites import Sites
from ssllatency.engines.bpf.loadable import Closable, Loadable
from ssllatency.engines.bpf.running import exists
from ssllatency.errors import SsllatencyError
from ssllatency.host.kernel import release
from ssllatency.host.preemption import loses_tracepoints

SitesOfAll = Callable[[], Mapping[str, Sequence[Sites]]]

_MOST_PROCESSES = 1024  # that serve over QUIC; of more no port is known
# Of their handshakes that are in flight at a time; a successful one is for a round trip. The kernel deals out such a table's
# room to processors, 128 entries at a time.
_MOST_HANDSHAKES, _OF_A_PROCESSOR = 4096, 256
_LOOK_S, _LINGER_S = 1.0, 10.0  # as for the processes of Go programs, in arrivals.py
_CANT_BE = 1  # in place of the time since when packets are watched


def make_room(loaded: Loadable, in_flight: int) -> None:
    """To be called before the object is loaded, where ports, peers or certificates are wanted."""
    loaded.resize_map("datagrams", _MOST_PROCESSES)
    most = max(_MOST_HANDSHAKES, _OF_A_PROCESSOR * (os.cpu_count() or 1))
    for name in ("quic_names", "quic_peers"):
        loaded.resize_map(name, min(in_flight, most))


class QuicServers:
    """The servers of QUIC among the traced processes. What tells the IDs of their connections, and what is sent, is watched
    from when one was seen whose library may tell them, until a while after the last one has ended. `watched`: whether the sites
    are attached that tell IDs, then of later files as well."""

    def __init__(self, attachment: Attachment, *, ports: bool, wanted: bool) -> None:
        """`ports`: whether they are asked for; `wanted`: whether they are of use, or peers are."""
        self.watched = False
        self._attachment, self._ports, self._wanted = attachment, ports, wanted or ports
        self._datagrams_tried = False
        self._packets: list[Closable] = []  # the link
        self._seen = 0  # handshakes over QUIC, as packets ceased to be watched
        self._look_s = self._again_s = 0.0
        self._nobody_since_s = math.inf

    def begin(self, loaded: Loadable, counters: ctypes.Structure) -> None:
        """`counters` are those of the loaded object, live."""
        self._counters = counters
        self._processes = loaded.map("datagrams", 4, ctypes.sizeof(abi.Datagrams))

    def poll(self, sites: SitesOfAll) -> None:
        """To be called several times a second; `sites` gives those that tell IDs."""
        if not self._wanted:
            return
        if self._counters.over_quic > self._seen and not self._packets and self._counters.watches_packets_ns != _CANT_BE:
            if time.monotonic() >= self._again_s:
                self._watch(sites)
        elif self._packets or self._counters.without_port:
            self._tend()
        if self._ports and self._counters.without_port and not self._datagrams_tried:
            self._watch_datagrams()

    def _watch(self, sites: SitesOfAll) -> None:
        try:
            self._packets.append(self._attachment.attach_tracepoint(PACKETS))
            if not self.watched:
                self._attachment.attach_more(sites())
        except (OSError, SsllatencyError):
            self._attachment.remove_links(self._packets)
            if self._seen:  # it could be, so that what is in the way may pass
                self._again_s = time.monotonic() + _LINGER_S
            else:
                self._counters.watches_packets_ns = _CANT_BE
            return
        self.watched = True
        self._nobody_since_s = math.inf
        self._counters.watches_packets_ns = time.monotonic_ns()

    def _tend(self) -> None:
        """Every packet of the machine costs something, and so does each message of a handshake in these libraries: not for long
        where no server of QUIC is left."""
        now_s = time.monotonic()
        if now_s < self._look_s:
            return
        self._look_s = now_s + _LOOK_S
        seen = self._counters.over_quic  # before: who comes from here on counts as not seen
        serving = self._serving()
        gone = {pid for pid in serving if not exists(pid)}
        self.forget(gone)
        if any(serving.values()):  # also those that have ended since the last look
            self._nobody_since_s = math.inf
            return
        self._nobody_since_s = min(self._nobody_since_s, now_s)
        if self._packets and now_s - self._nobody_since_s >= _LINGER_S:
            self._seen = seen
            self._rest()

    def _rest(self) -> None:
        """Perf events stay, whose program ends at once where packets aren't watched."""
        self._counters.watches_packets_ns = 0
        self._attachment.remove_links(self._packets)
        self.watched = not self._attachment.remove_programs(PROGRAMS_OF_QUIC)

    def _serving(self) -> dict[int, bool]:
        """The processes that serve over QUIC, each with whether what it sends is looked at."""
        records = ((raw_pid, abi.Datagrams.from_buffer_copy(record)) for raw_pid, record in self._processes.items())
        return {int.from_bytes(raw_pid, "little"): bool(record.tells) for raw_pid, record in records}

    def _watch_datagrams(self) -> None:
        """For servers of which what is sent doesn't tell, as their libraries' code doesn't show the IDs. Each datagram that is
        received counts, so not on kernels that may leave one out."""
        self._datagrams_tried = True
        if loses_tracepoints(release()):
            return
        with suppress(OSError, SsllatencyError):  # before Linux 6.3
            self._attachment.attach_tracepoint(DATAGRAMS)
            self._counters.watches_datagrams_ns = time.monotonic_ns()

    def forget(self, pids: Collection[int]) -> None:
        """Forgets processes that have ended."""
        for pid in pids:
            self._processes.delete(pid.to_bytes(4, "little"))
