# SPDX-License-Identifier: Apache-2.0
"""A file that isn't what it was when it was planned gets no breakpoint, by whichever engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.engines.base import AttachError, Request
from ssllatency.engines.bcc_engine import BccEngine
from ssllatency.engines.bpftrace.engine import BpftraceEngine
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.engines.source import Engine
from ssllatency.probes.planner import plan_image
from tests.bpf.conftest import Subject, breakpoints, running

ENGINES: dict[str, Callable[[], Engine]] = {"libbpf": LibbpfEngine, "bcc": BccEngine, "bpftrace": BpftraceEngine}


@pytest.fixture
def changed(target_file: Path) -> Iterator[Subject]:
    """A running program whose file had other code when it was planned: one bit of one function."""
    plan = plan_image(Image.open(target_file))
    first, *others = plan.code
    code = bytearray(target_file.read_bytes()[first.offset : first.offset + first.size])
    code[-1] ^= 1
    earlier = replace(first, digest=hashlib.sha256(code).hexdigest())
    with running(replace(plan, code=(earlier, *others))) as subject:
        yield subject


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_was_overwritten_gets_no_breakpoint(changed: Subject, engine: str) -> None:
    with pytest.raises(AttachError, match="was overwritten"):
        ENGINES[engine]().attach(changed.request())
    assert breakpoints(changed) == 0
    changed.do("calls", 3)


def test_a_plan_that_names_a_site_of_its_own_is_refused(subject: Subject, method: str) -> None:
    """As a kept plan might that somebody else has written."""
    plan, operations = subject.plan, list(subject.plan.operations)
    probe = replace(operations[0].probes[0], offset=operations[0].probes[0].offset + 0x100000)
    operations[0] = replace(operations[0], probes=(probe, *operations[0].probes[1:]))
    request: Request = subject.request(method=method)
    poisoned = replace(request.images[0], plan=replace(plan, operations=tuple(operations)))
    with pytest.raises(AttachError, match="wasn't confirmed"):
        LibbpfEngine().attach(replace(request, images=(poisoned,)))
    assert breakpoints(subject) == 0
