# SPDX-License-Identifier: Apache-2.0
"""Certificates as they come out of the kernel's tables: also of ended processes, and what can't be looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.running import InFlight
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions import certificates
from ssllatency.engines.sessions.certificates import Certificates
from ssllatency.engines.sessions.handshake_request import HandshakeRequest
from ssllatency.model.certificates import CertificateFacts, Issuer, SignedPart, since
from ssllatency.model.handshakes import Label

FACTS = CertificateFacts("a.example", 1, 0, 1, "R 1", Issuer.OTHER, "RSA-2048", "01", 1391)
PORT = 443


class Table(dict[bytes, bytes]):
    """A hash map of the kernel's."""

    def delete(self, key: bytes) -> bool:
        return self.pop(key, None) is not None


class Kernel:
    """What the programs do: a process serves a certificate."""

    def __init__(self, by: tuple[Label, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        self.known, self.served = Table(), Table()
        self.ring: list[abi.Certificate] = []
        self.alive: set[int] = set()
        self.held: dict[tuple[int, abi.Shared], int] = {}
        self.answers, self.asked = True, 0
        monkeypatch.setattr(certificates, "Ring", lambda *_: self)
        tables = {"certificates": self.known, "served": self.served}
        loaded = SimpleNamespace(map_fd=lambda _: 0, map=lambda name, *_: tables[name])
        request = SimpleNamespace(read_certificates=self.read, by=by)
        self.certificates = Certificates(
            cast(Loadable, loaded),
            cast(HandshakeRequest, request),
            Texts(lambda: ()),
            lambda _: "postgres",
            cast(InFlight, self),
            self.alive.__contains__,
        )

    def records(self, _kind: object) -> Iterator[abi.Certificate]:
        """Those that wait in the ring."""
        while self.ring:
            yield self.ring.pop(0)

    def read(self, signed: Sequence[SignedPart]) -> Mapping[SignedPart, CertificateFacts | None]:
        """What the process that reads them answers."""
        self.asked += 1
        return dict.fromkeys(signed, FACTS) if self.answers else {}

    def give_back(self, pid: int, table: abi.Shared) -> None:
        """Has the process hold one less."""
        self.held[pid, table] -= 1

    def serve(self, pid: int, number: int, count: int = 1, signed: bytes = b"signed", signature: int = 0) -> None:
        """A process that hasn't any certificate serves its first."""
        self.alive.add(pid)
        key = abi.CertificateKey(tgid=pid, signature_length=64)
        key.signature[:4] = signature.to_bytes(4, "little")
        self.known[bytes(key)] = number.to_bytes(4, "little")
        one = abi.Certificate(number=number, length=len(signed), signature_length=64)
        one.bytes[: len(signed)] = signed
        self.ring.append(one)
        served = abi.ServedKey(tgid=pid, certificate=number, port=PORT)
        self.served[bytes(served)] = bytes(abi.Served(count=count, last_ns=number * 10**9, chain=1))
        self.held |= {(pid, abi.Shared.CERTIFICATES): 1, (pid, abi.Shared.SERVED): 1}


@pytest.fixture
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(getattr(request, "param", ()), monkeypatch)


def count_of(kernel: Kernel) -> int:
    """The full handshakes that are told."""
    return sum(one.count for one in kernel.certificates.served())


def look(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes what came, and looks which processes have ended."""
    monkeypatch.setattr(certificates, "_LOOK_S", 0.0)
    kernel.certificates.take()


def test_of_processes_that_have_ended_the_counts_stay_and_the_rooms_are_freed(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in range(100, 110):
        kernel.serve(pid, number=pid)
    kernel.alive -= {*range(100, 109)}
    look(kernel, monkeypatch)
    assert (len(kernel.known), len(kernel.served)) == (1, 1)
    assert sum(kernel.held.values()) == 2
    (one,) = kernel.certificates.served()
    assert (one.certificate, one.count, one.port) == (FACTS, 10, PORT)
    assert kernel.certificates.untold == 0


def test_many_new_ones_are_reason_enough_to_look(kernel: Kernel) -> None:
    for pid in range(1, 1 + certificates._MANY_NEW):
        kernel.serve(pid, number=pid)
    kernel.alive.clear()
    kernel.certificates.take()
    assert not kernel.known
    assert count_of(kernel) == certificates._MANY_NEW


@pytest.mark.parametrize("kernel", [(Label.PROCESS,)], indirect=True)
def test_those_of_a_process_are_forgotten_with_it(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.serve(100, number=1)
    kernel.serve(101, number=2)
    kernel.serve(102, number=3)
    kernel.alive -= {100, 101}
    look(kernel, monkeypatch)
    assert {one.process.pid for one in kernel.certificates.served() if one.process} == {100, 101, 102}
    kernel.certificates.forget({100})
    kernel.serve(103, number=4)
    kernel.certificates.forget({103})
    assert {one.process.pid for one in kernel.certificates.served() if one.process} == {101, 102}


@pytest.mark.parametrize("kernel", [(Label.PROCESS,)], indirect=True)
def test_what_is_kept_of_ended_processes_is_bounded(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_MOST_KEPT", 4)
    for pid in range(100, 110):
        kernel.serve(pid, number=pid, count=2)
    kernel.alive.clear()
    look(kernel, monkeypatch)
    assert {one.process.pid for one in kernel.certificates.served() if one.process} == {106, 107, 108, 109}
    assert (count_of(kernel), kernel.certificates.untold) == (8, 12)


def facts(kernel: Kernel) -> list[CertificateFacts | None]:
    """The certificates that are told, each once."""
    return [one.certificate for one in kernel.certificates.served()]


def test_what_no_answer_comes_about_is_asked_again(kernel: Kernel) -> None:
    kernel.answers = False
    kernel.serve(100, number=1, count=3)
    kernel.serve(101, number=2, signed=b"")
    assert (facts(kernel), kernel.certificates.pending) == ([], 4)
    kernel.answers = True
    assert (facts(kernel), kernel.certificates.pending) == ([FACTS], 0)
    assert (count_of(kernel), kernel.certificates.untold) == (4, 0)


def test_a_process_that_ended_meanwhile_keeps_its_rows_until_the_answer(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.answers = False
    kernel.serve(100, number=1, count=3)
    kernel.alive.clear()
    look(kernel, monkeypatch)
    kernel.answers = True
    look(kernel, monkeypatch)
    assert not kernel.served
    assert (facts(kernel), count_of(kernel), kernel.certificates.untold) == ([FACTS], 3, 0)


def test_a_late_answer_takes_no_count_back(kernel: Kernel) -> None:
    """Else intervals would have handshakes twice, and a counter of those without a certificate would fall."""
    kernel.serve(100, number=1, count=5)
    before = kernel.certificates.served()
    kernel.answers = False
    kernel.serve(101, number=2, count=3, signed=b"another")
    between = kernel.certificates.served()
    kernel.answers = True
    after = kernel.certificates.served()
    intervals = since(between, before), since(after, between)
    assert [sum(one.count for one in told or ()) for told in intervals] == [0, 3]
    assert None not in facts(kernel)


def test_nobody_is_asked_about_what_is_known(kernel: Kernel) -> None:
    """A server that forks for each connection has the same certificate under a new number each time."""
    for pid in (100, 101):
        kernel.serve(pid, number=pid)
        assert facts(kernel)[-1] == FACTS
    assert kernel.asked == 1


def test_where_too_many_are_kept_the_known_are_asked_about_again(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_MOST_KEPT", 1)
    kernel.serve(100, number=1, signed=b"known")
    assert facts(kernel) == [FACTS]
    kernel.serve(101, number=2, signed=b"known")
    kernel.serve(102, number=3, signed=b"new")
    assert facts(kernel) == [FACTS] * len(facts(kernel))


def test_it_is_asked_three_times_and_stays_unread(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.answers = False
    kernel.serve(100, number=1, count=3)
    assert [facts(kernel) for _ in range(3)] == [[], [], [None]]
    kernel.answers = True
    assert facts(kernel) == [None]
    kernel.serve(101, number=2, signed=b"another")
    assert facts(kernel) == [FACTS, None]
    kernel.alive -= {100}
    look(kernel, monkeypatch)
    assert (count_of(kernel), kernel.certificates.untold) == (4, 0)


@pytest.mark.parametrize("kernel", [(Label.PROCESS,)], indirect=True)
def test_unread_ones_of_a_forgotten_process_are_untold(kernel: Kernel) -> None:
    kernel.answers = False
    kernel.serve(100, number=1, count=3)
    kernel.certificates.forget({100})
    assert (count_of(kernel), kernel.certificates.untold) == (0, 3)


def test_what_a_live_process_serves_no_more_makes_room(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where each of its certificates is valid for an hour: else its last ones would never be told."""
    most = abi.CertificateSize.CERTIFICATES_OF_PROCESS
    second = 10**9
    for number in range(1, most + 1):
        kernel.serve(100, number, signature=number)
    kernel.serve(101, number=most + 1)
    kernel.held[100, abi.Shared.CERTIFICATES] = kernel.held[100, abi.Shared.SERVED] = most
    monkeypatch.setattr(certificates.time, "monotonic_ns", lambda: certificates._IDLE_NS + (most - 9) * second)
    for _ in range(2):  # numbers are settled at the second look
        look(kernel, monkeypatch)
    assert len(kernel.served) == len(kernel.known) == 10 + 1
    assert kernel.held[100, abi.Shared.CERTIFICATES] == kernel.held[100, abi.Shared.SERVED] == 10
    assert kernel.held[101, abi.Shared.CERTIFICATES] == 1, "it has room"
    assert (count_of(kernel), kernel.certificates.untold) == (most + 1, 0)


def test_numbers_are_forgotten_once_no_table_has_them(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in range(100, 130):
        kernel.serve(pid, number=pid)
        look(kernel, monkeypatch)
        kernel.alive -= {pid}
    look(kernel, monkeypatch)
    assert len(kernel.certificates._answers._by_number) <= 2
    assert count_of(kernel) == 30
