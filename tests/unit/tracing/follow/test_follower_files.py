# SPDX-License-Identifier: Apache-2.0
"""Files that come later than the probes: of processes that are gone, copies, damaged ones, and far too many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.tracing.follow.following import NEW, OLD, Kernel, Session, image_of, mapped_file, play

from ssllatency.engines.base import AttachError, TooManyFilesError, TracedImage
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.errors import SsllatencyError, TooManyOpenFiles
from ssllatency.probes.plan import FilePlan
from ssllatency.targets import MOST_OF_PROCESS, ExpectedFile, FileVersion, MappedFile, Selection, TracedFile
from ssllatency.tracing.allowance import Allowance, SharedAllowance
from ssllatency.tracing.file_facts import NotInspectedError
from ssllatency.tracing.late import files, new_files, notes
from ssllatency.tracing.late.new_files import NewFiles
from ssllatency.tracing.late.waiting import WaitingProcesses


@pytest.mark.parametrize(("there", "late"), [(22, {NEW}), (44, {NEW}), (None, {NEW})])
def test_what_a_process_mapped_that_is_gone_is_traced_for_the_next_one(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, there: int | None, late: set[int]
) -> None:
    """If that very file is still at its path."""
    file, new = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")

    def opened(path: str, root: str, stack: ExitStack) -> ExpectedFile | None:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        return (
            ExpectedFile(descriptor, mapped_file(there, path), root, FileVersion((8, 1, there)))
            if there and root == "/of/100"
            else None
        )

    def planned(found: ExpectedFile, _: object) -> TracedImage:
        image = image_of(new, found.descriptor)
        return replace(image, plan=replace(image.plan, build_id="bb"))

    play(monkeypatch, "root_paths", lambda pids: [f"/of/{pid}" for pid in pids])
    play(monkeypatch, "open_expected", opened)
    play(monkeypatch, "image_of", planned)
    before = len(list(Path("/proc/self/fd").iterdir()))
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    kernel.told = [MappingNotice(NEW, 1, new.path, new.identity)]
    session.look()
    assert session.attachment.late == late
    assert [image.pids for image in session.extended] == ([()] if there == 22 else [])
    session.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_files_of_who_is_gone_that_take_longer_than_a_look_wait_for_the_next(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nobody has looked into them yet isn't a loss: none of them holds what is to be traced."""
    now = 100.0
    looked: list[str] = []

    def opened(path: str, root: str, _stack: ExitStack) -> ExpectedFile | None:
        file = mapped_file(int(path[-1]), path)
        return ExpectedFile(0, file, root, FileVersion(file.identity)) if root == "/" else None

    def planned(found: ExpectedFile, _: object) -> None:
        nonlocal now
        now += 0.3
        looked.append(found.mapping.path)

    play(monkeypatch, "time", SimpleNamespace(monotonic=lambda: now, monotonic_ns=lambda: 0))
    play(monkeypatch, "root_paths", lambda _: [])
    play(monkeypatch, "open_expected", opened)
    play(monkeypatch, "image_of", planned)
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    kernel.told = [MappingNotice(NEW, 1, path, (8, 1, int(path[-1]))) for path in ("/lib/libssl.so.1", "/lib/libssl.so.2")]
    session._follower.look()
    assert looked == ["/lib/libssl.so.1"]
    session._follower.look()
    assert looked == ["/lib/libssl.so.1", "/lib/libssl.so.2"]
    session.look()
    assert len(looked) == 2
    assert session.attachment.late == set()


@pytest.mark.parametrize(("site", "byte", "extended"), [(4096, b"\xcc", 0), (4096, b"\x55", 1), (None, b"\xcc", 1)])
def test_a_copy_that_has_the_breakpoints_already_is_the_same_file(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, site: int | None, byte: bytes, extended: int
) -> None:
    """An image may have no operation of its own, as libcrypto where handshakes are measured; or no site at all."""
    file, twin = mapped_file(11), mapped_file(22)
    play(monkeypatch, "code_byte", lambda *_: byte[0])
    play(monkeypatch, "_byte_of", lambda *_: b"\x55")
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=site)
    session.look()
    kernel.map(NEW, twin)
    session.look()
    assert len(session.extended) == extended


