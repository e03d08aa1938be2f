# SPDX-License-Identifier: Apache-2.0
"""The certificates that servers serve, as the object handshakes tells of them: each once, and where it was served."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable, Collection, Iterable

from ssllatency import abi
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.ring import Ring, ring_size
from ssllatency.engines.bpf.running import InFlight, exists
from ssllatency.engines.clock import wall_clock_ns
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.model.certificates import CertificateFacts, ServedCertificate, SignedPart, summed
from ssllatency.model.handshakes import Label
from ssllatency.model.process_label import ProcessLabel

_NEW_BYTES = 256 << 10  # room for those that come between two looks, about 60
_MOST_KEPT = 4096  # certificates; those of processes that have ended among them
_MANY_NEW = abi.CertificateSize.CERTIFICATES // 4  # so many, or this long after the last time, it is seen which processes ended
_LOOK_S = 10.0
_Row = tuple[abi.ServedKey, abi.Served]
_MAPS = {"certificates": abi.CertificateSize.CERTIFICATES, "served": abi.CertificateSize.SERVED}


def _ring_bytes(request: HandshakeRequest) -> int:
    return ring_size(_NEW_BYTES) if request.read_certificates else mmap.PAGESIZE


def make_room(loaded: Loadable, request: HandshakeRequest) -> None:
    """Before loading: makes the maps as large as they have to be."""
    for name, entries in _MAPS.items():
        loaded.resize_map(name, entries if request.read_certificates else 1)
    loaded.resize_map("new_certificates", _ring_bytes(request))


class _Tables:
    """The numbers of the certificates that each process serves, and where it has served them."""

    def __init__(self, loaded: Loadable, in_flight: InFlight) -> None:
        size = ctypes.sizeof
        self._known = loaded.map("certificates", size(abi.CertificateKey), 4)
        self._served = loaded.map("served", size(abi.ServedKey), size(abi.Served))
        self._in_flight = in_flight

    def served(self) -> list[_Row]:
        return [
            (abi.ServedKey.from_buffer_copy(key), abi.Served.from_buffer_copy(value)) for key, value in self._served.items()
        ]

    def by_number(self) -> dict[int, int]:
        """The processes, each by the number of a certificate of its own."""
        return {
            int.from_bytes(number, "little"): abi.CertificateKey.from_buffer_copy(key).tgid
            for key, number in self._known.items()
        }

    def take_out(self, pids: Collection[int]) -> list[_Row]:
        """Frees what is kept of processes that have ended: where they had served certificates."""
        taken = []
        for key, value in self.served():
            if key.tgid in pids and self._served.delete(bytes(key)):
                self._in_flight.give_back(key.tgid, abi.Shared.SERVED)
                taken.append((key, value))
        for raw_key, _ in list(self._known.items()):
            pid = abi.CertificateKey.from_buffer_copy(raw_key).tgid
            if pid in pids and self._known.delete(raw_key):
                self._in_flight.give_back(pid, abi.Shared.CERTIFICATES)
        return taken


class Certificates:
    """Those of a loaded object. `texts` has the names that clients asked for, `name_of` the names of processes. `untold`: the
    full handshakes, of those that served() was about, whose certificate couldn't be looked at.

    A server that forks for each connection would fill the tables soon: what processes that have ended served is summed up here.
    """

    def __init__(
        self,
        loaded: Loadable,
        request: HandshakeRequest,
        texts: Texts,
        name_of: Callable[[int], str],
        in_flight: InFlight,
        alive: Callable[[int], bool] = exists,
    ) -> None:
        self._ring = Ring(loaded.map_fd("new_certificates"), _ring_bytes(request), ctypes.sizeof(abi.Certificate))
        self._tables = _Tables(loaded, in_flight)
        self._read, self._texts, self._name_of, self._alive = request.read_certificates, texts, name_of, alive
        self._by_process = Label.PROCESS in request.by
        self._by_content: dict[SignedPart, CertificateFacts | None] = {}
        self._by_number: dict[int, CertificateFacts | None] = {}
        self._of_ended: tuple[ServedCertificate, ...] = ()
        self._untold_of_ended = self.untold = 0
        self._new, self._looked_s = 0, time.monotonic()
        self._settled = 0  # the last number that was known the last time

    def take(self) -> None:
        """Reads those that were handed over since the last time: each certificate once, whoever serves it."""
        if self._read is None:
            return
        self._take_new()
        if self._new >= _MANY_NEW or time.monotonic() - self._looked_s >= _LOOK_S:
            self._new, self._looked_s = 0, time.monotonic()
            gone = {pid for pid in set(self._tables.by_number().values()) if not self._alive(pid)}
            if gone:
                self._add_ended(self._take_out(gone))

    def served(self) -> tuple[ServedCertificate, ...]:
        """The certificates that were served so far, and where."""
        if self._read is None:
            return ()
        rows = self._tables.served()
        self._take_new()  # those of these rows as well
        told = self._told(rows)
        self.untold = self._untold_of_ended + _count(rows) - sum(one.count for one in told)
        return summed([*self._of_ended, *told])

    def forget(self, pids: Collection[int]) -> None:
        """Frees what is kept of processes that have ended."""
        rows = self._take_out(pids)
        self._untold_of_ended += _count(rows) - sum(one.count for one in self._told(rows))
        self._of_ended = tuple(one for one in self._of_ended if one.process is None or one.process.pid not in pids)

    def close(self) -> None:
        """Frees the ring."""
        self._ring.close()

    def _take_new(self) -> None:
        raw = [(one.number, _signed(one), one.signature_length) for one in self._ring.records(abi.Certificate)]
        if not raw or self._read is None:
            return
        self._new += len(raw)
        fresh = list(dict.fromkeys((signed, length) for _, signed, length in raw if (signed, length) not in self._by_content))
        if len(self._by_content) + len(fresh) > _MOST_KEPT:
            self._by_content.clear()
        self._by_content |= self._read(fresh)
        for number, signed, length in raw:
            if (signed, length) in self._by_content:
                self._by_number[number] = self._by_content[signed, length]

    def _take_out(self, pids: Collection[int]) -> list[_Row]:
        """Frees what the kernel keeps of processes that have ended; their certificates stay known until the next time."""
        self._take_new()  # what they had handed over last, too
        numbers, settled = self._tables.by_number(), self._settled  # later ones may not be in the table yet
        self._by_number = {number: one for number, one in self._by_number.items() if number in numbers or number > settled}
        self._settled = max(self._by_number, default=settled)
        return self._tables.take_out(pids)

    def _add_ended(self, rows: list[_Row]) -> None:
        told = self._told(rows)
        self._untold_of_ended += _count(rows) - sum(one.count for one in told)
        kept = sorted(summed([*self._of_ended, *told]), key=lambda one: -one.last_s)
        self._untold_of_ended += sum(one.count for one in kept[_MOST_KEPT:])
        self._of_ended = tuple(kept[:_MOST_KEPT])

    def _told(self, rows: Iterable[_Row]) -> list[ServedCertificate]:
        wall_ns = wall_clock_ns()
        return [self._row(key, value, wall_ns) for key, value in rows if key.certificate in self._by_number]

    def _row(self, key: abi.ServedKey, value: abi.Served, wall_ns: int) -> ServedCertificate:
        return ServedCertificate(
            port=key.port,
            server_name=self._texts.of(key.name) if key.name_known else None,
            certificate=self._by_number[key.certificate],
            chain=None if value.chain < 0 else value.chain,
            count=value.count,
            unsuccessful=value.unsuccessful,
            last_s=(wall_ns + value.last_ns) / 1e9,
            process=ProcessLabel(key.tgid, self._name_of(key.tgid)) if self._by_process else None,
        )


def _count(rows: Iterable[_Row]) -> int:
    return sum(value.count for _, value in rows)


def _signed(one: abi.Certificate) -> bytes:
    """The signed part; b"" of what is too long to be handed over."""
    return bytes(one.bytes[: one.length]) if one.length <= abi.CertificateSize.CERTIFICATE_MOST_BYTES else b""
