# SPDX-License-Identifier: Apache-2.0
"""When packets and IDs are watched: once a server of QUIC was seen whose library may tell IDs, and for some time after the last
process of one has ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssllatency import abi
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.program_choice import PROGRAMS_OF_QUIC
from ssllatency.engines.base import AttachError
from ssllatency.engines.bpf.loadable import Closable, Loadable
from ssllatency.engines.sessions import quic
from ssllatency.engines.sessions.quic import QuicServers

NOBODY = 1 << 22  # no process has this number
LIVE = (6, 3)


class Refusing:
    """An attachment that keeps its links, but for those that are refused, and counts how often what tells IDs is attached. Of
    perf events it removes none."""

    def __init__(self, *refused: str) -> None:
        self.open: list[str] = []
        self.sites = 0
        self.tells = False
        self.refuse(*refused)

    def refuse(self, *refused: str) -> None:
        self._refused = refused

    def attach_tracepoint(self, program: str) -> Closable:
        if program in self._refused:
            raise OSError
        self.open.append(program)
        return cast("Closable", program)

    def attach_more(self, sites: Mapping[str, Any]) -> None:
        if "sites" in self._refused:
            raise AttachError("refused")
        assert sites == {"at_message": []}
        assert not self.tells
        self.sites += 1
        self.tells = True

    def remove_programs(self, programs: Collection[str]) -> bool:
        assert programs == PROGRAMS_OF_QUIC
        self.tells &= "perf" in self._refused
        return not self.tells

    def remove_links(self, links: list[Closable]) -> None:
        self.open = [program for program in self.open if program not in cast("list[str]", links)]
        links.clear()


class Serving:
    """The table of processes that serve over QUIC."""

    def __init__(self) -> None:
        self.pids: set[int] = set()
        self.silent: set[int] = set()
        self.meanwhile: Callable[[], object] = list

    def map(self, name: str, _key: int, _value: int) -> Serving:
        assert name == "datagrams"
        return self

    def items(self) -> list[tuple[bytes, bytes]]:
        read = [(pid, abi.Datagrams(tells=int(pid not in self.silent))) for pid in self.pids]
        self.meanwhile()
        return [(pid.to_bytes(4, "little"), bytes(record)) for pid, record in read]

    def delete(self, raw_pid: bytes) -> None:
        self.pids.discard(int.from_bytes(raw_pid, "little"))


class Run:
    """Servers that are polled four times a second, the kernel side's counters, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *refused: str, ports: bool = True, wanted: bool = True) -> None:
        self.now_s = 1000.0
        self.links, self.serving = Refusing(*refused), Serving()
        self.counters = SimpleNamespace(over_quic=0, without_port=0, watches_packets_ns=0, watches_datagrams_ns=0)
        monkeypatch.setattr(quic, "time", self)
        monkeypatch.setattr(quic, "release", lambda: LIVE)
        self.servers = QuicServers(cast("Attachment", self.links), ports=ports, wanted=wanted)
        self.servers.begin(cast("Loadable", self.serving), cast("Any", self.counters))

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def go_on(self, seconds: float) -> None:
        for _ in range(int(4 * seconds)):
            self.now_s += 0.25
            self.servers.poll(lambda: {"at_message": []})

    def serve(self, pid: int) -> None:
        self.counters.over_quic += 1
        self.serving.pids.add(pid)

    def come_unseen(self) -> None:
        """One whose handshake is over, but that isn't in the table yet."""
        self.counters.over_quic += 1

    def serve_silently(self, pid: int) -> None:
        """By a library that tells no IDs."""
        self.counters.without_port += 1
        self.serving.pids.add(pid)
        self.serving.silent.add(pid)


def test_nothing_is_watched_before_a_server_of_quic_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    run.go_on(60)
    assert (run.links.open, run.links.sites, run.servers.watched) == ([], 0, False)
    run.serve(os.getpid())
    run.go_on(60)
    assert (run.links.open, run.links.sites, run.servers.watched) == (["at_packet"], 1, True)
    assert run.counters.watches_packets_ns > 1e12


