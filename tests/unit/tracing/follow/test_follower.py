# SPDX-License-Identifier: Apache-2.0
"""Who follows the processes of a run: what it attaches, what it looks at, and what it says. The kernel's side is played."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.unit.tracing.follow.following import NEW, OLD, Kernel, Session, mapped_file, play

from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.model.snapshot import Target
from ssllatency.targets import MappedFile, Selection
from ssllatency.tracing.resolve import library_of


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_who_maps_a_traced_file_later_is_attached_where_each_has_links_of_its_own(kernel: Kernel, selection: Selection) -> None:
    first, twin = mapped_file(11), mapped_file(22)
    kernel.maps = {OLD: [first, twin], NEW: []}  # it has just been forked
    session = Session(kernel, [first, twin], selection, alone=True)
    session.look()
    assert session.included == []
    kernel.map(NEW, twin)
    session.look()
    assert session.included == [(1, [NEW])]
    assert NEW in session.attachment.targets
    assert any("was traced" in note and "ms after it had started" in note for note in session.attachment.notes)


def test_who_maps_a_traced_file_later_is_a_target_where_all_share_the_links(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(everything=True))
    session.look()
    kernel.map(NEW, file)
    session.look()
    assert session.included == []
    assert sorted(session.attachment.targets) == [OLD, NEW]


@pytest.mark.parametrize("ended", [False, True], ids=["there", "gone"])
def test_the_first_process_that_maps_a_traced_file_is_the_arrival(kernel: Kernel, ended: bool) -> None:
    file, other = mapped_file(11), mapped_file(22, "/usr/bin/true")
    kernel.maps = {OLD: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), waits=True)
    session.look()
    assert not session.arrived
    kernel.told = [MappingNotice(NEW, 1, other.path, other.identity)]
    session.look()
    assert not session.arrived
    kernel.map(NEW, file)
    if ended:
        del kernel.maps[NEW]
    session.look()
    assert session.arrived
    assert session.attachment.late == set()


@pytest.mark.parametrize(("selection", "left"), [(Selection(pids=(OLD,)), False), (Selection(container="web"), True)])
def test_who_is_waited_for_may_come_if_not_named_by_its_pid(kernel: Kernel, selection: Selection, left: bool) -> None:
    session = Session(kernel, [mapped_file(11)], selection, waits=True)
    session.look()
    assert session.anyone_left == left


def test_those_that_mapped_a_file_before_it_was_traced_are_counted(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that the kernel tells of only afterwards; and none that comes later."""
    file, new = mapped_file(11), mapped_file(22)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 1000)
    kernel.map(NEW, new)
    kernel.map(300, new)
    session.look()
    assert session.attachment.late == {NEW, 300}
    kernel.told = [MappingNotice(301, 999, new.path, new.identity), MappingNotice(302, 1001, new.path, new.identity)]
    session.look()
    assert session.attachment.late == {NEW, 300, 301}


@pytest.mark.parametrize(("maps", "late"), [(True, True), (False, False)], ids=["running", "starting"])
def test_who_joins_late_is_a_loss_where_it_may_have_made_calls(kernel: Kernel, maps: bool, late: bool) -> None:
    """A process that is seen while it starts has the kernel's own notice on its way."""
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: [file] if maps else []}
    session = Session(kernel, [file], Selection(comms=("nginx",)))
    kernel.found_late = {NEW}
    session.look()
    kernel.map(NEW, file)
    session.look()
    assert session.attachment.late == ({NEW} if late else set())


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_what_was_mapped_while_the_probes_were_attached_is_found(kernel: Kernel, selection: Selection) -> None:
    file, early = mapped_file(11), mapped_file(33)
    kernel.maps = {OLD: [file, early]}  # which nobody tells of
    session = Session(kernel, [file], selection, sites=None)
    session.look()
    assert [image.pids for image in session.extended] == [(OLD,)]


def test_a_mapping_that_is_seen_before_it_is_told_of_is_said_by_its_time(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps, kernel.deaf = {OLD: [file]}, 1
    kernel.map(OLD, mapped_file(33))
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    assert len(session.extended) == 1
    assert any("ms before it was traced" in note for note in session.attachment.notes)


def test_a_target_has_each_library_once(kernel: Kernel) -> None:
    """Also where the file is no longer there."""
    file = replace(mapped_file(11), deleted=True)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    asked_for = library_of(session.attachment.images[0], deleted=True)
    session.attachment.targets[OLD] = Target(OLD, "nginx", (asked_for,))
    session.look()
    assert session.attachment.targets[OLD].libraries == (asked_for,)


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_where_notices_were_lost_everyone_is_looked_at_again(kernel: Kernel, selection: Selection) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], selection, sites=None)
    session.look()
    kernel.maps[OLD].append(mapped_file(33))
    session.look()
    assert session.extended == []
    kernel.lost = 7
    session.look()
    assert [image.pids for image in session.extended] == [(OLD,)]
    sentence = "7 notices of mapped files, executed programs and new names were lost: all processes are looked at again."
    told = any(sentence in note for note in session.attachment.notes)
    assert told == selection.everything  # of a process, those that were lost may all be others'


def test_a_look_ends_in_time(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each process takes."""
    file, now = mapped_file(11), 0.0
    kernel.maps = {OLD: [file], **{pid: [] for pid in range(200, 260)}}
    session = Session(kernel, [file], Selection(everything=True), sites=None)
    session.look()

    def candidates(pid: int) -> list[MappedFile]:
        nonlocal now
        now += 0.1
        looked.append(pid)
        return kernel.maps[pid]

    looked: list[int] = []
    play(monkeypatch, "tls_candidates", candidates)
    play(monkeypatch, "time", SimpleNamespace(monotonic=lambda: now, monotonic_ns=lambda: 0))
    kernel.told = [MappingNotice(pid, 1, "/usr/lib/libssl.so.3", (8, 1, pid)) for pid in range(200, 260)]
    session._follower.look()
    assert looked == [200, 201, 202]
    session._follower.look()
    assert looked[3:] == [203, 204, 205]


def test_who_maps_the_companion_alone_is_no_target(kernel: Kernel) -> None:
    """The libcrypto that came along with the libssl that was asked for."""
    libssl, libcrypto = mapped_file(11), mapped_file(12)
    kernel.maps = {OLD: [libssl, libcrypto]}
    session = Session(kernel, [libssl, libcrypto], Selection(libraries=("/usr/lib/libssl.so.3",)))
    session.attachment.images[1] = replace(session.attachment.images[1], companion=True)
    session.look()
    kernel.map(NEW, libcrypto)
    session.look()
    assert sorted(session.attachment.targets) == [OLD]
    assert NEW not in session.admitted
    kernel.map(NEW, libssl)
    session.look()
    assert sorted(session.attachment.targets) == [OLD, NEW]
    assert NEW in session.admitted
