# SPDX-License-Identifier: Apache-2.0
"""Clients at the far end of a link hold their own clock against the tool's parts, handshake by handshake: the sum of the parts
from the ClientHello's arrival, and whose time they say it was. A cause is planted in the network, the clients or the server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.live.clients.stamped import Stamping, Stamps, stamped
from tests.live.commands.handshakes import MEANWHILE, Shake, Shakes, assert_books
from tests.live.links.agreement import Compared, compare, summary
from tests.live.links.link import TO_CLIENT, Link, Segment, awake
from tests.live.links.served import SERVERS, STALL_S, Served
from tests.live.servers.queues import neighbours, quota, stopped_often
from tests.machine import NEEDS_QUIET
from tests.waiting import meanwhile

pytestmark = [pytest.mark.usefixtures("tracing"), NEEDS_QUIET]
KEPT = 0.15  # of the handshakes, or two, may be longer by the tool: a server kept from its processor behind its last byte
FEW = 0.1  # of them, or two, may differ for what neither sees, as a hypervisor that stops the link's processor
WRITE_AFTERWARDS = ("asyncio", "node")  # a flight after its call, so that their own time passes for the client's, ...
OFTEN = 0.2  # ... and in so many at most much of it, where they are kept from their processor in between
OWN_SOCKETS = ("nginx", "nginx-ecdsa", "threads", "late-to-accept")  # the library reads them itself
EVENT_LOOPS = ("nginx", "asyncio", "node")
SERVERS_OF_MOST = ("nginx", "threads", "haproxy", "apache", "asyncio", "node")
ALL_PROCESSORS = os.sched_getaffinity(0)
SERVERS_OWN = {max(ALL_PROCESSORS)}
OTHERS = ALL_PROCESSORS - SERVERS_OWN or ALL_PROCESSORS

Plant = Callable[[Link, Served], AbstractContextManager[object]]


def nothing(_link: Link, _served: Served) -> AbstractContextManager[object]:
    return nullcontext()


def to_each(plant: Callable[[int], AbstractContextManager[object]]) -> Plant:
    """What is done to each process that shakes hands."""

    @contextmanager
    def planted(_link: Link, served: Served) -> Iterator[None]:
        with ExitStack() as stack:
            for worker in served.workers:
                stack.enter_context(plant(worker))
            yield

    return planted


@contextmanager
def stalls(link: Link, served: Served) -> Iterator[None]:
    """Its event loop is blocked for two thirds of the time."""
    stall = served.stall
    assert stall

    def within() -> None:
        with link.at_server():
            stall()

    with meanwhile(within, STALL_S / 2):
        yield


@dataclass(frozen=True)
class Case:
    """What the clients do, how the link is, what is planted in the server, and in which servers."""

    stamping: Stamping
    link: Mapping[str, Any] = field(default_factory=dict)
    plant: Plant = nothing
    servers: tuple[str, ...] = SERVERS_OF_MOST


CASES = {
    "near": Case(Stamping(times=12, between_s=0.003), servers=(*SERVERS_OF_MOST, "nginx-ecdsa")),
    "near-1.3": Case(Stamping(times=12, between_s=0.003, version="TLSv1_3"), servers=("nginx", "threads", "nginx-ecdsa")),
    "far": Case(Stamping(clients=2, times=5), {"delay_s": 0.01}),
    "far-1.3": Case(Stamping(clients=2, times=5, version="TLSv1_3"), {"delay_s": 0.01}, servers=("nginx", "threads")),
    "slow-client": Case(Stamping(clients=5, times=2, think_s=0.15)),
    "1-client": Case(Stamping(times=20)),
    "10-clients": Case(Stamping(clients=10, times=5)),
    "50-clients": Case(Stamping(clients=50, times=2)),
    "quota": Case(Stamping(clients=10, times=2), plant=to_each(lambda pid: quota(pid, 0.2))),
    "neighbour": Case(Stamping(times=20), plant=lambda *_: neighbours(max(SERVERS_OWN), 2)),
    "blocked-loop": Case(Stamping(times=20), plant=stalls, servers=EVENT_LOOPS),
    "stopped": Case(Stamping(times=12, between_s=0.013), plant=to_each(lambda pid: stopped_often(pid, 0.03, 0.015))),
    "full-backlog": Case(Stamping(clients=8, times=3), servers=("late-to-accept",)),
    "loss": Case(Stamping(times=20), {"delay_s": 0.005, "loss": 0.03}),
}
# What the server's only thread did most while bytes lay in its sockets, beside what is meant to be there as well.
CAUSES = {
    "10-clients": ("queue_handshakes", ()),
    "50-clients": ("queue_handshakes", ()),
    "quota": ("queue_throttled", ("queue_handshakes",)),
    "blocked-loop": ("queue_other", ()),
    "stopped": ("queue_asleep", ()),
}


Series = Callable[[str], dict[str, list[Compared]]]


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, list[Compared]]]:
    """By server, what was measured."""
    return {}


@pytest.fixture
def series(request: pytest.FixtureRequest, kept: dict[str, dict[str, list[Compared]]], certificates: Path) -> Series:
    """By server, the handshakes of all its cases, as one trace has them; measured anew for a test that is run again."""

    def series_of(server: str) -> dict[str, list[Compared]]:
        if server not in kept or request.node.execution_count > 1:
            kept[server] = measured(server, certificates)
        return kept[server]

    return series_of


def measured(server: str, certificates: Path) -> dict[str, list[Compared]]:
    """The server is at its end of the link, on a processor of its own; all else is on the others."""
    cases = {name: case for name, case in CASES.items() if server in case.servers}
    stamps: list[Stamps] = []
    segments: dict[str, list[Segment]] = {}
    with awake(), ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, ALL_PROCESSORS)
        os.sched_setaffinity(0, OTHERS)
        link = stack.enter_context(Link())
        with link.at_server():
            os.sched_setaffinity(0, SERVERS_OWN)
            served = stack.enter_context(SERVERS[server](certificates))
        os.sched_setaffinity(0, OTHERS)
        with Shakes(served.pid, options=("--by", "sni", "--max-groups", "256")) as shakes:
            before = [] if server in OWN_SOCKETS else learn(shakes, link, served)
            for name, case in cases.items():
                stamps += run(link, served, case)
                segments[name] = link.segments()
    assert_books(shakes)
    singles = shakes.singles[len(before) :]
    assert len(singles) == len(stamps)
    return {name: taken(case, stamps, singles, segments[name]) for name, case in cases.items()}


def taken(case: Case, stamps: list[Stamps], singles: list[Shake], segments: Sequence[Segment]) -> list[Compared]:
    """The handshakes of the case, which are the first ones; they are taken out."""
    number = case.stamping.clients * case.stamping.times
    compared = compare(stamps[:number], singles[:number], segments, round(case.link.get("delay_s", 0.0) * 1e9))
    del stamps[:number], singles[:number]
    return compared


def run(link: Link, served: Served, case: Case) -> list[Stamps]:
    """The clients of a case."""
    link.set(**case.link)
    with case.plant(link, served), link.at_client():
        link.segments()
        return stamped(served.port, case.stamping, OTHERS)


def learn(shakes: Shakes, link: Link, served: Served) -> list[Stamps]:
    """Handshakes from which the tool learns that the server reads its sockets itself, or blocks in them, before those of the
    cases."""
    stamps: list[Stamps] = []

    def shake_hands() -> None:
        stamps.extend(run(link, served, Case(Stamping(times=4, think_s=0.01))))
        time.sleep(0.3)

    shake_hands()
    shakes.learn(shake_hands)
    return stamps


def pairs(*cases: str, servers: Iterable[str] = SERVERS) -> pytest.MarkDecorator:
    """Each case with each of these servers that it is for; those of a server one after the other."""
    each = [(server, case) for server in servers for case in cases if server in CASES[case].servers]
    return pytest.mark.parametrize(("server", "case"), each)


def assert_at_most(share: float, others: Sequence[Compared], compared: Sequence[Compared]) -> None:
    assert len(others) <= max(2, share * len(compared)), [each.single["parts_ns"] for each in others]


@pairs(*CASES)
def test_the_parts_come_to_what_each_client_waited(series: Series, server: str, case: str) -> None:
    compared = series(server)[case]
    print(summary(compared))
    assert_at_most(KEPT, [each for each in compared if not each.agrees], compared)
    if server not in WRITE_AFTERWARDS:
        assert_at_most(FEW, [each for each in compared if not each.is_possible], compared)


@pairs(*CASES)
def test_whose_time_it_was(series: Series, server: str, case: str) -> None:
    """The network's, the client's or the server's. Where a server was kept from its processor after a flight had left, its time
    runs beside theirs. Of what is lost on the way to it, a server knows nothing."""
    compared = [each for each in series(server)[case] if not each.lost]
    widen, share = (2, OFTEN) if server in WRITE_AFTERWARDS else (1, FEW)
    assert [each for each in compared if each.part("wait_peer_or_server")] == []
    assert_at_most(share, [each for each in compared if not each.is_shared_alike(widen)], compared)


@pairs(*CAUSES, servers=("nginx", "haproxy"))
def test_what_the_server_did_meanwhile(series: Series, server: str, case: str) -> None:
    """Beside waiting for its processor, which other work on the machine may have it do."""
    cause, also = CAUSES[case]
    compared = series(server)[case]
    times = {part: sum(each.part(part) for each in compared) for part in MEANWHILE if part not in (*also, "queue_runnable")}
    print(times)
    assert max(times, key=lambda part: times[part]) == cause


@pairs("loss")
def test_losses_are_told_where_the_link_lost_what_the_server_sent(series: Series, server: str, case: str) -> None:
    compared = series(server)[case]
    told = [each for each in compared if each.part("losses")]
    assert told
    assert [each for each in told if not each.lost] == []
    assert [each for each in compared if TO_CLIENT in each.lost_within and each not in told] == []
