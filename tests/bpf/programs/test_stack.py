# SPDX-License-Identifier: Apache-2.0
"""No program runs on a private stack, which a preemptible kernel would let another thread's program overwrite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency.engines import trial
from ssllatency.engines.bcc_engine import BccObject
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.objects import open_object
from ssllatency.host.kernel import release
from ssllatency.host.preemption import gives_private_stacks
from tests.bpf.compiling import compiled
from tests.bpf.native import has_private_stack, native_code


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[BpfObject]:
    with BpfObject(compiled("stack_probe.bpf.c", tmp_path), "stack_probe") as opened:
        opened.load()
        yield opened


def test_a_private_stack_is_recognised(probe: BpfObject) -> None:
    code = native_code(probe.program_fd("unguarded"))
    assert code
    assert has_private_stack(code) == gives_private_stacks(os.uname().machine, release())


def test_a_tail_call_that_is_never_made_keeps_the_threads_stack(probe: BpfObject) -> None:
    code = native_code(probe.program_fd("guarded"))
    assert code
    assert not has_private_stack(code)


@pytest.mark.parametrize("name", trial.OBJECTS)
def test_no_program_of_an_object_has_a_private_stack(name: str, method: str) -> None:
    with open_object(name) as opened:
        loaded = trial.load(opened, kernel.Method(method))
        codes = {each: native_code(opened.program_fd(each)) for each in loaded}
    assert codes
    assert all(codes.values())
    assert [each for each, code in codes.items() if has_private_stack(code)] == []


def test_no_program_of_bcc_has_a_private_stack() -> None:
    opened = BccObject()
    try:
        names = list(opened.program_names())
        for each in names:
            opened.choose_program(each, load=True)
        opened.load()
        codes = {each: native_code(opened.program_fd(each)) for each in names}
    finally:
        opened.close()
    assert all(codes.values())
    assert [each for each, code in codes.items() if has_private_stack(code)] == []
