# SPDX-License-Identifier: Apache-2.0
"""Files that some process has changed, which come later than the probes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest
from tests.unit.tracing.follow.following import NEW, OLD, Kernel, Session, image_of, mapped_file, play

from ssllatency.engines.base import TracedImage
from ssllatency.engines.follow.following import Arrival
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.targets import ExpectedFile, FileVersion, Selection
from ssllatency.tracing.late import files
from ssllatency.tracing.links import own_links

CHANGED = "it has changed the code."


def changed_by(monkeypatch: pytest.MonkeyPatch, path: str, *pids: int) -> None:
    """These processes have changed the code of that file."""

    def unprobed(image: TracedImage, asked: Sequence[int]) -> dict[int, str]:
        return {pid: f"{pid} {CHANGED}" for pid in pids if pid in asked and image.plan.path == path}

    play(monkeypatch, "endangered", lambda image: CHANGED if image.plan.path == path else "")
    for module in (files, own_links):
        monkeypatch.setattr(module, "unprobed", unprobed)


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(pids=(OLD,))], ids=["all", "pid"])
def test_who_has_changed_a_file_that_comes_later_keeps_nobody_else_from_being_traced(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, selection: Selection
) -> None:
    """Be it a stranger or the first process that maps it. What is traced already goes on with shared links."""
    file, later = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")
    changed_by(monkeypatch, later.path, 300, 400)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], selection, sites=None)
    session.look()
    assert not kernel.tells_of_children
    for pid in (300, NEW):
        kernel.map(pid, later)
    session.look()
    assert [(image.pids, image.own_links) for image in session.extended] == [((), True)]
    assert session.included == [(1, [NEW])]
    assert kernel.tells_of_children
    assert kernel.watched == {NEW}
    assert sorted(session.attachment.targets) == [OLD, NEW]
    assert f"300 {CHANGED}" in session.attachment.notes
    assert session.spared == 1
    assert any(note.startswith(f"{CHANGED} Probes are set in each traced process") for note in session.attachment.notes)
    kernel.map(NEW, file)
    kernel.started = {102: Arrival(NEW, 1), 103: Arrival(300, 1)}
    kernel.maps |= {102: [later], 103: [later]}
    session.look()
    assert session.included == [(1, [NEW]), (1, [102])]
    del kernel.maps[NEW]
    session.look()
    assert session.released == [NEW]


def test_a_process_that_maps_the_file_anew_has_it_unchanged(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has executed another program."""
    file = mapped_file(11)
    changed_by(monkeypatch, file.path, NEW)
    kernel.maps = {OLD: [file], NEW: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    session.look()
    assert session.included == []
    changed_by(monkeypatch, file.path)
    kernel.told = [MappingNotice(NEW, time.monotonic_ns(), file.path, file.identity)]
    session.look()
    assert session.included == [(0, [NEW])]


def test_where_links_are_shared_only_a_changed_file_is_left_out_and_said(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, changed, other = mapped_file(11), mapped_file(22, "/opt/libssl.so.3"), mapped_file(33, "/opt/libcrypto.so.3")
    changed_by(monkeypatch, changed.path, 300)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.attachment.may_link_each = False
    session.look()
    kernel.map(NEW, changed)
    kernel.map(NEW, other)
    session.look()
    assert [(image.plan.path, image.own_links) for image in session.extended] == [(other.path, False)]
    assert "/opt/libssl.so.3 isn't traced" in capsys.readouterr().err


def test_a_twin_of_a_file_with_links_of_each_process_has_them_too(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the kernel it may be the same file: a call would count by both."""
    file, changed = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")
    changed_by(monkeypatch, changed.path, 300)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), sites=None)
    session.look()
    kernel.map(NEW, changed)
    session.look()
    kernel.map(102, mapped_file(44, "/other/libssl.so.3"))
    session.look()
    assert [image.own_links for image in session.extended] == [True, True]


def test_what_a_process_mapped_that_is_gone_is_attached_to_without_harm(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, new = mapped_file(11), mapped_file(22, "/opt/libssl.so.3")

    def opened(path: str, root: str, _stack: ExitStack) -> ExpectedFile | None:
        return ExpectedFile(os.open(os.devnull, os.O_RDONLY), mapped_file(22, path), root, FileVersion(new.numbers))

    play(monkeypatch, "root_paths", lambda _: [])
    play(monkeypatch, "open_expected", opened)
    image = replace(image_of(new, 99), plan=replace(image_of(new, 99).plan, build_id="bb"))
    play(monkeypatch, "image_of", lambda *_: image)
    changed_by(monkeypatch, new.path, 300)
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    kernel.told = [MappingNotice(NEW, 1, new.path, new.identity)]
    session.look()
    assert [(image.pids, image.own_links) for image in session.extended] == [((), True)]
    kernel.map(102, new)
    session.look()
    assert session.included == [(1, [102])]
