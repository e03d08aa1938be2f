# SPDX-License-Identifier: Apache-2.0
"""Who has opted out gets no links, and loses those that it has, where that can be."""

from __future__ import annotations

import time

import pytest
from tests.unit.tracing.follow.following import NEW, OLD, Kernel, Session, mapped_file

from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.follow.following import Arrival
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.errors import TooManyOpenFiles
from ssllatency.targets import MappedFile, Selection
from ssllatency.tracing import follow
from ssllatency.tracing.late import files
from ssllatency.tracing.links import own_links

OFF = "has SSLLATENCY_OFF in its environment (user 33)"


def test_who_maps_a_traced_file_again_and_again_is_asked_once_whether_it_has_opted_out(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment may be of megabytes."""
    asked: list[int] = []

    def reason(pid: int) -> str:
        asked.append(pid)
        return OFF

    monkeypatch.setattr(follow, "opt_out_reason", reason)
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(everything=True))
    for _ in range(1000):
        kernel.told.append(MappingNotice(NEW, 1, file.path, file.identity))
    session.look()
    assert asked == [NEW]
    assert session.refused == 1
    kernel.told.append(MappingNotice(NEW, 1, file.path, file.identity))
    session.look()
    assert session.refused == 1


@pytest.mark.parametrize(("method", "left"), [(Method.MULTI, False), (Method.PERF, True)])
def test_who_opts_out_while_it_has_links_loses_them_or_it_is_said_that_it_can_not(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, method: Method, left: bool
) -> None:
    off: set[int] = set()
    monkeypatch.setattr(follow, "opt_out_reason", lambda pid: OFF if pid in off else "")
    monkeypatch.setattr(own_links, "unprobed", lambda _, pids: {pid: "No probe is set there." for pid in pids if pid in off})
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True, method=method)
    kernel.map(NEW, file)
    session.look()
    assert session.included == [(0, [NEW])]
    off.add(NEW)
    kernel.map(NEW, file)
    session.look()
    assert session.released == ([] if left else [NEW])
    assert ("No probe is set there." in session.attachment.notes) is not left
    assert any(f"{OFF}, but had probes" in note for note in session.attachment.notes) is left


def untold(*_: object) -> bool:
    raise TooManyOpenFiles("/proc/7/environ")


def said(session: Session) -> list[str]:
    return [note for note in session.attachment.notes if "Too many files are open" in note]


def test_who_cannot_be_asked_yet_whether_it_has_opted_out_is_asked_again(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_links, "unprobed", lambda *_: {})
    monkeypatch.setattr(follow, "opt_out_reason", lambda _: "")
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    kernel.map(NEW, file)
    session.look()
    monkeypatch.setattr(follow, "opt_out_reason", untold)
    monkeypatch.setattr(own_links, "unprobed", lambda _, pids: dict.fromkeys(pids, "No probe is set there."))
    kernel.map(NEW, file)
    session.look()
    assert session.released == []
    assert len(said(session)) == 1
    monkeypatch.setattr(follow, "opt_out_reason", lambda pid: OFF if pid == NEW else "")
    session.look()
    assert session.released == [NEW]


@pytest.mark.parametrize("child", [True, False])
def test_where_the_code_cannot_be_looked_at_nothing_is_attached_yet(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, child: bool
) -> None:
    monkeypatch.setattr(own_links, "unprobed", untold)
    monkeypatch.setattr(follow, "opt_out_reason", lambda _: "")
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    for pid in range(NEW, NEW + 40):  # each with a note of its own would leave no room for others
        if child:
            kernel.started[pid] = Arrival(OLD, time.monotonic_ns())
            kernel.maps[pid] = [file]
        else:
            kernel.map(pid, file)
    session.look()
    assert session.included == []
    assert session.attachment.notes == said(session)
    assert len(said(session)) == 1
    monkeypatch.setattr(own_links, "unprobed", lambda *_: {})
    session.look()
    assert {pid for _, pids in session.included for pid in pids} == set(range(NEW, NEW + 40))


@pytest.mark.parametrize("check", ["unprobed", "endangered"])
def test_a_file_whose_users_cannot_be_looked_at_is_traced_later(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    file, later = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")
    monkeypatch.setattr(follow, "opt_out_reason", lambda _: "")
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    with monkeypatch.context() as patch:
        patch.setattr(files, check, untold)
        kernel.map(NEW, later)
        session.look()
    assert session.extended == []
    assert len(said(session)) == 1
    session.look()
    assert [image.plan.path for image in session.extended] == [later.path]


def test_where_processes_cannot_be_listed_the_run_goes_on(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(everything=True))
    monkeypatch.setattr(follow, "all_processes", untold)
    session.look()
    assert session.attachment.notes == said(session)
    assert len(said(session)) == 1


def test_what_becomes_of_the_hosts_file_is_a_note(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "never_notes", lambda: ("Lines have gone.",))
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    assert session.attachment.notes == ["Lines have gone."]


@pytest.mark.parametrize("method", [Method.MULTI, Method.PERF])
def test_a_defect_in_asking_one_is_told_and_ends_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    """Links of its own are withdrawn, as it may have opted out; the others go on."""

    def reason(pid: int) -> str:
        return str([][0]) if pid == NEW else ""

    monkeypatch.delenv("SSLLATENCY_TRACEBACK", raising=False)
    monkeypatch.setattr(follow, "opt_out_reason", reason)
    monkeypatch.setattr(own_links, "unprobed", lambda _, pids: {pid: "No probe is set there." for pid in pids if pid == NEW})
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True, method=method)
    kernel.map(NEW, file)
    kernel.told.append(MappingNotice(NEW, 1, file.path, file.identity))
    session.look()
    assert session.refused == 1
    (said,) = [note for note in session.attachment.notes if "IndexError" in note]
    assert "can't be asked whether it has opted out: IndexError: list index out of range; this is a defect" in said


def test_a_defect_in_looking_at_one_is_told_and_the_others_are_traced(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    look_at = follow.tls_candidates

    def candidates(pid: int) -> list[MappedFile]:
        if pid == NEW:
            raise ValueError("odd")
        return look_at(pid)

    monkeypatch.delenv("SSLLATENCY_TRACEBACK", raising=False)
    monkeypatch.setattr(follow, "tls_candidates", candidates)
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: [], NEW + 1: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    for pid in (NEW, NEW + 1):
        kernel.map(pid, file)
    session.look()
    assert session.refused == 1
    assert any("can't be inspected: ValueError: odd; this is a defect" in note for note in session.attachment.notes)
    assert session.included == [(0, [NEW + 1])]