def test_packets_are_watched_a_while_after_the_last_process_and_again_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    run.serve(NOBODY)
    run.go_on(9)
    assert run.links.open == ["at_packet"]
    run.serve(os.getpid())
    run.go_on(30)
    assert run.links.open == ["at_packet"]
    assert run.serving.pids == {os.getpid()}  # those that have ended make room
    run.servers.forget([os.getpid()])
    run.go_on(12)
    assert (run.links.open, run.counters.watches_packets_ns) == ([], 0)
    assert (run.links.tells, run.servers.watched) == (False, False)
    run.go_on(30)
    assert run.links.open == []
    run.serve(os.getpid())
    run.go_on(30)
    assert (run.links.open, run.links.sites, run.servers.watched) == (["at_packet"], 2, True)
    assert run.counters.watches_packets_ns > 1e12


def test_perf_events_that_tell_ids_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, "perf")
    for _ in range(2):
        run.serve(NOBODY)
        run.go_on(30)
        assert (run.links.open, run.links.sites, run.servers.watched) == ([], 1, True)
        assert run.counters.watches_packets_ns == 0


def test_a_server_that_comes_as_the_last_one_is_found_gone_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that the table has just been read."""
    run = Run(monkeypatch)
    run.serve(NOBODY)
    run.serving.meanwhile = run.come_unseen
    run.go_on(12)
    assert (run.links.open, run.links.sites) == (["at_packet"], 2)


def test_packets_of_servers_whose_library_tells_no_ids_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    run.serve_silently(os.getpid())
    run.serve_silently(NOBODY)
    run.go_on(30)
    assert (run.links.open, run.links.sites, run.servers.watched) == (["at_datagram"], 0, False)
    assert run.serving.pids == {os.getpid()}
    run.serve(NOBODY)
    run.go_on(5)
    assert (run.links.open, run.links.tells) == (["at_datagram", "at_packet"], True)
    run.go_on(20)  # the other one lives on
    assert (run.links.open, run.links.tells) == (["at_datagram"], False)


def test_servers_that_come_and_go_between_two_looks_are_watched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tells IDs isn't attached and removed for each of them."""
    run = Run(monkeypatch)
    for number in range(60):
        run.serve(NOBODY + number)
        run.go_on(1)
    assert (run.links.open, run.links.sites) == (["at_packet"], 1)


def test_what_is_in_the_way_of_a_later_server_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    run.serve(NOBODY)
    run.go_on(30)
    assert run.links.open == []
    run.links.refuse("sites")
    run.serve(os.getpid())
    run.go_on(5)
    assert (run.links.open, run.counters.watches_packets_ns) == ([], 0)
    run.links.refuse()
    run.go_on(20)
    assert (run.links.open, run.links.sites) == (["at_packet"], 2)


@pytest.mark.parametrize("refused", ["at_packet", "sites"])
def test_where_packets_cannot_tell_datagrams_are_watched(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    run = Run(monkeypatch, refused)
    run.serve(os.getpid())
    run.go_on(1)
    assert (run.counters.watches_packets_ns, run.links.open, run.servers.watched) == (1, [], False)
    run.counters.without_port = 1
    run.go_on(1)
    assert run.links.open == ["at_datagram"]
    assert run.counters.watches_datagrams_ns > 1e12


@pytest.mark.parametrize(("ports", "wanted", "due"), [(False, False, []), (False, True, ["at_packet"])])
def test_only_what_is_asked_for_is_watched(monkeypatch: pytest.MonkeyPatch, ports: bool, wanted: bool, due: list[str]) -> None:
    run = Run(monkeypatch, ports=ports, wanted=wanted)
    run.serve(os.getpid())
    run.counters.without_port = 1
    run.go_on(20)
    assert run.links.open == due
