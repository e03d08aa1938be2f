# SPDX-License-Identifier: Apache-2.0
"""Single calls of a program whose every call is known: each once, what the filter asks for, and what was dropped counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssllatency import abi
from ssllatency.engines.base import AttachError, Side, TracedImage
from ssllatency.engines.bpf.ring import stride_of
from ssllatency.engines.sessions.snoop import EventFilter, SnoopSession, events_of
from ssllatency.model.events import Call, Caller, Event, Returned
from ssllatency.model.snapshot import Losses, Outcome
from ssllatency.probes.plan import FilePlan, SslOffsets
from tests.bpf.conftest import Subject

SUCCESS, FAILURE, RETRY = Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY
EVERYTHING = EventFilter()
ONE_PAGE = 4096


@contextmanager
def snooping(
    subject: Subject,
    wanted: EventFilter = EVERYTHING,
    ring_bytes: int = 1 << 22,
    **more: object,
) -> Iterator[SnoopSession]:
    session = SnoopSession(subject.request(**more), wanted, ring_bytes)
    try:
        session.attach()
        yield session
    finally:
        session.close()


def events(session: SnoopSession) -> list[Event]:
    """All that wait in the ring."""
    return [event for batch in session.batches() for event in events_of(batch)]


def calls(session: SnoopSession, found: list[Event]) -> Counter[tuple[str, Outcome]]:
    named = (session.keys.call(event[5]) for event in found)
    return Counter((call.function, call.outcome) for call in named)


def test_every_call_is_one_event(subject: Subject, method: str) -> None:
    with snooping(subject, method=method) as session:
        subject.do("calls", 5000)
        subject.do("recurse", 50)
        session.detach()
        subject.do("calls", 7)
        found = events(session)
        assert session.read().losses == Losses()
        assert session.read().in_flight == 0
        assert events(session) == []
    wanted = {("RSA_sign", SUCCESS): 5000, ("RSA_sign", FAILURE): 5000, ("RSA_verify", SUCCESS): 50}
    assert calls(session, found) == wanted
    assert {session.keys.caller(event[4]) for event in found} == {Caller(subject.pid, subject.pid, "target")}
    assert [event[0] for event in found] == sorted(event[0] for event in found)
    assert all(event[1] < event[0] for event in found)


def test_an_event_says_what_the_call_returned(subject: Subject) -> None:
    with snooping(subject, role=Side.ANY) as session:
        subject.do("reads", 3, 200)
        subject.do("reads", 2, -1)
        subject.do("lanes", 1, 0x22222220)
        session.detach()
        found = events(session)
    told = [(session.keys.call(event[5]), event[2] & 0xFFFFFFFF, event[3]) for event in found]
    read = Call("SSL_read", Returned.NUMBER, SUCCESS, ""), 200, 200
    again = Call("SSL_read", Returned.NUMBER, RETRY, "unknown"), 0xFFFFFFFF, -1
    assert told == [read] * 3 + [again] * 2 + [(Call("mbx_x25519_mb8", Returned.STATUS, SUCCESS, ""), 0x22222220, -1)]


@pytest.mark.parametrize("outcomes", [{SUCCESS}, {FAILURE}, {RETRY}, {SUCCESS, RETRY}, set()])
def test_the_kernel_leaves_other_outcomes_out(subject: Subject, outcomes: set[Outcome]) -> None:
    with snooping(subject, EventFilter(outcomes=frozenset(outcomes)), role=Side.ANY) as session:
        subject.do("calls", 40)
        subject.do("reads", 30, -1)
        session.detach()
        found = calls(session, events(session))
        assert session.read().losses == Losses()
    everything = {("RSA_sign", SUCCESS): 40, ("RSA_sign", FAILURE): 40, ("SSL_read", RETRY): 30}
    assert found == {key: number for key, number in everything.items() if key[1] in outcomes}


def test_the_kernel_leaves_quick_calls_out(subject: Subject) -> None:
    """A call that lasts as long as we let it, among others that take microseconds."""
    minimum_ns = 300_000_000
    with snooping(subject, EventFilter(minimum_ns)) as session:
        subject.do("calls", 200)
        subject.say("block")
        while session.read().in_flight == 0:
            pass
        session.wait(minimum_ns / 1e9)
        subject.do("go on")
        session.detach()
        found = events(session)
    assert calls(session, found) == {("RSA_verify", SUCCESS): 1}
    assert found[0][1] >= minimum_ns


def test_what_finds_no_room_is_dropped_and_counted(subject: Subject) -> None:
    room = ONE_PAGE // stride_of(abi.EventSize.SHORT)
    with snooping(subject, ring_bytes=ONE_PAGE) as session:
        seen = dropped = 0
        for number in (10, 1000, 3, 500):
            subject.do("calls", number)
            found = events(session)
            was, dropped = dropped, session.events_dropped
            assert len(found) + dropped - was == 2 * number
            assert room - 1 <= len(found) <= room or (len(found) == 2 * number and dropped == was)
            seen += len(found)
        session.detach()
        assert session.read().losses == Losses(events_dropped=dropped)
        assert seen + dropped == 2 * 1513
        assert dropped > 2000


def test_a_ring_that_fills_wakes_the_reader(subject: Subject) -> None:
    with snooping(subject, ring_bytes=16 * ONE_PAGE) as session:
        subject.do("calls", 300)  # more than a quarter of the ring
        assert session.wait(60)
        assert len(events(session)) == 600
        assert not session.wait(0)


def test_threads_are_told_apart_and_none_of_their_calls_is_lost(subject: Subject, method: str) -> None:
    with snooping(subject, method=method) as session:
        subject.do("threads", 16, 1000)
        session.detach()
        found = events(session)
        assert session.read().losses == Losses()
    callers = Counter(session.keys.caller(event[4]) for event in found)
    assert sorted(callers.values()) == [1000] * 16
    assert {caller.pid for caller in callers} == {subject.pid}
    assert subject.pid not in {caller.tid for caller in callers}


def test_everyone_means_processes_that_start_later_too(subject: Subject) -> None:
    with snooping(subject, everyone=True) as session:
        subject.do("forks", 5, 100)
        session.detach()
        found = events(session)
    callers = Counter(session.keys.caller(event[4]).pid for event in found)
    assert sorted(callers.values()) == [100] * 5
    assert subject.pid not in callers


def test_a_refused_site_leaves_nothing_open(subject: Subject) -> None:
    plan = FilePlan("/proc/version", "", "", "static", subject.plan.operations, (), SslOffsets())
    with pytest.raises(AttachError), snooping(subject, images=(TracedImage(plan, "/proc/version", (subject.pid,)),)):
        pass


def test_descriptors_are_given_back(subject: Subject) -> None:
    with snooping(subject):
        before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with snooping(subject):
            subject.do("calls", 1)
            assert len(list(Path("/proc/self/fd").iterdir())) == before