def test_a_process_that_maps_new_files_without_an_end_traps_nobody(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whenever it is looked at it has mapped one more; others have their turn in between."""
    file, greedy, other = mapped_file(11), 200, 300
    inodes = iter(range(1000, 1000 + 10 * MOST_OF_PROCESS))
    kernel.maps = {OLD: [file], greedy: [], other: []}
    session = Session(kernel, [file], Selection(everything=True), sites=None)
    session.look()

    def candidates(pid: int) -> list[MappedFile]:
        if pid == greedy:
            kernel.maps[pid].append(mapped_file(next(inodes)))  # StopIteration where nothing ends it
        return kernel.maps[pid]

    # Else a slow machine tells another time at each look, and of so many sentences the last are only counted.
    monkeypatch.setattr(notes, "time", SimpleNamespace(monotonic_ns=lambda: 1_000_001))
    play(monkeypatch, "tls_candidates", candidates)
    kernel.told = [MappingNotice(greedy, 1, "/usr/lib/libssl.so.3", (8, 1, 999))]
    session.look()
    assert 0 < len(session.extended) <= 3 * new_files._MOST_FILES
    kernel.map(other, mapped_file(22))
    session.look()
    assert (other,) in [image.pids for image in session.extended]
    for _ in range(MOST_OF_PROCESS):
        session.look()
    assert sum(image.pids == (greedy,) for image in session.extended) == MOST_OF_PROCESS
    said = capsys.readouterr().err
    assert "nginx (200) maps new files faster than they can be inspected: the rest are traced later." in said
    assert "nginx (200) has mapped so many new files that those it maps from now on aren't inspected." in said


def test_a_damaged_file_does_not_hide_the_next_one(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both were mapped since the last look."""
    file, damaged, new = mapped_file(11), mapped_file(22, "/tmp/libssl.so.bad"), mapped_file(33)

    def planned(each: TracedFile, _: object) -> FilePlan:
        if each.mapping is damaged:
            raise SsllatencyError(f"{each.path} is damaged.")
        return image_of(each.mapping, 0).plan

    play(monkeypatch, "plan_of", planned)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    for each in (damaged, new):
        kernel.map(OLD, each)
    session.look()
    assert [image.plan.path for image in session.extended] == [new.path]
    assert any("/tmp/libssl.so.bad is damaged" in note for note in session.attachment.notes)


@pytest.mark.parametrize(("named", "looked_at"), [(False, 1), (True, 0)])
def test_a_file_of_any_name_is_looked_at_once(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, named: bool, looked_at: int
) -> None:
    """And only where it shows TLS it is looked into."""
    file, plain = mapped_file(11), mapped_file(33, "/usr/lib/libssl.so.1.1" if named else "/usr/lib/_rust.abi3.so")
    asked: list[TracedFile] = []

    def holds(_: NewFiles, each: TracedFile) -> bool:
        asked.append(each)
        return False

    monkeypatch.setattr(NewFiles, "_holds_traced", holds)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    for pid in (OLD, NEW):
        kernel.map(pid, plain)
        session.look()
    assert len(asked) == looked_at
    assert len(session.extended) == named


def test_one_file_that_was_asked_for_stays_the_only_one(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    selection = replace(Selection(everything=True), libraries=("/usr/lib/libssl.so.3",))
    session = Session(kernel, [file], selection)
    kernel.map(NEW, mapped_file(22))
    session.look()
    assert session.extended == []


def test_who_may_not_be_counted_after_a_copy_is_said_where_each_has_links_of_its_own(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    assert capsys.readouterr().err == ""
    session.perhaps_copied = [0]
    session.look()
    assert "forked by those that run the original may not be counted" in capsys.readouterr().err
    session.close()


def test_a_file_that_its_overlay_has_copied_is_traced_once_more(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who maps it then runs the copy, and so does the next one."""
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    monkeypatch.setattr(files.os, "dup", lambda _: os.open(os.devnull, os.O_RDONLY))
    session.copied = [0]
    session.look()
    assert [(image.plan, image.pids) for image in session.extended] == [(session.attachment.images[0].plan, ())]
    assert session.extended[0].file != session.attachment.images[0].file
    assert "an overlay has copied it" in capsys.readouterr().err
    assert session._follower._seen.traced == {file.identity: 1}
    session.close()


@pytest.mark.parametrize("for_now", [True, False])
def test_a_file_that_is_left_out_is_counted_and_told_of_and_tried_again(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], for_now: bool
) -> None:
    now, has_room = 1000.0, False
    plain, others = MappedFile("/opt/server", (8, 1), 33, "1000-2000", False), [mapped_file(11)]

    def holds(_: NewFiles, __: object) -> bool:
        if not has_room:
            raise NotInspectedError("There is no room.", for_now=for_now)
        return True

    monkeypatch.setattr(NewFiles, "_holds_traced", holds)
    play(monkeypatch, "time", SimpleNamespace(monotonic=lambda: now, monotonic_ns=lambda: 1))
    kernel.maps = {OLD: others}
    session = Session(kernel, others, Selection(pids=(OLD,)), sites=None)
    session.look()
    session.attachment.notes += [f"{number} of many." for number in range(40)]
    kernel.map(OLD, plain)
    session.look()
    assert session.refused == 1
    assert ("There is no room." in session.attachment.notes) == for_now
    assert capsys.readouterr().err.count("There is no room.") == 1
    has_room = True
    now += 61.0
    session.look()
    assert [image.plan.path for image in session.extended] == ([plain.path] if for_now else [])
    assert session.refused == 1


def test_of_many_notes_those_of_limits_are_told_and_some_of_the_others_each_hour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now, kept = 0.0, ["An older one."]
    monkeypatch.setattr(notes, "Allowance", lambda most, period_s: Allowance(most, period_s, lambda: now))
    said = notes.Notes(kept)
    for number in range(50):
        said.say(f"Note {number}.")
    assert len(capsys.readouterr().err.splitlines()) == 20
    assert (len(kept), kept[-1]) == (20, "32 more of such notes were left out.")
    for path in ("/a", "/b", "/a"):
        said.limit("A limit is reached.", path)
    assert capsys.readouterr().err == "ssllatency: A limit is reached.\n"
    assert (len(kept), kept[0], said.refused) == (21, "A limit is reached.", 2)
    said.refuse("Another one.")
    assert (len(kept), kept[-1], said.refused) == (21, "33 more of such notes were left out.", 3)
    now = 3601.0
    said.say("One of the next hour.")
    assert "One of the next hour." in capsys.readouterr().err


@pytest.mark.parametrize("error", [TooManyFilesError("there are 256 traced files already."), AttachError("it was refused.")])
def test_files_that_can_not_be_traced_do_not_stay_open(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, error: AttachError
) -> None:
    """And that there are too many is told, however many other notes there are."""
    file, new = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.attachment.notes += [f"{number} of many." for number in range(40)]
    opened, closed, is_full = ExitStack(), list[str](), isinstance(error, TooManyFilesError)
    opened.callback(closed.append, "file")

    def extend(_: object) -> None:
        raise error

    late_files = session._follower._files
    monkeypatch.setattr(late_files, "_extend", extend)
    with suppress(*() if is_full else (AttachError,)):
        late_files.add(OLD, [new], [image_of(new, 50, OLD)], {}, opened)
    session.close()
    assert closed == []
    opened.close()
    assert closed == ["file"]
    assert session.refused == is_full
    assert any("No other file can be traced by this run" in note for note in session.attachment.notes) == is_full


def test_a_file_that_is_attached_stays_open_though_the_kernel_refuses_the_rest(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its functions are, and its handshakes are refused: its image names it by a descriptor's number."""
    file, new = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    closed = list[str]()

    def extend(images: Sequence[TracedImage]) -> None:
        session.attachment.images += images
        raise AttachError("the handshakes were refused.")

    late_files = session._follower._files
    monkeypatch.setattr(late_files, "_extend", extend)
    with ExitStack() as opened:
        opened.callback(closed.append, "file")
        with pytest.raises(AttachError):
            late_files.add(OLD, [new], [image_of(new, 50, OLD)], {}, opened)
    assert closed == []
    session.close()
    assert closed == ["file"]


def test_whose_files_there_was_no_room_for_have_their_turn_in_no_order(kernel: Kernel) -> None:
    """Else those with the lowest PIDs take each time what has come back."""
    session, pids = Session(kernel, [mapped_file(11)], Selection(everything=True)), range(200, 300)
    kernel.maps = {pid: [] for pid in pids}
    tried = session._follower._new_files
    tried._left = set(pids)
    waiting = WaitingProcesses()
    waiting.add_new(tried.due())
    assert waiting.first(1000) != list(pids)
    assert sorted(waiting.first(1000)) == list(pids)
    assert tried.due() == []


def test_only_files_that_are_looked_into_use_up_what_there_is_room_for(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that wait for the next look, nor those for which no descriptor was left."""
    file, opens, refuse = mapped_file(11), new_files.open_images, True
    monkeypatch.setattr(new_files, "owner", lambda _: "eve")
    play(monkeypatch, "open_file", lambda pid, mapping, _: TracedFile("", pid, mapping, (pid,), 7))

    def open_images(*arguments: Any) -> tuple[TracedImage, ...]:
        nonlocal refuse
        if refuse:
            refuse = False
            raise TooManyOpenFiles("libssl.so.3")
        return opens(*arguments)

    monkeypatch.setattr(new_files, "open_images", open_images)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(everything=True), sites=None)
    session.look()
    room = session._follower._seen.room = SharedAllowance(4000, 100.0, {"host"}, lambda: 1.0)
    for inode in range(100, 120):
        kernel.map(OLD, mapped_file(inode))
    for _ in range(2):
        session.look()
    assert not refuse
    assert len(session.extended) == 20
    assert room._of("eve").left == 1000 - 20


def test_one_user_does_not_keep_others_files_from_being_looked_into(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what there was no room for is looked into once there is."""
    now, file = 1000.0, mapped_file(11)
    monkeypatch.setattr(new_files, "owner", lambda descriptor: (descriptor, 0))
    play(monkeypatch, "time", SimpleNamespace(monotonic=lambda: now, monotonic_ns=lambda: 1))
    play(monkeypatch, "open_file", lambda pid, mapping, _: TracedFile("", pid, mapping, (pid,), 7 if pid == OLD else 8))
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(everything=True), sites=None)
    session._follower._seen.room = SharedAllowance(16, 100.0, {"host"}, lambda: now)
    session.look()
    for inode in range(100, 110):
        kernel.map(OLD, mapped_file(inode))
        session.look()
    kernel.map(NEW, mapped_file(22))
    session.look()
    assert [image.pids for image in session.extended] == [(OLD,)] * 4 + [(NEW,)]
    assert session.refused == 6
    now += 1000.0
    for _ in range(4):
        session.look()
        now += 100.0
    assert len(session.extended) == 11
    assert session.refused == 6
