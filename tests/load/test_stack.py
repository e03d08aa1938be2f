# SPDX-License-Identifier: Apache-2.0
"""No program runs on a private stack, which a preemptible kernel would let another thread's program overwrite."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ssllatency.engines import kernel
from ssllatency.engines.bcc_engine import BccObject
from ssllatency.engines.libbpf import BpfObject
from ssllatency.engines.loadable import Loadable
from ssllatency.engines.objects import open_object

from .native import has_private_stack, native_code
from .programs import compiled

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64's native code is read")
OBJECTS = ("ssllatency", "handshakes", "snoop", "follow")
SESSION_PROGRAMS = ("at_both", "at_nothing_twice")


def attach_types(names: list[str], tracepoints: set[str], method: kernel.Method) -> dict[str, int]:
    """The programs that are loaded for a way of attaching, each with its attach type."""
    multi = 0 if method is kernel.Method.PERF else kernel.TRACE_UPROBE_MULTI
    types = {name: 0 if name in tracepoints else multi for name in names}
    for name in SESSION_PROGRAMS:
        if types.pop(name, None) is not None and method is kernel.Method.SESSION:
            types[name] = kernel.TRACE_UPROBE_SESSION
    return types


def load(opened: Loadable, types: Mapping[str, int]) -> None:
    for name in opened.program_names():
        opened.choose_program(name, load=name in types, attach_type=types.get(name, 0))
    opened.load()


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[BpfObject]:
    with BpfObject(compiled("stack_probe.bpf.c", tmp_path), "stack_probe") as opened:
        load(opened, {"unguarded": 0, "guarded": 0})
        yield opened


def test_a_private_stack_is_recognised(probe: BpfObject) -> None:
    code = native_code(probe.program_fd("unguarded"))
    assert code
    # Since Linux 6.13 (commit a76ab5731e32).
    assert has_private_stack(code) == (kernel.release() >= (6, 13, 0))


def test_a_tail_call_that_is_never_made_keeps_the_threads_stack(probe: BpfObject) -> None:
    code = native_code(probe.program_fd("guarded"))
    assert code
    assert not has_private_stack(code)


@pytest.mark.parametrize("name", OBJECTS)
def test_no_program_of_an_object_has_a_private_stack(name: str, method: str) -> None:
    with open_object(name) as opened:
        names = opened.program_names()
        tracepoints = {each for each in names if opened.section_of(each).startswith("raw_tracepoint")}
        types = attach_types(names, tracepoints, kernel.Method(method))
        load(opened, types)
        codes = {each: native_code(opened.program_fd(each)) for each in types}
    assert codes
    assert all(codes.values())
    assert [each for each, code in codes.items() if has_private_stack(code)] == []


def test_no_program_of_bcc_has_a_private_stack() -> None:
    opened = BccObject()
    try:
        names = list(opened.program_names())
        load(opened, dict.fromkeys(names, 0))
        codes = {each: native_code(opened.program_fd(each)) for each in names}
    finally:
        opened.close()
    assert all(codes.values())
    assert [each for each, code in codes.items() if has_private_stack(code)] == []
