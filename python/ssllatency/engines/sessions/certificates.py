# SPDX-License-Identifier: Apache-2.0
"""The certificates that servers serve, as the object handshakes tells of them: each once, and where it was served."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Collection

from ssllatency import abi
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.ring import Ring, ring_size
from ssllatency.engines.bpf.running import InFlight
from ssllatency.engines.clock import wall_clock_ns
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.model.certificates import CertificateFacts, ServedCertificate, SignedPart, summed
from ssllatency.model.handshakes import Label
from ssllatency.model.process_label import ProcessLabel

_NEW_BYTES = 256 << 10  # room for those that come between two looks, about 60
_MOST_KEPT = 4096  # certificates; those of processes that have ended among them
_MAPS = {"certificates": abi.CertificateSize.CERTIFICATES, "served": abi.CertificateSize.SERVED}


def _ring_bytes(request: HandshakeRequest) -> int:
    return ring_size(_NEW_BYTES) if request.read_certificates else mmap.PAGESIZE


def make_room(loaded: Loadable, request: HandshakeRequest) -> None:
    """Before loading: makes the maps as large as they have to be."""
    for name, entries in _MAPS.items():
        loaded.resize_map(name, entries if request.read_certificates else 1)
    loaded.resize_map("new_certificates", _ring_bytes(request))


class Certificates:
    """Those of a loaded object. `texts` has the names that clients asked for, `name_of` the names of processes. `untold`: the
    full handshakes, of those that served() was about, whose certificate couldn't be looked at."""

    def __init__(self, loaded: Loadable, request: HandshakeRequest, texts: Texts, name_of: Callable[[int], str]) -> None:
        size = ctypes.sizeof
        self._ring = Ring(loaded.map_fd("new_certificates"), _ring_bytes(request), size(abi.Certificate))
        self._known = loaded.map("certificates", size(abi.CertificateKey), 4)
        self._served = loaded.map("served", size(abi.ServedKey), size(abi.Served))
        self._read, self._texts, self._name_of = request.read_certificates, texts, name_of
        self._by_process = Label.PROCESS in request.by
        self._by_content: dict[SignedPart, CertificateFacts | None] = {}
        self._by_number: dict[int, CertificateFacts | None] = {}
        self.untold = 0

    def take(self) -> None:
        """Reads those that were handed over since the last time: each certificate once, whoever serves it."""
        raw = [(one.number, _signed(one), one.signature_length) for one in self._ring.records(abi.Certificate)]
        if not raw or self._read is None:
            return
        fresh = list(dict.fromkeys((signed, length) for _, signed, length in raw if (signed, length) not in self._by_content))
        if len(self._by_content) + len(fresh) > _MOST_KEPT:
            self._by_content.clear()
        self._by_content |= self._read(fresh)
        for number, signed, length in raw:
            if (signed, length) in self._by_content:
                self._by_number[number] = self._by_content[signed, length]

    def served(self) -> tuple[ServedCertificate, ...]:
        """The certificates that were served so far, and where."""
        if self._read is None:
            return ()
        rows = [
            (abi.ServedKey.from_buffer_copy(key), abi.Served.from_buffer_copy(value)) for key, value in self._served.items()
        ]
        self.take()  # those of these rows as well
        wall_ns = wall_clock_ns()
        told = [(key, value) for key, value in rows if key.certificate in self._by_number]
        self.untold = sum(value.count for _, value in rows) - sum(value.count for _, value in told)
        return summed(self._row(key, value, wall_ns) for key, value in told)

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

    def forget(self, pids: Collection[int], in_flight: InFlight) -> None:
        """Frees what is kept of processes that have ended."""
        for table, kind, shared in (
            (self._served, abi.ServedKey, abi.Shared.SERVED),
            (self._known, abi.CertificateKey, abi.Shared.CERTIFICATES),
        ):
            for raw_key, raw in list(table.items()):
                pid = kind.from_buffer_copy(raw_key).tgid
                if pid in pids and table.delete(raw_key):
                    in_flight.give_back(pid, shared)
                    if table is self._known:
                        self._by_number.pop(int.from_bytes(raw, "little"), None)

    def close(self) -> None:
        """Frees the ring."""
        self._ring.close()


def _signed(one: abi.Certificate) -> bytes:
    """The signed part; b"" of what is too long to be handed over."""
    return bytes(one.bytes[: one.length]) if one.length <= abi.CertificateSize.CERTIFICATE_MOST_BYTES else b""
