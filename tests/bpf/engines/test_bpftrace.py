# SPDX-License-Identifier: Apache-2.0
"""The bpftrace engine on a program of our own: every call once, under the right outcome and bucket, losses counted."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.engines.base import AttachError, LinearRange, Request, TracedImage
from ssllatency.engines.bpftrace.engine import BpftraceEngine, BpftraceSession
from ssllatency.engines.bpftrace.process import OWN_PROBES
from ssllatency.errors import SsllatencyError
from ssllatency.host import kernel
from ssllatency.model.snapshot import Losses, Outcome, Snapshot, Target
from ssllatency.probes.plan import FilePlan
from ssllatency.probes.planner import plan_image
from tests.bpf.compiling import SOURCES
from tests.bpf.conftest import Subject, breakpoints, counts, running
from tests.bpf.native import has_private_stack, loaded_programs
from tests.bpf.scenarios import assert_agrees_with_itself
from tests.bpf.tracer import tracer
from tests.waiting import wait_for

SUCCESS, FAILURE, RETRY, CLOSED, _ = Outcome
MOST_LOST = 4
pytestmark = pytest.mark.usefixtures("bpftrace")


@pytest.fixture
def plan(target_file: Path) -> FilePlan:
    return plan_image(Image.open(target_file))


@pytest.fixture(scope="module")
def stripped_plan(tmp_path_factory: pytest.TempPathFactory) -> FilePlan:
    """The same program with addresses that are no file offsets."""
    file = tmp_path_factory.mktemp("moved") / "target"
    flags = ["-O2", "-fstack-protector-strong", "-rdynamic", "-pthread", "-no-pie", "-Wl,-Ttext-segment=0x7000000"]
    subprocess.run(["gcc", *flags, SOURCES / "target.c", "-o", file], check=True)
    subprocess.run(["strip", file], check=True)
    plan = plan_image(Image.open(file))
    assert all(probe.address != probe.offset for planned in plan.operations for probe in planned.probes)
    return plan


@contextmanager
def traced(plan: FilePlan, **more: object) -> Iterator[tuple[Subject, BpftraceSession]]:
    with running(plan) as subject, ExitStack() as stack:
        session = BpftraceEngine().attach(subject.request(**more))
        stack.callback(session.close)
        yield subject, session


def result(session: BpftraceSession) -> Snapshot:
    session.detach()
    return session.read()


def test_outcomes_reasons_and_histograms(plan: FilePlan) -> None:
    linear = LinearRange(0, 10, 2)
    with traced(plan, linear=linear) as (subject, session):
        subject.do("calls", 100)
        subject.do("reads", 3, 256)
        subject.do("reads", 4, -1)
        subject.do("lanes", 5, 0xBBBB3300)
        subject.do("lanes", 6, 0x00000001)
        snapshot = result(session)
    assert counts(snapshot) == {
        ("RSA_sign", SUCCESS): 100,
        ("RSA_sign", FAILURE): 100,
        ("SSL_read", SUCCESS): 3,
        ("SSL_read", RETRY): 4,
        ("mbx_x25519_mb8", SUCCESS): 5,
        ("mbx_x25519_mb8", FAILURE): 6,
    }
    assert snapshot.losses == Losses()
    assert snapshot.in_flight == 0
    for one in snapshot.series:
        assert_agrees_with_itself(one)
        assert sum(one.reasons.values()) == (4 if one.outcome is RETRY else 0)
    assert [one.reasons for one in snapshot.series if one.outcome is RETRY] == [{"unknown": 4}]


def test_a_stripped_program_whose_addresses_are_no_offsets(stripped_plan: FilePlan) -> None:
    with traced(stripped_plan) as (subject, session):
        subject.do("calls", 10)
        snapshot = result(session)
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 10, ("RSA_sign", FAILURE): 10}
    assert snapshot.losses == Losses()


def test_recursion_threads_and_calls_that_never_return(plan: FilePlan) -> None:
    """Threads that preempt one another may cost bpftrace single counts, as its report says: no map was full."""
    with traced(plan) as (subject, session):
        subject.do("recurse", 500)
        subject.do("threads", 8, 500)
        before = session.read()
        subject.do("jump", 20)
        subject.do("exit", 5)
        snapshot = result(session)
    found = counts(before)
    assert found.keys() == {("RSA_verify", SUCCESS), ("RSA_sign", SUCCESS)}
    assert found["RSA_verify", SUCCESS] == 500
    assert 4000 - MOST_LOST <= found["RSA_sign", SUCCESS] <= 4000
    assert before.losses == Losses()
    assert counts(snapshot) == counts(before)
    assert snapshot.losses.unmatched_entries + snapshot.in_flight == 25
    assert snapshot.losses.unmatched_exits == 0


def test_calls_that_find_no_room_are_counted_as_such(plan: FilePlan) -> None:
    with traced(plan) as (subject, session):
        subject.do("recurse", 20000)
        snapshot = result(session)
    losses = snapshot.losses
    assert losses.map_full == losses.unmatched_exits >= 20000 - 16384
    assert counts(snapshot) == {("RSA_verify", SUCCESS): 20000 - losses.map_full}


def test_only_the_processes_that_are_asked_for(plan: FilePlan) -> None:
    with running(plan) as other, traced(plan) as (subject, session):
        other.do("calls", 50)
        subject.do("forks", 2, 100)
        subject.do("calls", 3)
        snapshot = result(session)
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 3, ("RSA_sign", FAILURE): 3}
    assert {one.pid for one in snapshot.series} == {subject.pid}


def test_processes_that_are_looked_up(plan: FilePlan) -> None:
    with running(plan) as subject, ExitStack() as stack:
        image = TracedImage(plan, plan.path, (subject.pid, *range(2, 60)))
        session = BpftraceEngine().attach(replace(subject.request(), images=(image,)))
        stack.callback(session.close)
        subject.do("calls", 5)
        assert sum(counts(result(session)).values()) == 10


def test_processes_past_the_maximum_count_under_other(plan: FilePlan) -> None:
    with traced(plan, everyone=True, maximum_processes=3) as (subject, session):
        subject.do("forks", 8, 100)
        snapshot = result(session)
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 800}
    assert [one.count for one in snapshot.series if one.pid is None] == [500]
    assert snapshot.losses == Losses(folded_processes=5)
    assert len([target for target in snapshot.targets if target.comm == "target"]) == 4


def test_intervals_know_their_extremes_or_leave_them_out(plan: FilePlan) -> None:
    with traced(plan) as (subject, session):
        subject.do("calls", 100)
        first = session.read(per_interval=True)
        second = session.read(per_interval=True)
    assert [one.count for one in first.series] == [one.count for one in second.series] == [100, 100]
    assert all(one.max_ns is not None for one in first.series)
    assert all(one.max_ns is None and one.min_ns is None for one in second.series)


def test_a_site_that_cant_be_probed_leaves_nothing_attached(plan: FilePlan) -> None:
    strange = replace(plan, operations=tuple(_beyond(one) for one in plan.operations))
    with running(plan) as subject, pytest.raises(AttachError) as caught:
        BpftraceEngine().attach(replace(subject.request(), images=(TracedImage(strange, plan.path, (subject.pid,)),)))
    assert str(caught.value).startswith("bpftrace said: ")


def _beyond(planned):  # type: ignore[no-untyped-def]
    return replace(planned, probes=tuple(replace(probe, address=probe.address + (1 << 40)) for probe in planned.probes))


def test_without_bpftrace_it_says_so(plan: FilePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssllatency.engines.bpftrace.process.shutil.which", lambda *_, **__: None)
    request = Request((TracedImage(plan, plan.path, (os.getpid(),)),), (Target(os.getpid(), "x", ()),))
    with pytest.raises(SsllatencyError, match="isn't installed"):
        BpftraceEngine().attach(request)


def sites(subject: Subject) -> int:
    """How many sites there are to probe."""
    return sum(len(planned.probes) for planned in subject.plan.operations)


def folders(pid: int) -> list[Path]:
    """What a tracer keeps among the temporary files."""
    return list(Path(tempfile.gettempdir()).glob(f"ssllatency-{pid}-*"))


def test_nothing_stays_when_it_is_closed_or_its_tracer_killed(plan: FilePlan) -> None:
    with running(plan) as subject:
        session = BpftraceEngine().attach(subject.request())
        assert breakpoints(subject) > 0
        session.close()
        assert breakpoints(subject) == 0
        with tracer(subject.plan, subject.pid, "bpftrace") as process:
            wait_for(lambda: breakpoints(subject) == sites(subject) and not folders(process.pid), 30)
            process.kill()
            process.wait(30)
            wait_for(lambda: breakpoints(subject) == 0, 30)
            assert not folders(process.pid)
            subject.do("calls", 1)


def test_symbols_of_another_build_are_not_taken(plan: FilePlan) -> None:
    """Nothing is probed in a file whose build-id isn't that of the plan."""
    other = replace(plan, build_id="00" * 20)
    with running(plan) as subject:
        with pytest.raises(AttachError, match=rf"set {OWN_PROBES} of |Could not resolve symbol"):
            BpftraceEngine().attach(replace(subject.request(), images=(TracedImage(other, plan.path, (subject.pid,)),)))
        assert breakpoints(subject) == 0


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64's native code is read")
def test_its_programs_run_on_private_stacks_where_the_kernel_has_them(plan: FilePlan) -> None:
    """Why the engine is refused on a preemptible kernel of that kind (doctor.py): its programs can't be kept from it."""
    with traced(plan) as (_, session):
        private = [name for name, code in loaded_programs() if has_private_stack(code)]
        session.detach()
    # Since Linux 6.13 (commit a76ab5731e32).
    assert bool(private) == (kernel.release() >= (6, 13, 0))
