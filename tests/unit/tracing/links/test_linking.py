# SPDX-License-Identifier: Apache-2.0
"""How the probes of a run are linked is decided once, with who must get none, and the attachment keeps to it."""

from __future__ import annotations

import argparse
import errno
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.base import Linking, Request, Side, TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.kernel import Method
from ssllatency.errors import TooManyOpenFiles
from ssllatency.model.snapshot import Target, TracedLibrary
from ssllatency.probes.plan import CodeRange, FilePlan
from ssllatency.targets import CodeState, Selection
from ssllatency.tracing import live
from ssllatency.tracing.links import changed_code
from ssllatency.tracing.resolve import Resolved

PIDS = (1 << 22, (1 << 22) + 1)  # past the greatest PID
OPTIONS = argparse.Namespace(role=Side.SERVER, attach="auto", links="auto", no_cache=True)
LIBRARY = TracedLibrary("/lib/libssl.so.3", "", "")
OBJECT: Any = SimpleNamespace(sessions=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A kernel with links of many sites, which is asked for its best method."""
    best = Mock(return_value=Method.MULTI)
    monkeypatch.setattr(kernel, "best_method", best)
    monkeypatch.setattr(kernel, "filters_whole_processes", lambda: True)
    return best


def resolved(*, changed: bool, monkeypatch: pytest.MonkeyPatch) -> Resolved:
    """Two processes that map a file, of which the first has changed its code or hasn't."""
    states = {0: {PIDS[0]: CodeState.CHANGED}} if changed else {}
    monkeypatch.setattr(changed_code, "_states_of_all", lambda *_, **__: states)
    image = TracedImage(FilePlan("/lib/libssl.so.3", "", "", "libssl", (), ()), "/lib/libssl.so.3", PIDS)
    targets = tuple(Target(pid, "server", (LIBRARY,)) for pid in PIDS)
    found = Resolved((image,), targets, False, (), cast("Any", None), selection=Selection(comms=("server",)))
    return changed_code.spared(found, live.request(found, OPTIONS), OPTIONS)


def followed(found: Resolved) -> Request:
    return replace(live.request(found, OPTIONS), following=cast("Any", Mock()))


@pytest.mark.parametrize(("changed", "each"), [(False, False), (True, True)])
def test_the_attachment_keeps_to_what_was_decided(
    monkeypatch: pytest.MonkeyPatch, asked: Mock, changed: bool, each: bool
) -> None:
    """Who comes later shares the links, unless somebody must get none."""
    found = resolved(changed=changed, monkeypatch=monkeypatch)
    assert found.linking == Linking(Method.MULTI, each)
    asked.reset_mock()
    attachment = Attachment(followed(found), OBJECT)
    assert (attachment.method, attachment.each_process) == (Method.MULTI, each)
    asked.assert_not_called()


@pytest.mark.usefixtures("asked")
def test_where_the_kernel_follows_nobody_few_processes_have_links_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolved(changed=False, monkeypatch=monkeypatch)
    monkeypatch.setattr("ssllatency.engines.attach.processes.Processes._follow", lambda *_: None)
    assert Attachment(live.request(found, OPTIONS), OBJECT).each_process


def test_programs_that_cannot_be_sessions_are_linked_otherwise(monkeypatch: pytest.MonkeyPatch, asked: Mock) -> None:
    asked.return_value = Method.SESSION
    found = resolved(changed=False, monkeypatch=monkeypatch)
    assert found.linking
    assert found.linking.method is Method.SESSION
    other: Any = SimpleNamespace(sessions=False)
    assert Attachment(followed(found), other).method is Method.MULTI


NO_MORE = OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("call", ["os.open", "os.listdir", "mmap.mmap", "pathlib.Path.read_bytes"])
def test_where_no_descriptor_is_left_nobody_gets_a_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Who can't be looked at may have changed its code, or have opted out."""
    file = tmp_path / "libssl.so.3"
    file.write_bytes(b"\x90" * 64)
    plan = replace(FilePlan(str(file), "", "", "libssl", (), ()), code=(CodeRange(0, 64, "aa"),))
    monkeypatch.setattr(call, Mock(side_effect=NO_MORE))
    with pytest.raises(TooManyOpenFiles, match="raise the limit"):
        changed_code.endangered(TracedImage(plan, str(file), (os.getpid(),)))


def test_without_a_list_of_processes_those_to_trace_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", Mock(side_effect=OSError(errno.ENOENT, "gone")))
    assert changed_code._everybody() == []


def test_who_is_named_in_the_hosts_file_is_told_how_to_be_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_code, "has_variable", lambda _: False)
    remedy = changed_code._remedy({0: {PIDS[0]: CodeState.OFF}})
    assert remedy == "remove its line from /etc/ssllatency/never to trace it"


def test_a_defect_is_told_with_its_words_and_not_as_the_processes_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSLLATENCY_TRACEBACK", raising=False)
    image = TracedImage(FilePlan("/lib/libssl.so.3", "", "", "libssl", (), ()), "/lib/libssl.so.3", PIDS)
    state = changed_code._state(Mock(state=Mock(side_effect=IndexError("list {index} out of range"))), PIDS[0], b"")
    assert state
    assert changed_code._sentence({0: {PIDS[0]: state}}, (image,)) == (
        f"a process that has ended (PID {PIDS[0]}) can't be looked at: that is a defect, please report it (IndexError: list"
        " {index} out of range; SSLLATENCY_TRACEBACK=1 shows where it happened): no probe is set there."
    )
    assert changed_code._remedy({0: {PIDS[0]: state}}) == "none can be until that defect is cured"
    both = {0: {PIDS[0]: state, PIDS[1]: CodeState.CHANGED}}
    assert changed_code._remedy(both) == "restart it without what patches it"


def test_where_nobody_can_tell_whether_a_process_has_opted_out_it_gets_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(*_: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.delenv("SSLLATENCY_TRACEBACK", raising=False)
    code = Mock(state=lambda *_: CodeState.SAME)
    monkeypatch.setattr(changed_code, "has_opted_out", lambda _: False)
    assert changed_code._state(code, PIDS[0], b"") is CodeState.SAME
    monkeypatch.setattr(changed_code, "has_opted_out", odd)
    state = changed_code._state(code, PIDS[0], b"")
    assert state
    assert changed_code._forbids(state)
    monkeypatch.setattr(changed_code, "opt_out_reason", odd)
    assert changed_code._why_off(PIDS[0]) == "has opted out"
