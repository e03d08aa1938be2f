# SPDX-License-Identifier: Apache-2.0
"""The certificates that servers serve, as the object handshakes tells of them: each once, and where it was served."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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

_NEW_BYTES = 512 << 10  # room for those that come between two looks, about 60
_MOST_KEPT = 4096  # certificates; those of processes that have ended among them
_MANY_NEW = 256  # so many, or this long after the last time, it is seen which processes ended
_LOOK_S = 10.0
_IDLE_NS = 3600 * 10**9  # what wasn't served for so long makes room, where a process has used more than half of its share
_MOST_WAITING, _TRIES = 64, 3  # certificates that no answer came about, as where no process could be started
_Row = tuple[abi.ServedKey, abi.Served]
_Known = tuple[bytes, int, int]  # the key of a certificate, its process and its number
_Read = Callable[[Sequence[SignedPart]], Mapping[SignedPart, CertificateFacts | None]]
_Waiting = tuple[int, SignedPart, int]  # the certificate's number, what was signed of it, and how often it is to be tried
_MAPS = dict.fromkeys(("certificates", "served"), abi.CertificateSize.CERTIFICATES)


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

    def known(self) -> list[_Known]:
        return [
            (key, abi.CertificateKey.from_buffer_copy(key).tgid, int.from_bytes(number, "little"))
            for key, number in self._known.items()
        ]

    def take_idle(self, before_ns: int, settled: int) -> list[_Row]:
        """Frees what wasn't served since then by processes that use more than half of their share: where it was served. Numbers
        after `settled` are left, as their first handshake may not be in the table yet."""
        rows, known, most = self.served(), self.known(), abi.CertificateSize
        full = _over(Counter(key.tgid for key, _ in rows), most.SERVED_OF_PROCESS // 2)
        full |= _over(Counter(pid for _, pid, _ in known), most.CERTIFICATES_OF_PROCESS // 2)
        fresh = {key.certificate for key, value in rows if value.last_ns >= before_ns}
        return self._free(
            [row for row in rows if row[0].tgid in full and row[1].last_ns < before_ns],
            [one for one in known if one[1] in full and 0 < one[2] <= settled and one[2] not in fresh],
        )

    def take_out(self, pids: Collection[int]) -> list[_Row]:
        """Frees what is kept of processes that have ended: where they had served certificates."""
        if not pids:
            return []
        return self._free(
            [row for row in self.served() if row[0].tgid in pids], [one for one in self.known() if one[1] in pids]
        )

    def _free(self, served: Iterable[_Row], known: Iterable[_Known]) -> list[_Row]:
        """Frees these, and gives back their processes' room: those of `served` that were still there."""
        taken = []
        for key, value in served:
            if self._served.delete(bytes(key)):
                self._in_flight.give_back(key.tgid, abi.Shared.SERVED)
                taken.append((key, value))
        for raw_key, pid, _ in known:
            if self._known.delete(raw_key):
                self._in_flight.give_back(pid, abi.Shared.CERTIFICATES)
        return taken


class _Answers:
    """The answers of the process that reads certificates, by their number."""

    def __init__(self, read: _Read) -> None:
        self._read = read
        self._by_content: dict[SignedPart, CertificateFacts | None] = {}
        self._by_number: dict[int, CertificateFacts | None] = {}
        self._left: list[_Waiting] = []

    def ask(self, new: Iterable[tuple[int, SignedPart]]) -> None:
        """Ask about those, and once more about what no answer came about."""
        asked = [*self._left, *((number, signed, _TRIES) for number, signed in new)]
        if not asked:
            return
        if len(self._by_content) + len(asked) > _MOST_KEPT:
            self._by_content.clear()
        fresh = list(dict.fromkeys(signed for _, signed, _ in asked if signed not in self._by_content))
        self._by_content |= self._read(fresh) if fresh else {}
        self._by_number |= {number: self._by_content[signed] for number, signed, _ in asked if signed in self._by_content}
        left = [(number, signed, tries - 1) for number, signed, tries in asked if signed not in self._by_content and tries > 1]
        self._left = left[:_MOST_WAITING]

    def pending(self) -> set[int]:
        """Return the numbers of those about which it is asked once more."""
        return {number for number, _, _ in self._left}

    def get(self, number: int) -> CertificateFacts | None:
        """The facts of a certificate; None of one that couldn't be read, or that no answer came about."""
        return self._by_number.get(number)

    def keep(self, numbers: Collection[int], after: int) -> int:
        """Forget all others, up to the number `after`. Returns the last that is kept, `after` where none is."""
        self._by_number = {number: one for number, one in self._by_number.items() if number in numbers or number > after}
        return max(self._by_number, default=after)


