# SPDX-License-Identifier: Apache-2.0
"""The kernel side tells which way a branch goes as the processor does: every condition, with every combination of the flags."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.model.snapshot import Losses, Outcome, Target
from ssllatency.probes.plan import Role
from ssllatency.probes.planner import plan_image
from tests import machine
from tests.bpf.compiling import SOURCES
from tests.bpf.conftest import answering, counts

CONDITIONS = 16
CALLS = sum(number**2 for number in range(1, 33))  # of each function: once, four times, nine times … a combination


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    machine.needs_architecture("x86_64", "the only one on which a site's meaning depends on flags")
    path = tmp_path_factory.mktemp("conditions") / "conditions"
    subprocess.run(["gcc", "-O2", "-rdynamic", SOURCES / "conditions.c", "-o", path], check=True)
    return path


@pytest.fixture
def running(program: Path) -> Iterator[subprocess.Popen[str]]:
    with answering(program) as process:
        yield process


def held(running: subprocess.Popen[str]) -> dict[str, int]:
    """How often each function returned 1."""
    assert running.stdin
    assert running.stdout
    running.stdin.write("go\n")
    running.stdin.flush()
    lines = (running.stdout.readline().split() for _ in range(CONDITIONS))
    return {name: int(number) for name, number in lines}


def test_every_condition_with_all_flags(program: Path, running: subprocess.Popen[str]) -> None:
    plan = plan_image(Image.open(program))
    told = {probe.condition for each in plan.operations for probe in each.probes if probe.role is Role.EXIT}
    assert len(told - {""}) == CONDITIONS
    traced = TracedImage(plan, plan.path, (running.pid,))
    session = LibbpfEngine().attach(Request((traced,), (Target(running.pid, "conditions", ()),)))
    returned = held(running)
    session.detach()
    snapshot = session.read()
    session.close()
    found = counts(snapshot)
    assert len(set(returned.values())) == CONDITIONS
    assert {name: found.get((name, Outcome.SUCCESS), 0) for name in returned} == returned
    failed = {name: CALLS - number for name, number in returned.items()}
    assert {name: found.get((name, Outcome.FAILURE), 0) for name in returned} == failed
    assert snapshot.losses == Losses()
