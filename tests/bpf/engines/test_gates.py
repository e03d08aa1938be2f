# SPDX-License-Identifier: Apache-2.0
"""Probes that come and go while a program's calls go on: what began while they were there is counted, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from ssllatency.engines import choice
from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.base import AttachError, Rules, Side
from ssllatency.engines.bpf import kernel
from ssllatency.engines.budget.gates import resume
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.model.snapshot import Losses, Outcome
from ssllatency.probes.costs import HitCosts
from ssllatency.stacks.operation import Tier
from tests.bpf.conftest import Subject, breakpoints, counts, running
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(kernel.best_method() is kernel.Method.PERF, reason="this kernel has no links that come and go")

WIDE = 0.99  # a budget that nothing exceeds: only the test opens and shuts
BELOW = [Tier.BELOW]


def attach(subject: Subject, engine: str = "libbpf", **more: object) -> TraceSession:
    request = subject.request(budget=WIDE, hit_costs=lambda: HitCosts(1, 1, 1, 1, 0), role=Side.ANY, **more)
    session = choice.engine(engine).attach(request)
    assert isinstance(session, TraceSession)
    return session


def busy_until(subject: Subject, session: TraceSession, over: Callable[[], bool]) -> int:
    """Has the program read until then, for a minute at most; how many calls it made."""
    calls, deadline = 0, time.monotonic() + 60
    while not over() and time.monotonic() < deadline:
        subject.do("reads", 10_000, 1)
        calls += 10_000
        session.poll()
    return calls


@pytest.mark.parametrize("engine", ["libbpf", "bcc"])
def test_only_calls_within_windows_count_and_the_others_pay_nothing(subject: Subject, engine: str) -> None:
    session = attach(subject, engine)
    whole = breakpoints(subject)
    expected = 0
    for _ in range(3):
        subject.do("calls", 100)
        expected += 100
        session.attachment.stop_counting(BELOW)
        subject.do("calls", 50)
        assert session.attachment.is_quiet(BELOW)
        assert session.attachment.finish(Tier.BELOW) == 0
        assert breakpoints(subject) < whole
        subject.do("calls", 70)
        resume(session.attachment, BELOW)
        assert breakpoints(subject) == whole
    subject.do("reads", 10, 1)
    snapshot = session.read()
    session.close()
    assert counts(snapshot) == {
        ("RSA_sign", Outcome.SUCCESS): expected,
        ("RSA_sign", Outcome.FAILURE): expected,
        ("SSL_read", Outcome.SUCCESS): 10,
    }
    assert snapshot.losses == Losses()


def test_a_site_that_is_told_of_is_there(subject: Subject) -> None:
    """By the breakpoint at it a file is known that comes by another name."""
    session = attach(subject)
    assert session.attachment.site_in(0) is not None
    offsets = {
        probe.offset for planned in subject.plan.operations if planned.operation != "SSL_read" for probe in planned.probes
    }
    session.attachment.stop_counting([Tier.DATA])
    session.attachment.finish(Tier.DATA)
    assert session.attachment.site_in(0) in offsets
    session.attachment.stop_counting(BELOW)
    session.attachment.finish(Tier.BELOW)
    assert session.attachment.site_in(0) is None
    session.close()


def attach_and_hold(subject: Subject, depth: int) -> TraceSession:
    """A session whose tier is shut while so many calls run."""
    session = attach(subject)
    subject.say("hold", depth)
    while session.attachment.is_quiet(BELOW):
        pass
    session.attachment.stop_counting(BELOW)
    return session


def let_go(subject: Subject) -> None:
    """Has these calls return."""
    subject.say("")
    assert subject.process.stdout
    assert subject.process.stdout.readline() == "done\n"


def test_a_call_that_began_before_may_end_after(subject: Subject) -> None:
    session = attach_and_hold(subject, 3)
    assert not session.attachment.is_quiet(BELOW)
    let_go(subject)
    assert session.attachment.is_quiet(BELOW)
    assert session.attachment.finish(Tier.BELOW) == 0
    assert counts(session.read())["RSA_verify", Outcome.SUCCESS] == 3
    session.close()


def test_a_call_that_never_ends_is_given_up_and_told_of(subject: Subject) -> None:
    session = attach_and_hold(subject, 3)
    given_up = session.attachment.finish(Tier.BELOW)
    assert given_up == 3
    resume(session.attachment, BELOW)
    let_go(subject)
    subject.do("recurse", 2)
    snapshot = session.read()
    session.close()
    assert counts(snapshot)["RSA_verify", Outcome.SUCCESS] == 2
    assert snapshot.losses == Losses()


def test_files_that_come_while_a_tier_is_shut_are_watched_when_it_opens(subject: Subject) -> None:
    [image] = subject.request().images
    session = attach(subject, images=(), wait=True, follow=Rules(lambda: {subject.pid: False}))
    session.attachment.stop_counting(BELOW)
    session.attachment.finish(Tier.BELOW)
    session.extend([image])
    subject.do("calls", 10)
    resume(session.attachment, BELOW)
    subject.do("calls", 5)
    snapshot = session.read()
    session.close()
    assert counts(snapshot).get(("RSA_sign", Outcome.SUCCESS)) == 5


def test_what_costs_too_much_goes_into_windows_and_is_estimated(subject: Subject) -> None:
    costs = HitCosts(optimised=1_000, emulated=1_000, single_stepped=1_000, returning=1_000, after_work=0)
    session = choice.engine("libbpf").attach(subject.request(budget=0.1, hit_costs=lambda: costs, role=Side.ANY))
    assert isinstance(session, TraceSession)
    calls = busy_until(subject, session, lambda: any(part.windows > 1 for part in session.read().sampling))
    session.detach()
    snapshot = session.read()
    session.close()
    sampled = [part for part in snapshot.sampling if "SSL_read" in part.functions]
    assert sampled
    assert sampled[0].watched_s < sampled[0].duration_s
    [estimate] = sampled[0].estimates
    observed = counts(snapshot)["SSL_read", Outcome.SUCCESS]
    assert 0 < observed < calls
    assert observed <= estimate.count.value
    assert snapshot.losses == Losses()


def test_probes_that_cannot_come_back_end_the_windows_and_not_the_run(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = HitCosts(optimised=1_000, emulated=1_000, single_stepped=1_000, returning=1_000, after_work=0)
    session = choice.engine("libbpf").attach(subject.request(budget=0.1, hit_costs=lambda: costs, role=Side.ANY))
    assert isinstance(session, TraceSession)

    def refuse(*_: object) -> None:
        raise AttachError("the file has changed.")

    monkeypatch.setattr(session.attachment, "set_probes", refuse)
    busy_until(subject, session, lambda: bool(session.attachment.notes))
    subject.do("calls", 10)
    session.detach()
    snapshot = session.read()
    session.close()
    assert snapshot.notes[0] == "What was watched in windows isn't watched any more: the file has changed."
    assert counts(snapshot)["RSA_sign", Outcome.SUCCESS] == 10
    [sampled] = snapshot.sampling
    assert sampled.duration_s < snapshot.duration_s


def test_links_of_ended_processes_are_closed_after_windows_as_well(subject: Subject) -> None:
    if not kernel.filters_whole_processes():
        pytest.skip("links of each process aren't shared out to its threads by this kernel")
    with running(subject.plan) as other:
        [image] = subject.request().images
        session = attach(subject, links="process", images=(replace(image, pids=(subject.pid, other.pid)),))
        for pid in (other.pid, subject.pid):
            session.attachment.stop_counting(BELOW)
            session.attachment.finish(Tier.BELOW)
            resume(session.attachment, BELOW)
            session.attachment.processes.release([pid])
        wait_for(lambda: breakpoints(other) == breakpoints(subject) == 0)
        subject.do("calls", 10)
        assert counts(session.read()) == {}
        session.close()


@pytest.mark.parametrize("method", ["perf", "session"])
def test_what_can_not_come_back_is_given_up_where_it_costs_too_much(subject: Subject, method: str) -> None:
    """Handshakes' functions as well, in the end: nothing costs more than was asked for."""
    if kernel.lacks(kernel.Method(method)):
        pytest.skip(f"this kernel can't attach by {method}")
    request = subject.request(budget=0.01, hit_costs=lambda: HitCosts(10**6, 10**6, 10**6, 1, 0), role=Side.ANY, method=method)
    session = choice.engine("libbpf").attach(request)
    assert isinstance(session, TraceSession)
    busy_until(subject, session, lambda: any("was given up" in note for note in session.read().notes))
    session.attachment.counters.unmatched_exits = 0
    before = counts(session.read())
    subject.do("reads", 100, 1)
    after = session.read()
    session.close()
    assert counts(after) == before
    [sampling] = after.sampling
    assert sampling.functions == ("SSL_read",)
    assert sampling.watched_s < sampling.duration_s


