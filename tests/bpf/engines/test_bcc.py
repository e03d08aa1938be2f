# SPDX-License-Identifier: Apache-2.0
"""The bcc engine on a program whose every call is known: exact as the default engine is, and it leaves nothing behind."""

from __future__ import annotations

import os
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.engines.base import AttachError, Side, TracedImage
from ssllatency.engines.bcc_engine import BccEngine
from ssllatency.engines.bpf import kernel
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.errors import SsllatencyError
from ssllatency.model.snapshot import Losses, Outcome
from ssllatency.probes.plan import FilePlan, SslOffsets
from ssllatency.probes.planner import plan_image
from ssllatency.probes.settings import PlanSettings
from tests.bpf import scenarios
from tests.bpf.conftest import Subject, breakpoints, counts
from tests.bpf.scenarios import finished
from tests.bpf.tracer import tracer

pytestmark = pytest.mark.skipif(
    not (find_spec("bcc") and Path("/lib/modules", os.uname().release, "build").exists()),
    reason="bcc, or the kernel headers that it needs, aren't installed",
)
SUCCESS, FAILURE, RETRY = Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY
TRACEFS = (Path("/sys/kernel/tracing/uprobe_events"), Path("/sys/kernel/debug/tracing/uprobe_events"))


@pytest.fixture
def target_plan(target_file: Path) -> FilePlan:
    return plan_image(Image.open(target_file))


def attach(subject: Subject, **more: object) -> TraceSession:
    return BccEngine().attach(subject.request(**more))


def named_events() -> list[str]:
    """What tracefs, where it is mounted, holds of uprobes: they would outlive the tracer."""
    return [line for path in TRACEFS if path.exists() for line in path.read_text().splitlines()]


@pytest.mark.parametrize("return_probes", [False, True], ids=["exit sites", "return probes"])
@pytest.mark.parametrize("method", ["perf", "multi"])
def test_counts_and_outcomes_are_exact(subject: Subject, method: str, return_probes: bool) -> None:
    subject.plan = plan_image(Image.open(subject.plan.path), PlanSettings(prefer_return_probes=return_probes))
    if method == "multi" and kernel.best_method() is kernel.Method.PERF:
        pytest.skip("this kernel has no multi attachment")
    before = named_events()
    session = attach(subject, method=method)
    subject.do("calls", 5000)
    subject.do("threads", 8, 1000)
    subject.do("recurse", 50)
    subject.do("lanes", 10, 0x22222221)
    assert named_events() == before
    session.detach()
    subject.do("calls", 7)
    snapshot = session.read()
    session.close()
    expected = {("RSA_sign", SUCCESS): 13000, ("RSA_sign", FAILURE): 5000, ("RSA_verify", SUCCESS): 50}
    assert counts(snapshot) == {**expected, ("mbx_x25519_mb8", FAILURE): 10}
    assert snapshot.losses == Losses()
    assert (snapshot.engine, snapshot.in_flight) == ("bcc", 0)


def test_every_series_agrees_with_itself(subject: Subject) -> None:
    scenarios.every_series_agrees_with_itself(subject, partial(attach, subject))


def test_reasons_of_calls_that_did_not_succeed(subject: Subject) -> None:
    session = attach(subject, role=Side.ANY)
    subject.do("reads", 10, 256)
    subject.do("reads", 20, -1)
    snapshot = finished(session)
    assert counts(snapshot) == {("SSL_read", SUCCESS): 10, ("SSL_read", RETRY): 20}
    assert [one.reasons for one in snapshot.series] == [{}, {"unknown": 20}]


def test_lost_and_running_calls_are_told(subject: Subject) -> None:
    session = attach(subject)
    subject.do("jump", 100)
    subject.do("recurse", 1)
    subject.say("block")
    for _ in range(200):
        if session.read().in_flight:
            break
    snapshot = finished(session)
    subject.do("go on")
    assert counts(snapshot) == {("RSA_verify", SUCCESS): 1}
    assert snapshot.losses.unmatched_entries + snapshot.in_flight == 101
    assert snapshot.losses.unmatched_exits == 0


def test_processes_past_the_maximum_count_under_other(subject: Subject) -> None:
    scenarios.processes_past_the_maximum_count_under_other(subject, partial(attach, subject))


def test_a_filter_in_the_program_leaves_children_out(subject: Subject) -> None:
    scenarios.a_child_isnt_counted_with_its_parent(subject, partial(attach, subject), links="shared")


def test_intervals_add_up_and_keep_their_own_extremes(subject: Subject) -> None:
    scenarios.intervals_add_up_and_keep_their_own_extremes(subject, partial(attach, subject))


def test_a_refused_site_leaves_nothing_attached(subject: Subject) -> None:
    before = named_events()
    plan = FilePlan("/proc/version", "", "", "static", subject.plan.operations, (), SslOffsets())
    for method in ("auto", "perf"):
        with pytest.raises(AttachError) as caught:
            attach(subject, images=(TracedImage(plan, "/proc/version", (subject.pid,)),), method=method)
        assert "\n" not in str(caught.value)
    assert breakpoints(subject) == 0
    assert named_events() == before


@pytest.mark.parametrize("method", ["auto", "perf"])
def test_a_killed_tracer_leaves_no_breakpoint(subject: Subject, method: str) -> None:
    with tracer(subject.plan, subject.pid, "bcc", method) as process:
        assert breakpoints(subject) > 0
        process.kill()
        process.wait(30)
        subject.do("calls", 1)
        assert breakpoints(subject) == 0


def test_what_bcc_cant_do_is_said(subject: Subject) -> None:
    with pytest.raises(AttachError, match="libbpf engine's only"):
        attach(subject, method="session")
    with pytest.raises(SsllatencyError, match="libbpf engine's only"):
        attach(subject, floor=True)


def test_a_program_that_doesnt_compile_is_one_sentence(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bcc").mkdir()
    (tmp_path / "bcc" / "ssllatency.bcc.c").write_text("int at_entry(void *ctx) { return nothing; }\n")
    monkeypatch.setattr("ssllatency.engines.bcc_engine.sources_path", lambda: tmp_path)
    with pytest.raises(SsllatencyError, match="use of undeclared identifier 'nothing'") as caught:
        attach(subject)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""
