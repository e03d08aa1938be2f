# SPDX-License-Identifier: Apache-2.0
"""Clients at the far end of a link hold their own clock against the tool's parts, handshake by handshake: the sum of the parts
from the ClientHello's arrival, and whose time they say it was. A cause is planted in the network, the clients or the server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.live.clients.stamped import Stamping, Stamps, stamped
from tests.live.commands.handshakes import MEANWHILE, Shake, Shakes, assert_books
from tests.live.links.agreement import Compared, compare, summary
from tests.live.links.link import TO_CLIENT, Link, Segment, awake
from tests.live.links.served import SERVERS, STALL_S, Served
from tests.live.servers.queues import neighbours, quota, stopped_often
from tests.waiting import meanwhile

pytestmark = pytest.mark.usefixtures("tracing")
SHARE = 0.05  # of the clients' time, within which shares of it agree
WRITE_AFTERWARDS = ("asyncio", "node")  # a flight after its call, so that their own time passes for the client's
MOST = 0.6  # of the handshakes agree by themselves, also where processes are kept from their processors
FEW = 0.1  # may differ for what neither sees, the kernel's own delays for instance
OWN_SOCKETS = ("nginx", "nginx-ecdsa", "threads", "late-to-accept")  # the library reads them itself
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
    "near": Case(Stamping(times=20, between_s=0.003), servers=(*SERVERS_OF_MOST, "nginx-ecdsa")),
    "near-1.3": Case(Stamping(times=20, between_s=0.003, version="TLSv1_3"), servers=("nginx", "nginx-ecdsa")),
    "far": Case(Stamping(times=10), {"delay_s": 0.01}),
    "far-1.3": Case(Stamping(times=10, version="TLSv1_3"), {"delay_s": 0.01}, servers=("nginx", "threads")),
    "slow-client": Case(Stamping(times=5, think_s=0.15)),
    "1-client": Case(Stamping(times=30)),
    "10-clients": Case(Stamping(clients=10, times=8)),
    "50-clients": Case(Stamping(clients=50, times=3)),
    "quota": Case(Stamping(clients=10, times=4), plant=to_each(lambda pid: quota(pid, 0.2)), servers=("nginx", "threads")),
    "neighbour": Case(Stamping(times=20), plant=lambda *_: neighbours(*SERVERS_OWN, 2)),
    "blocked-loop": Case(Stamping(times=20), plant=stalls, servers=("nginx", "asyncio")),
    "stopped": Case(
        Stamping(times=20, between_s=0.013),
        plant=to_each(lambda pid: stopped_often(pid, 0.03, 0.015)),
        servers=("nginx", "threads"),
    ),
    "full-backlog": Case(Stamping(clients=8, times=4), servers=("late-to-accept",)),
    "loss": Case(Stamping(times=40), {"delay_s": 0.005, "loss": 0.03}, servers=("nginx", "threads")),
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
def series(certificates: Path) -> Series:
    """By server, the handshakes of all its cases, as one trace has them."""
    return cache(lambda server: measured(server, certificates))


def measured(server: str, certificates: Path) -> dict[str, list[Compared]]:
    """The server is at its end of the link, on a processor of its own; all else is on the others."""
    cases = {name: case for name, case in CASES.items() if server in case.servers}
    stamps: list[Stamps] = []
    segments: dict[str, list[Segment]] = {}
    with awake(), Link() as link, ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, ALL_PROCESSORS)
        with link.at_server():
            os.sched_setaffinity(0, SERVERS_OWN)
            served = stack.enter_context(SERVERS[server](certificates))
        os.sched_setaffinity(0, OTHERS)
        with Shakes(served.pid, options=("--by", "sni", "--max-groups", "256")) as shakes:
            before = [] if server in OWN_SOCKETS else learn(link, served)
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


def learn(link: Link, served: Served) -> list[Stamps]:
    """Handshakes from which the tool learns that the server reads its sockets itself, or blocks in them, before those of the
    cases."""
    stamps: list[Stamps] = []
    for _ in range(2):
        stamps += run(link, served, Case(Stamping(times=4, think_s=0.01)))
        time.sleep(0.3)
    return stamps


def pairs(*cases: str, servers: Iterable[str] = SERVERS) -> pytest.MarkDecorator:
    """Each case with each of these servers that it is for; those of a server one after the other."""
    each = [(server, case) for server in servers for case in cases if server in CASES[case].servers]
    return pytest.mark.parametrize(("server", "case"), each)


@pairs(*CASES)
def test_the_parts_come_to_what_each_client_waited(series: Series, server: str, case: str) -> None:
    compared = series(server)[case]
    print(summary(compared))
    impossible = [each for each in compared if not each.is_possible]
    assert len(impossible) <= FEW * len(compared)
    assert sum(each.agrees for each in compared) >= MOST * len(compared)


@pairs(*CASES)
def test_whose_time_it_was(series: Series, server: str, case: str) -> None:
    """The network's, the client's or the server's. Where a server was kept from its processor after a flight had left, its time
    runs beside theirs. Of what is lost on the way to it, a server knows nothing."""
    compared = [each for each in series(server)[case] if not each.lost]
    widen = 2 if server in WRITE_AFTERWARDS else 1
    assert [each for each in compared if each.part("wait_peer_or_server")] == []
    assert sum(each.is_shared_alike(widen) for each in compared) >= MOST * len(compared)


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