def test_reads_and_writes_are_held_back_until_all_else_is_attached(subject: Subject) -> None:
    request = subject.request(budget=WIDE, hit_costs=lambda: HitCosts(1, 1, 1, 1, 0), role=Side.ANY)
    session = TraceSession(Attachment(request, "ssllatency"), "libbpf")
    session.attach(begin_windows=False)
    subject.do("reads", 10, 1)
    subject.do("calls", 5)
    assert ("SSL_read", Outcome.SUCCESS) not in counts(session.read())
    assert session.attachment.held == [Tier.DATA]
    session.begin_windows()
    assert not session.attachment.held
    subject.do("reads", 7, 1)
    snapshot = session.read()
    session.close()
    assert counts(snapshot)["SSL_read", Outcome.SUCCESS] == 7
    assert counts(snapshot)["RSA_sign", Outcome.SUCCESS] == 5
    assert snapshot.losses == Losses()


def test_others_that_hit_the_same_probes_are_spared(subject: Subject) -> None:
    """The traced process does nothing: a stranger that reads all the time is who the budget is kept for."""
    request = subject.request(budget=0.01, hit_costs=lambda: HitCosts(10**5, 10**5, 10**5, 1, 0), role=Side.ANY, links="shared")
    with running(subject.plan) as other:
        session = choice.engine("libbpf").attach(request)
        assert isinstance(session, TraceSession)
        busy_until(other, session, lambda: any(part.watched_s < part.duration_s for part in session.read().sampling))
        sampled = session.read().sampling
        session.close()
    assert sampled


def test_where_the_cost_of_a_hit_is_not_known_that_of_another_machine_serves(subject: Subject) -> None:
    request = subject.request(budget=0.0001, hit_costs=lambda: None, role=Side.ANY)
    session = choice.engine("libbpf").attach(request)
    assert isinstance(session, TraceSession)
    busy_until(subject, session, lambda: bool(session.read().sampling))
    sampled = session.read().sampling
    session.close()
    assert sampled
