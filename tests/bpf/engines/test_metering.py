# SPDX-License-Identifier: Apache-2.0
"""What tracing costs, on a program whose every call is known: hits are exact, and the others' are told apart."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from ssllatency import abi
from ssllatency.engines import choice
from ssllatency.engines.base import Rules, Side
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.process_slots import slot_of
from ssllatency.engines.cost.hits import possible_cores
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.model.arithmetic.snapshots import difference
from ssllatency.model.cost import TracingCost
from ssllatency.probes.costs import HitCosts
from ssllatency.probes.plan import Role
from tests.bpf.conftest import Subject, running

COSTS = HitCosts(optimised=100, emulated=1_000, single_stepped=10_000, returning=300, after_work=0)


def known() -> HitCosts:
    return COSTS


def measured(session: TraceSession) -> TracingCost:
    """Detaches, reads and closes the session."""
    session.attachment.processes.measure()
    session.detach()
    cost = session.read().cost
    session.close()
    assert cost is not None
    return cost


def hits_of_a_success(subject: Subject, operation: str) -> int:
    """How many probes a call of a function hits that succeeds by the only way out which its plan has."""
    [planned] = [planned for planned in subject.plan.operations if planned.operation == operation]
    if any(probe.role is Role.RETURN for probe in planned.probes):
        return 2
    [leaving] = [probe for probe in planned.probes if probe.role is Role.EXIT]
    return 2 + leaving.passed


@pytest.mark.parametrize("engine", ["libbpf", "bcc"])
def test_every_hit_is_counted(subject: Subject, engine: str) -> None:
    session = choice.engine(engine).attach(subject.request(hit_costs=known))
    assert isinstance(session, TraceSession)
    subject.do("calls", 1000)
    subject.do("forks", 3, 500)
    cost = measured(session)
    calls = 2 * 1000  # the children aren't traced: nobody is asked to follow
    assert cost.hits == calls * hits_of_a_success(subject, "RSA_sign")
    assert cost.kernel_ns >= calls * 1_000
    [process] = cost.processes
    assert (process.pid, process.hits, process.kernel_ns) == (subject.pid, cost.hits, cost.kernel_ns)
    assert sum(core.cost_ns for core in cost.cores) == pytest.approx(cost.total_ns, abs=kernel_rounding(cost))


def kernel_rounding(cost: TracingCost) -> int:
    """Each figure of run time is rounded by itself."""
    return len(cost.cores) + 1


def test_hits_of_each_method_are_counted(subject: Subject, method: str) -> None:
    session = subject.attach(method=method, hit_costs=known)
    subject.do("calls", 300)
    assert measured(session).hits == 600 * hits_of_a_success(subject, "RSA_sign")


def test_children_pay_as_well_and_count_when_they_have_ended(subject: Subject) -> None:
    session = subject.attach(follow=Rules(lambda: {subject.pid: False}), hit_costs=known)
    session.attachment.processes.measure()
    subject.do("forks", 4, 250)
    cost = measured(session)
    assert cost.hits == 1000 * hits_of_a_success(subject, "RSA_sign")
    assert cost.other_hits == 0


def test_who_is_not_traced_and_hits_shared_probes_is_told_apart(subject: Subject) -> None:
    with running(subject.plan) as other:
        session = subject.attach(links="shared", hit_costs=known)
        assert slot_of(subject.pid) != slot_of(other.pid), "their hits are counted together"
        subject.do("calls", 100)
        other.do("calls", 40)
        cost = measured(session)
    each = hits_of_a_success(subject, "RSA_sign")
    assert (cost.hits, cost.other_hits) == (200 * each, 80 * each)
    assert cost.other_ns >= 80 * each * 100


def test_with_links_of_its_own_nobody_else_pays(subject: Subject) -> None:
    if not kernel.filters_whole_processes():
        pytest.skip("links of each process aren't shared out to its threads by this kernel")
    with running(subject.plan) as other:
        session = subject.attach(links="process", hit_costs=known)
        subject.do("calls", 10)
        other.do("calls", 40)
        cost = measured(session)
    assert (cost.hits, cost.other_hits) == (20 * hits_of_a_success(subject, "RSA_sign"), 0)


def test_the_programs_run_time_and_the_processes_time_are_measured(subject: Subject) -> None:
    session = subject.attach(hit_costs=known)
    session.attachment.processes.measure()
    began = time.clock_gettime_ns((~subject.pid << 3) | 2)
    subject.do("calls", 20_000)
    used_ns = time.clock_gettime_ns((~subject.pid << 3) | 2) - began
    cost = measured(session)
    assert cost.run_ns is not None
    assert cost.run_ns > 0
    assert cost.cpu_ns is not None
    assert used_ns <= cost.cpu_ns <= used_ns * 1.5
    assert cost.run_ns < cost.cpu_ns


def test_nothing_is_said_where_the_cost_of_a_hit_is_not_known(subject: Subject) -> None:
    session = subject.attach(hit_costs=lambda: None)
    subject.do("calls", 10)
    session.detach()
    assert session.read().cost is None
    session.close()


def test_an_interval_has_its_own_cost(subject: Subject) -> None:
    session = subject.attach(hit_costs=known)
    subject.do("calls", 100)
    earlier = session.read(per_interval=True)
    subject.do("calls", 30)
    later = session.read(per_interval=True)
    session.close()
    cost = difference(later, earlier).cost
    assert cost is not None
    assert cost.hits == 60 * hits_of_a_success(subject, "RSA_sign")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_was_mapped_is_given_back_at_once(subject: Subject) -> None:
    """And not when Python gets to it: a map that is mapped is a descriptor, and memory of the kernel."""
    windows = kernel.best_method() is not kernel.Method.PERF

    def once() -> None:
        session = subject.attach(hit_costs=known, budget=0.5 if windows else None, role=Side.ANY)
        session.poll()
        session.close()

    once()
    before = descriptors()
    gc.disable()
    try:
        for _ in range(3):
            once()
        assert descriptors() == before
    finally:
        gc.enable()


def test_many_hits_wake_whoever_keeps_the_budget(subject: Subject) -> None:
    """A notice is of one process on one processor, each time that it has hit probes of one kind so many times more; the first
    one comes sooner."""
    session = subject.attach(hit_costs=known, follow=Rules(lambda: {subject.pid: False}))
    following = session.attachment.following
    assert following is not None
    a_call, a_notice = hits_of_a_success(subject, "RSA_sign"), abi.HitTable.HITS_A_NOTICE.value
    first, entries = abi.HitTable.HITS_FIRST_NOTICE.value, abi.Hit.HITS * possible_cores()
    subject.do("calls", first // (4 * a_call))  # of each of two kinds
    assert not following.wait(0)
    assert following.bursts == 0
    subject.do("calls", first * entries // a_call)  # with those before more than all of them have without a notice
    assert following.wait(0)
    assert following.bursts >= 1
    subject.do("calls", 4 * a_notice // a_call)
    assert following.wait(0)
    bursts, hits = following.bursts, measured(session).hits
    assert hits / a_notice - entries <= bursts <= hits / a_notice + entries
