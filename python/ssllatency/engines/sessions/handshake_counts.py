# SPDX-License-Identifier: Apache-2.0
"""The counts that the object handshakes keeps in its maps: how much room they get, and how they are read into the model."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping

from ssllatency import abi
from ssllatency.engines.bpf import row_table
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.row_table import RowTable
from ssllatency.engines.bpf.running import InFlight
from ssllatency.engines.read import handshake_rows as collect
from ssllatency.engines.read.collect import Extremes
from ssllatency.engines.read.cpu_time import thread_cpu_s
from ssllatency.engines.read.names import ENDINGS
from ssllatency.engines.read.tallies import TallyRows, in_order
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions import certificates, quic, who
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.engines.sessions.handshake_sites import BATCH_FUNCTIONS, row_mask
from ssllatency.engines.sessions.singles import ring_bytes
from ssllatency.model.arithmetic.handshake_sums import add_tallies
from ssllatency.model.handshakes import (
    Group,
    Label,
    Single,
    Tallies,
)
from ssllatency.model.offload import Batches, PollingThread

_MOST_WAKES = 65536  # descriptors that wake the jobs of handshakes in flight
_READS = 10  # at most; that a handshake ends while its row is read is one chance in thousands
# The tables beside the rows, and how much they grow for each row that a process may have: one of TLS 1.2 and 1.3 has a dozen
# values of labels in four rows, and as many combinations of them as rows, or few more.
_TALLIES = {
    "causes": (abi.TableSize.CAUSES, 16),
    "keys": (abi.TableSize.KEYS, 16),
    "mix": (abi.TableSize.MIX, 16),
    "combinations": (abi.TableSize.COMBINATIONS, 4),
}
_NO_TALLIES = Tallies((), (), {})


def make_room(loaded: Loadable, request: HandshakeRequest) -> None:
    """Before loading: makes the maps as large as the request needs them, and tells the programs so."""
    config = loaded.section(".rodata.handshake_config", abi.HandshakeConfig)
    config.mask = row_mask(request.by)
    in_flight, rows = request.in_flight, _own_rows(request)
    excess = max(1, in_flight // 4)
    config.most_handshakes = in_flight - excess
    config.most_rows = rows - rows // 8
    config.certificates = int(request.read_certificates is not None)
    certificates.make_room(loaded, request)
    loaded.resize_map("handshakes", in_flight)
    loaded.resize_map("excess_handshakes", excess)
    loaded.resize_map("singles", ring_bytes(request))
    loaded.resize_map("wakes", min(in_flight, _MOST_WAKES))
    row_table.make_room(loaded, len(ENDINGS) + rows)
    loaded.resize_map("processes", request.most_rows)
    if Label.PROCESS in request.by:
        for name, (entries, of_row) in _TALLIES.items():
            loaded.resize_map(name, entries + of_row * rows)
    _make_room_for_who(loaded, request, config)


def _own_rows(request: HandshakeRequest) -> int:
    """Return how many rows there may be beside those of "other"."""
    return request.most_rows if request.by else len(ENDINGS)


def _make_room_for_who(loaded: Loadable, request: HandshakeRequest, config: ctypes.Structure) -> None:
    """Asks for what of the labels tells who shook hands, and makes room for it."""
    singles = request.singles
    by, most = (*request.by, *_singles_by(request)), request.most_rows
    if singles and singles.by:
        most = max(most, singles.most_texts)
    texts = who.ask(loaded, by, request.peer_prefix, most)
    config.most_texts = texts - texts // 8
    if asks_for(request, Label.PORT, Label.PEER):
        loaded.resize_map("endpoints", request.in_flight)
    if wants_sockets(request):
        quic.make_room(loaded, request.in_flight)


def asks_for(request: HandshakeRequest, *labels: Label) -> bool:
    """Whether rows or single handshakes have any of these labels."""
    return not {*labels}.isdisjoint((*request.by, *_singles_by(request)))


def wants_sockets(request: HandshakeRequest) -> bool:
    """Whether it is of use at which ports handshakes come in, or who their peers are."""
    return bool(request.read_certificates) or asks_for(request, Label.PORT, Label.PEER)


def _singles_by(request: HandshakeRequest) -> tuple[Label, ...]:
    return request.singles.by if request.singles else ()


class TallyTables:
    """The counts beside the rows: why handshakes failed, which keys they used, and what they negotiated. `totals`: whether
    those of all processes are wanted."""

    def __init__(self, loaded: Loadable, *, totals: bool = True) -> None:
        size = ctypes.sizeof
        self._causes = loaded.map("causes", size(abi.CauseKey), size(abi.Tally))
        self._keys = loaded.map("keys", size(abi.KeyUse), size(abi.Tally))
        self._mix = loaded.map("mix", size(abi.MixKey), 8)
        self._combinations = loaded.map("combinations", size(abi.CombinationKey), 8)
        self._rows = TallyRows()
        self._read: tuple[list[tuple[bytes, bytes]], ...] = ()
        self._totals = totals
        self._tallies: tuple[dict[int, Tallies], Tallies] = ({}, _NO_TALLIES)

    def read(self, names: collect.NamesOf) -> tuple[dict[int, Tallies], Tallies]:
        """The counts by process, and those of all in order, none where they aren't wanted; the same objects as long as nothing
        was counted."""
        tables = self._causes, self._keys, self._mix, self._combinations
        read = tuple(list(table.items()) for table in tables)
        if read != self._read:
            causes, keys, mix, combinations = read
            by_process = self._rows.read(causes, keys, mix, combinations, names)
            total = in_order(add_tallies(by_process.values())) if self._totals else _NO_TALLIES
            self._read, self._tallies = read, (by_process, total)
        return self._tallies

    def forget(self, pids: Collection[int], in_flight: InFlight) -> None:
        """Frees those of processes that have ended."""
        for table, kind, shared in (
            (self._causes, abi.CauseKey, abi.Shared.CAUSES),
            (self._keys, abi.KeyUse, abi.Shared.KEYS),
            (self._mix, abi.MixKey, abi.Shared.MIX),
            (self._combinations, abi.CombinationKey, abi.Shared.COMBINATIONS),
        ):
            for raw_key, _ in list(table.items()):
                pid = kind.from_buffer_copy(raw_key).tgid
                if pid in pids and table.delete(raw_key):
                    in_flight.give_back(pid, shared)


class Counts:
    """The counts of a loaded object. `rows` reads its labels' keys and rows; `in_flight` are the handshakes that run.

    `known_places` are the labels whose places each library shows, by its number: whoever describes libraries to the programs
    fills it in. `certificates` are those that were served. `names` gives the words for a library's codes, `comm_of` the name of
    a process without a row of its own.
    """

    def __init__(
        self, loaded: Loadable, request: HandshakeRequest, names: collect.NamesOf, comm_of: Callable[[int], str]
    ) -> None:
        size = ctypes.sizeof
        self._names, self._comm_of = names, comm_of
        self._rows = RowTable(loaded, len(ENDINGS) + _own_rows(request))
        self._tallies = TallyTables(loaded, totals=request.totals or Label.PROCESS not in request.by)
        self._batches = loaded.map("batches", size(abi.BatchKey), 8)
        self._pollers = loaded.map("pollers", 4, size(abi.Poller))
        self._processes = loaded.map("processes", 4, size(abi.Process))
        self._comms: dict[int, str] = {}
        self._dropped = 0
        self.in_flight = InFlight(loaded)
        self.known_places: dict[int, frozenset[Label]] = {}
        for ending in ENDINGS:
            self._rows.add(abi.Labels(known=1 << abi.Label.OTHER, ending=ending))
        self._rows.release()
        texts = Texts(loaded.map("texts", size(abi.Text), 4).items)
        self.certificates = certificates.Certificates(loaded, request, texts, self._name_of, self.in_flight)
        self.rows = collect.Rows(
            self.known_places,
            self._name_of,
            texts,
            request.by,
            _singles_by(request),
            Extremes(request.base.extremes),
        )

    def groups(self, interval: int) -> tuple[Group, ...]:
        """The times by label; read again where a handshake was being counted meanwhile, with some of its parts only."""
        for _ in range(_READS):
            groups = self.rows.groups(self._rows.read(), self._names, interval)
            if self.rows.is_whole:
                break
        return groups

    def tallies(self) -> tuple[dict[int, Tallies], Tallies]:
        """The counts beside the rows, by process, and those of all in order."""
        return self._tallies.read(self._names)

    def single(self, raw: abi.Single, wall_ns: int) -> Single:
        """A handshake that was handed over; `wall_ns` as wall_clock_ns() tells it."""
        return collect.single(raw, self.rows, self._names, wall_ns)

    def dropped(self, created: int, running: int, ended: int) -> int:
        """Return how many handshakes were dropped so far for want of room, where so many had begun, so many run, and so many
        have ended."""
        self._dropped = max(self._dropped, created - running - self.in_flight.cut_off - ended)
        return self._dropped

    def batches(self) -> tuple[Batches, ...]:
        """The calls that worked on several operations at a time."""
        return collect.batches(self._batches.items(), BATCH_FUNCTIONS)

    def polling_threads(self, cpu_before_s: Mapping[int, float]) -> tuple[PollingThread, ...]:
        """The threads that polled for completions, with the processor time that each has used since the one given by thread."""
        threads = []
        for raw_tid, raw in self._pollers.items():
            tid, poller = int.from_bytes(raw_tid, "little"), abi.Poller.from_buffer_copy(raw)
            now = thread_cpu_s(poller.tgid, tid)
            cpu_s = None if now is None else now - cpu_before_s.get(tid, 0.0)
            threads.append(PollingThread(poller.tgid, tid, poller.comm.decode(errors="replace"), poller.completions, cpu_s))
        return tuple(sorted(threads, key=lambda thread: -thread.completions))

    def _name_of(self, pid: int) -> str:
        """The name that the programs have kept of a process with a row of its own."""
        name = self._comms.get(pid)
        if name is None:
            raw = self._processes.lookup(pid.to_bytes(4, "little"))
            if raw is None:
                return self._comm_of(pid)
            name = self._comms[pid] = abi.Process.from_buffer_copy(raw).comm.decode(errors="replace")
        return name or self._comm_of(pid)

    def forget(self, pids: Collection[int]) -> None:
        """Frees the rows and tallies of processes that had ended before they were read last."""
        for raw_key, pid in self.rows.processes():
            if pid in pids and self._rows.delete(raw_key):
                self.in_flight.give_back(pid, abi.Shared.ROWS)
        self._tallies.forget(pids, self.in_flight)
        self.certificates.forget(pids)
        for pid in pids:
            self._processes.delete(pid.to_bytes(4, "little"))
            self._comms.pop(pid, None)