class Certificates:
    """Those of a loaded object. `texts` has the names that clients asked for, `name_of` the names of processes. `untold`: the
    full handshakes, of those that served() was about, that aren't kept any more, or whose certificate wasn't read. `pending`:
    those that the last served() left out, as it is asked once more which certificate theirs is.

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
        self._is_asked = request.read_certificates is not None
        self._answers = _Answers(request.read_certificates or (lambda _: {}))
        self._texts, self._name_of, self._alive = texts, name_of, alive
        self._by_process = Label.PROCESS in request.by
        self._of_ended: tuple[ServedCertificate, ...] = ()
        self.untold = self.pending = 0
        self._new, self._looked_s = 0, time.monotonic()
        self._settled = 0  # the last number that was known the last time

    def take(self) -> None:
        """Reads those that were handed over since the last time: each certificate once, whoever serves it."""
        if not self._is_asked:
            return
        self._take_new()
        if self._new >= _MANY_NEW or time.monotonic() - self._looked_s >= _LOOK_S:
            self._new, self._looked_s = 0, time.monotonic()
            settled = self._settled
            known, pending = self._tables.known(), self._answers.pending()
            waiting = {pid for _, pid, number in known if number in pending}  # theirs is told in the next look, or then not
            gone = {pid for pid in {pid for _, pid, _ in known} - waiting if not self._alive(pid)}
            self._add_ended(self._take_out(gone))
            self._add_ended(self._tables.take_idle(time.monotonic_ns() - _IDLE_NS, settled))

    def served(self) -> tuple[ServedCertificate, ...]:
        """The certificates that were served so far, and where; what is told of a handshake once doesn't change later."""
        rows = self._tables.served()
        self._take_new()  # those of these rows as well
        pending = self._answers.pending()
        self.pending = sum(value.count for key, value in rows if key.certificate in pending)
        return summed([*self._of_ended, *self._told(row for row in rows if row[0].certificate not in pending)])

    def forget(self, pids: Collection[int]) -> None:
        """Frees what is kept of processes that have ended."""
        forgotten = self._told(self._take_out(pids))
        forgotten += [one for one in self._of_ended if one.process and one.process.pid in pids]
        self.untold += sum(one.count for one in forgotten if one.certificate is None)
        self._of_ended = tuple(one for one in self._of_ended if one.process is None or one.process.pid not in pids)

    def close(self) -> None:
        """Frees the ring."""
        self._ring.close()

    def _take_new(self) -> None:
        new = [(one.number, (_signed(one), one.signature_length)) for one in self._ring.records(abi.Certificate)]
        self._new += len(new)
        self._answers.ask(new)

    def _take_out(self, pids: Collection[int]) -> list[_Row]:
        """Frees what the kernel keeps of processes that have ended; their certificates stay known until the next time."""
        self._take_new()  # what they had handed over last, too
        numbers, settled = {number for _, _, number in self._tables.known()}, self._settled  # later ones may not be there yet
        numbers |= {key.certificate for key, _ in self._tables.served()}
        self._settled = self._answers.keep(numbers, settled)
        return self._tables.take_out(pids)

    def _add_ended(self, rows: list[_Row]) -> None:
        if not rows:
            return
        kept = sorted(summed([*self._of_ended, *self._told(rows)]), key=lambda one: -one.last_s)
        self.untold += sum(one.count for one in kept[_MOST_KEPT:])
        self._of_ended = tuple(kept[:_MOST_KEPT])

    def _told(self, rows: Iterable[_Row]) -> list[ServedCertificate]:
        """Return the rows. A certificate that no answer came about couldn't be read, and may have replaced another."""
        wall_ns = wall_clock_ns()
        return [self._row(key, value, wall_ns) for key, value in rows]

    def _row(self, key: abi.ServedKey, value: abi.Served, wall_ns: int) -> ServedCertificate:
        certificate = self._answers.get(key.certificate)
        return ServedCertificate(
            port=key.port,
            server_name=self._texts.of(key.name) if key.name_known else None,
            certificate=certificate,
            chain=None if value.chain < 0 else value.chain,
            count=value.count,
            unsuccessful=value.unsuccessful,
            last_s=(wall_ns + value.last_ns) / 1e9,
            process=ProcessLabel(key.tgid, self._name_of(key.tgid)) if self._by_process else None,
            chain_bytes=_chain_bytes(value, certificate),
        )


def _over(held: Counter[int], most: int) -> set[int]:
    return {pid for pid, count in held.items() if count > most}


def _chain_bytes(value: abi.Served, certificate: CertificateFacts | None) -> int | None:
    """The bytes of a certificate and of those that were sent with it."""
    if certificate is None or value.chain < 0 or (value.chain and not value.chain_bytes):
        return None
    return certificate.size + int(value.chain_bytes)


def _signed(one: abi.Certificate) -> bytes:
    """The signed part; b"" of what is too long to be handed over."""
    return bytes(one.bytes[: one.length]) if one.length <= abi.CertificateSize.CERTIFICATE_MOST_BYTES else b""
