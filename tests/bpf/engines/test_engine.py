# SPDX-License-Identifier: Apache-2.0
"""The engine on a program whose every call is known: counts, outcomes, losses, folding, and that nothing stays behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency import abi
from ssllatency.engines.attach.links import LINK_EACH_PROCESS
from ssllatency.engines.base import AttachError, Rules, Side, TracedImage
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.process_slots import SLOTS, slot_of
from ssllatency.engines.bpf.running import exists
from ssllatency.engines.follow.following import TargetBits, pids_of
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Losses, Outcome, Target
from ssllatency.probes.plan import FilePlan, Role, SslOffsets
from tests.bpf import scenarios
from tests.bpf.compiling import compiled
from tests.bpf.conftest import Subject, breakpoints, counts, running, running_as_one_of
from tests.bpf.native import own_programs
from tests.bpf.scenarios import finished
from tests.bpf.tracer import tracer
from tests.waiting import wait_for

SUCCESS, FAILURE, RETRY = Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY


def test_counts_and_outcomes_are_exact(subject: Subject, method: str) -> None:
    session = subject.attach(method=method)
    subject.do("calls", 5000)
    subject.do("recurse", 50)
    session.detach()
    subject.do("calls", 7)
    snapshot = session.read()
    session.close()
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 5000, ("RSA_sign", FAILURE): 5000, ("RSA_verify", SUCCESS): 50}
    assert snapshot.losses == Losses()
    assert snapshot.in_flight == 0


def test_only_the_programs_that_the_method_needs_are_loaded(subject: Subject, method: str) -> None:
    session = subject.attach(method=method)
    loaded = own_programs()
    session.close()
    returning = "at_both" if method == "session" else "at_return"
    returns = any(probe.role is Role.RETURN for planned in subject.plan.operations for probe in planned.probes)
    assert sorted(loaded) == sorted(("at_entry", "at_error", "at_exit", "at_free", *([returning] if returns else [])))


@pytest.mark.parametrize("later", [False, True], ids=["at the start", "later"])
def test_calls_made_while_probes_are_attached_one_by_one_are_no_losses(subject: Subject, method: str, later: bool) -> None:
    """At most the call that runs when the last probe is attached ends without having been seen to begin."""
    if later:
        session = subject.attach(method=method, follow=Rules(lambda: {subject.pid: False}), images=())
        subject.say("threads", 1, 400_000)
        session.extend(subject.request().images)
    else:
        subject.say("threads", 1, 400_000)
        session = subject.attach(method=method)
    snapshot = finished(session)
    assert subject.process.stdout
    assert subject.process.stdout.readline() == "done\n"
    assert snapshot.losses.unmatched_exits <= 1


def test_every_series_agrees_with_itself(subject: Subject) -> None:
    scenarios.every_series_agrees_with_itself(subject, subject.attach)


@pytest.mark.parametrize(
    ("returned", "outcome"), [(1, SUCCESS), (200, SUCCESS), (256, SUCCESS), (16384, SUCCESS), (0, RETRY), (-1, RETRY)]
)
def test_the_whole_return_value_is_judged(subject: Subject, returned: int, outcome: Outcome) -> None:
    """200 and 256 are the lengths whose lowest byte alone looks like a failure. Without an SSL the reason is unknown."""
    session = subject.attach(role=Side.ANY)
    subject.do("reads", 10, returned)
    snapshot = finished(session)
    assert counts(snapshot) == {("SSL_read", outcome): 10}
    assert all(one.reasons == ({} if outcome is SUCCESS else {"unknown": 10}) for one in snapshot.series)


def test_processes_that_are_noticed_later_push_out_none_that_the_kernel_has_added(subject: Subject, tmp_path: Path) -> None:
    """With one file named, a process counts in what was taken along from its first call of that file on: the kernel adds it."""
    named = replace(subject.request().images[0], pids=(os.getpid(),))
    other = replace(named.plan, build_id="of the other file")
    companion = replace(named, plan=other, file=shutil.copy(subject.plan.path, f"{tmp_path}/companion"), companion=True)
    session = subject.attach(everyone=True, links="shared", images=(named, companion), role=Side.ANY)
    targets = session.attachment.object.live_section("targets", TargetBits)
    subject.do("reads", 1, 1)
    assert subject.pid in pids_of(bytes(targets))
    session.attachment.admit(subject.pid ^ 1)
    assert subject.pid in pids_of(bytes(targets))
    session.close()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (0, SUCCESS),
        (0x22222220, SUCCESS),
        (0x22222222, SUCCESS),
        (0x33330000, SUCCESS),
        (0xBBBBBB00, SUCCESS),
        (1, FAILURE),
        (0x80000000, FAILURE),
        (0x22420000, FAILURE),
        (0xBBBBB800, FAILURE),
    ],
    ids=[
        "all lanes",
        "one lane used",
        "none used",
        "half used by a curve",
        "two used to sign",
        "mismatch",
        "bad signature in the last",
        "low order point",
        "bad signature beside unused lanes",
    ],
)
def test_a_batch_succeeds_when_no_used_lane_failed(subject: Subject, status: int, outcome: Outcome) -> None:
    session = subject.attach()
    subject.do("lanes", 10, status)
    snapshot = finished(session)
    assert counts(snapshot) == {("mbx_x25519_mb8", outcome): 10}


def test_threads_share_a_row_without_losing_a_call(subject: Subject, method: str) -> None:
    session = subject.attach(method=method)
    subject.do("threads", 16, 2000)
    snapshot = finished(session)
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 32000}
    assert snapshot.losses == Losses()


def test_more_calls_at_once_than_the_table_holds(subject: Subject) -> None:
    deep = abi.Table.STARTS + abi.Table.OVERFLOW // 2
    session = subject.attach()
    subject.do("recurse", deep)
    snapshot = finished(session)
    assert counts(snapshot) == {("RSA_verify", SUCCESS): deep}
    assert snapshot.losses == Losses()


def test_calls_that_find_no_room_are_counted_as_such(subject: Subject) -> None:
    deep = abi.Table.STARTS + abi.Table.OVERFLOW + 5000
    session = subject.attach()
    subject.do("recurse", deep)
    snapshot = finished(session)
    losses = snapshot.losses
    assert losses.map_full >= 5000
    assert counts(snapshot) == {("RSA_verify", SUCCESS): deep - losses.map_full}
    assert losses == Losses(map_full=losses.map_full, unmatched_exits=losses.map_full)


@pytest.mark.parametrize("chosen", [False, True], ids=["any PID", "a PID that the other has chosen"])
def test_one_process_leaves_room_for_the_calls_of_others(subject: Subject, chosen: bool) -> None:
    """It has as many calls under way as all tables hold, and another has thousands of its own."""
    deep, others = abi.Table.STARTS + abi.Table.OVERFLOW, (abi.Table.OVERFLOW - abi.Table.SHARE) // 2
    alike = range(subject.pid % SLOTS + SLOTS, 32768, SLOTS)  # which no kernel's PIDs end before
    pids = [pid for pid in alike if slot_of(pid) != slot_of(subject.pid) and not exists(pid)]
    with running_as_one_of(subject.plan, pids) if chosen else running(subject.plan) as other:
        both = TracedImage(subject.plan, subject.plan.path, (subject.pid, other.pid))
        session = LibbpfEngine().attach(
            replace(subject.request(), images=(both,), targets=tuple(Target(one.pid, "target", ()) for one in (subject, other)))
        )
        subject.say("hold", deep)
        deadline = time.monotonic() + 30
        while (before := session.read()).in_flight + before.losses.map_full < deep and time.monotonic() < deadline:
            time.sleep(0.1)
        other.do("recurse", others)
        subject.say("go on")
        assert subject.process.stdout
        assert subject.process.stdout.readline() == "done\n"
        snapshot = finished(session)
    seen = {series.pid: series.count for series in snapshot.series if series.function == "RSA_verify"}
    assert seen[other.pid] == others
    assert before.losses.map_full >= deep - abi.Table.STARTS - abi.Table.SHARE
    assert seen[subject.pid] == deep - before.losses.map_full


def test_the_calls_of_killed_processes_leave_their_room_to_others(subject: Subject) -> None:
    """Before anyone reads: else who starts processes one after the other takes the whole table, until a trace ends."""
    deep = abi.Table.STARTS + abi.Table.SHARE
    with ExitStack() as stack:
        greedy = [Subject(stack.enter_context(started(subject.plan)), subject.plan) for _ in range(2)]
        all_three = TracedImage(subject.plan, subject.plan.path, tuple(one.pid for one in (subject, *greedy)))
        session = subject.attach(images=(all_three,))
        for one in greedy:
            one.say("hold", deep)
        wait_for(lambda: (seen := session.read()).in_flight + seen.losses.map_full == 2 * deep, 30)
        before = session.read().losses.map_full
    subject.do("recurse", 1000)
    session.poll()
    subject.do("recurse", 100)
    snapshot = finished(session)
    refused = snapshot.losses.map_full - before
    assert 900 < refused <= 1000  # a slot of the table may be left that none of the greedy ones' calls could take
    assert counts(snapshot) == {("RSA_verify", SUCCESS): 1100 - refused}


@contextmanager
def started(plan: FilePlan) -> Iterator[subprocess.Popen[str]]:
    """The program, killed at the end."""
    with subprocess.Popen([plan.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_calls_left_by_longjmp_are_lost_entries(subject: Subject) -> None:
    session = subject.attach()
    subject.do("jump", 100)
    subject.do("recurse", 1)
    snapshot = finished(session)
    seen = counts(snapshot).get(("RSA_verify", SUCCESS), 0)
    assert seen == 1
    assert snapshot.losses.unmatched_entries + snapshot.in_flight == 100
    assert snapshot.losses.unmatched_exits == 0


def test_threads_that_end_inside_do_no_harm(subject: Subject) -> None:
    session = subject.attach()
    subject.do("exit", 20)
    subject.do("calls", 10)
    snapshot = finished(session)
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 10, ("RSA_sign", FAILURE): 10}
    assert snapshot.losses.unmatched_entries + snapshot.in_flight == 20


def test_a_call_that_runs_on_is_in_flight(subject: Subject) -> None:
    session = subject.attach()
    subject.say("block")
    deadline = 200
    while session.read().in_flight == 0 and deadline:
        deadline -= 1
    snapshot = finished(session)
    subject.do("go on")
    assert snapshot.in_flight == 1
    assert snapshot.losses == Losses()


def test_processes_past_the_maximum_count_under_other(subject: Subject) -> None:
    scenarios.processes_past_the_maximum_count_under_other(subject, subject.attach)


def test_a_child_isnt_counted_with_its_parent(subject: Subject, method: str) -> None:
    scenarios.a_child_isnt_counted_with_its_parent(subject, subject.attach, method=method)


def test_many_processes_share_a_link_and_are_still_told_apart(target_file: Path, target_plan: FilePlan) -> None:
    number = LINK_EACH_PROCESS + 2
    processes = [
        subprocess.Popen([target_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)
    ]
    subjects = [Subject(process, target_plan) for process in processes]
    try:
        assert all(process.stdout and process.stdout.readline() == "ready\n" for process in processes)
        traced = subjects[:-1]
        image = TracedImage(target_plan, target_plan.path, tuple(one.pid for one in traced))
        request = subjects[0].request(images=(image,), targets=tuple(Target(one.pid, "target", ()) for one in traced))
        session = LibbpfEngine().attach(request)
        for rank, one in enumerate(subjects):
            one.do("calls", 10 * (rank + 1))
        session.detach()
        snapshot = session.read()
        session.close()
    finally:
        for process in processes:
            process.communicate()
    wanted = {(one.pid, outcome): 10 * (rank + 1) for rank, one in enumerate(traced) for outcome in (SUCCESS, FAILURE)}
    assert {(one.pid, one.outcome): one.count for one in snapshot.series} == wanted
    assert snapshot.losses == Losses()


def test_intervals_add_up_and_keep_their_own_extremes(subject: Subject) -> None:
    scenarios.intervals_add_up_and_keep_their_own_extremes(subject, subject.attach)


def test_a_refused_site_leaves_nothing_attached(subject: Subject) -> None:
    broken = SslOffsets()
    plan = FilePlan("/proc/version", "", "", "static", subject.plan.operations, (), broken)
    with pytest.raises(AttachError) as caught:
        LibbpfEngine().attach(subject.request(images=(TracedImage(plan, "/proc/version", (subject.pid,)),)))
    assert "\n" not in str(caught.value)
    assert breakpoints(subject) == 0


def test_detached_and_killed_tracers_leave_no_breakpoint(subject: Subject) -> None:
    session = subject.attach()
    subject.do("calls", 1)
    assert breakpoints(subject) > 0
    session.detach()
    subject.do("calls", 1)
    assert breakpoints(subject) == 0
    session.close()
    with tracer(subject.plan, subject.pid) as process:
        assert breakpoints(subject) > 0
        process.kill()
        process.wait(30)
        subject.do("calls", 1)
        assert breakpoints(subject) == 0


def test_links_of_its_own_see_the_first_call_of_a_program_that_a_process_executes(target_plan: FilePlan, method: str) -> None:
    """They are attached before the program's file is mapped."""
    command = ["sh", "-c", 'read line; exec "$0"', target_plan.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        subject = Subject(process, target_plan)
        session = subject.attach(method=method, links="process")
        subject.say("go")
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        assert breakpoints(subject) > 0
        subject.do("calls", 100)
        session.detach()
        process.communicate()
    assert counts(session.read()) == {("RSA_sign", SUCCESS): 100, ("RSA_sign", FAILURE): 100}
    assert session.attachment.losses() == Losses()
    session.close()


@pytest.mark.parametrize(("links", "pays"), [("process", False), ("shared", True), ("auto", False)])
def test_another_process_has_breakpoints_only_where_links_are_shared(
    subject: Subject, target_plan: FilePlan, links: str, pays: bool
) -> None:
    with running(target_plan) as other:
        session = subject.attach(links=links)
        assert breakpoints(subject) > 0
        assert (breakpoints(other) > 0) == pays
        session.close()
        assert breakpoints(other) == 0


@pytest.mark.parametrize("method", ["multi", "session"], indirect=True)
def test_links_of_a_process_that_has_ended_are_closed(subject: Subject, target_plan: FilePlan, method: str) -> None:
    session = subject.attach(method=method, links="process", follow=Rules(lambda: {subject.pid: False}))
    before = own_links()
    with running(target_plan) as child:
        session.include(0, [child.pid])
        assert breakpoints(child) == breakpoints(subject)
        assert own_links() > before
    session.attachment.processes.release([child.pid])
    assert session.attachment.images[0].pids == (subject.pid,)
    wait_for(lambda: own_links() == before)
    subject.do("calls", 100)
    session.detach()
    assert counts(session.read())["RSA_sign", SUCCESS] == 100
    session.close()
    assert own_links() == set()


def own_links() -> set[str]:
    """The descriptors of this process that are links."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one by which this is read
            found |= {entry.name} if "bpf_link" in str(entry.readlink()) else set()
    return found


def test_perf_events_that_the_kernel_removes_slowly_count_nothing_more(subject: Subject) -> None:
    """A process of their own holds them until they are gone: who has detached doesn't wait."""
    session = subject.attach(method="perf")
    subject.do("calls", 10)
    session.detach()
    subject.do("calls", 7)
    snapshot = session.read()
    session.close()
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 10, ("RSA_sign", FAILURE): 10}
    assert snapshot.losses == Losses()
    wait_for(lambda: not breakpoints(subject))


def test_the_object_must_be_one(monkeypatch: pytest.MonkeyPatch, subject: Subject, tmp_path: Path) -> None:
    broken = tmp_path / "ssllatency.bpf.o"
    broken.write_bytes(b"not an object")
    monkeypatch.setattr("ssllatency.engines.bpf.objects.object_path", lambda _name: broken)
    with pytest.raises(SsllatencyError, match="can't open the BPF object"):
        subject.attach()


def test_floor_programs_attach_at_the_same_sites_and_count_nothing(subject: Subject, method: str) -> None:
    session = subject.attach(method=method, floor=True)
    subject.do("calls", 10)
    assert breakpoints(subject) > 0
    snapshot = session.read()
    session.close()
    assert snapshot.series == ()


def test_a_program_that_the_verifier_refuses_is_named_with_its_last_words(tmp_path: Path) -> None:
    """They are at the end of a listing that is longer than any usual message."""
    with (
        BpfObject(compiled("refused_probe.bpf.c", tmp_path), "refused_probe") as opened,
        pytest.raises(SsllatencyError, match=r"program reads_beyond_its_stack: [a-zA-Z]") as caught,
    ):
        opened.load()
    assert "\n" not in str(caught.value)
    assert "processed" not in str(caught.value)
