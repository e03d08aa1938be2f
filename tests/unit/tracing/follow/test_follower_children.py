# SPDX-License-Identifier: Apache-2.0
"""Children of traced processes: their links, those that end at once, and those that come too fast."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.unit.tracing.follow.following import NEW, OLD, Kernel, Session, mapped_file, play

from ssllatency.engines.base import AttachError
from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.follow.following import Arrival
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.targets import Selection
from ssllatency.tracing import follow
from ssllatency.tracing.links import own_links


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(pids=(OLD,)), True),
        (Selection(pids=(OLD, NEW)), False),
        (Selection(pids=(OLD,), comms=("nginx",)), False),
        (Selection(comms=("nginx",)), False),
        (Selection(everything=True), False),
    ],
    ids=str,
)
def test_nobody_comes_later_only_where_all_are_named_and_can_have_no_children(
    monkeypatch: pytest.MonkeyPatch, selection: Selection, expected: bool
) -> None:
    play(monkeypatch, "members", lambda selection: dict.fromkeys(selection.pids or (OLD,), False))
    play(monkeypatch, "can_have_children", lambda pid: pid != OLD)
    assert follow.childless(selection) == expected


def test_a_child_has_what_its_parent_has_before_it_is_looked_at(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its maps may not even be read."""
    first, second = mapped_file(11), mapped_file(22)
    kernel.maps = {OLD: [first, second]}
    session = Session(kernel, [first, second], Selection(pids=(OLD,)), alone=True)
    session.look()
    assert kernel.tells_of_children
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_200_000)
    kernel.maps[NEW], kernel.started = [], {NEW: Arrival(OLD, 4_000_000)}
    session.look()
    assert session.included == [(0, [NEW]), (1, [NEW])]
    assert session.attachment.late == {NEW}
    assert session.attachment.notes == [
        "nginx (101) was traced 1.2 ms after it had started: its calls until then aren't counted."
    ]
    kernel.maps[NEW] = [first, second]
    session.look()
    assert len(session.included) == 2  # and nothing once more


def test_a_grandchild_is_attached_like_its_parent(kernel: Kernel) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: [file], 102: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    kernel.started = {NEW: Arrival(OLD, 1), 102: Arrival(NEW, 2)}
    session.look()
    assert session.included == [(0, [NEW]), (0, [102])]


def test_a_child_that_had_ended_at_once_is_a_loss_where_it_may_have_made_calls(kernel: Kernel) -> None:
    file, parent = mapped_file(11), 102
    kernel.maps = {OLD: [file], parent: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    kernel.started = {NEW: Arrival(OLD, 1), 301: Arrival(parent, 1)}
    session.look()
    assert session.attachment.late == {NEW}
    assert any("ms after it had started, when it had ended: its calls" in note for note in session.attachment.notes)


@pytest.mark.parametrize(
    ("mapped_ns", "looked_at_before", "late"),
    [(3000, False, False), (3000, True, False), (1000, False, True), (1000, True, True), (None, False, True)],
)
def test_a_child_that_maps_the_file_after_it_has_the_links_is_no_loss(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, mapped_ns: int | None, looked_at_before: bool, late: bool
) -> None:
    """As those of a server that executes a program for each connection. It must be shown."""
    file, parent = mapped_file(11), 102
    kernel.maps = {OLD: [file], parent: []}
    session = Session(kernel, [file], Selection(pids=(OLD, parent)), alone=True)
    session.look()
    monkeypatch.setattr(own_links.time, "monotonic_ns", lambda: 2000)
    kernel.maps[NEW], kernel.started = [], {NEW: Arrival(parent, 500)}
    session._follower._hear_of_children(cast("Any", kernel))
    assert session.included == [(0, [NEW])]
    if looked_at_before:
        session.look()
    kernel.maps[NEW] = [file]
    kernel.told = [] if mapped_ns is None else [MappingNotice(NEW, mapped_ns, file.path, file.identity)]
    session.look()
    assert session.included == [(0, [NEW])]
    assert session.attachment.late == ({NEW} if late else set())


def test_children_that_come_too_fast_are_found_later(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a while; a part of each second is spent on them, and those that are left out count as late."""
    file, now_ns = mapped_file(11), 0
    kernel.maps = {OLD: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)

    def include(index: int, pids: Sequence[int]) -> None:
        nonlocal now_ns
        now_ns += 2_000_000
        session.included.append((index, list(pids)))

    monkeypatch.setattr(session, "include", include)
    monkeypatch.setattr(own_links.time, "monotonic_ns", lambda: now_ns)
    children = range(1000, 2000)
    kernel.started = {pid: Arrival(OLD, 0) for pid in children}
    session._follower.look()
    assert len(session.included) == 125
    assert session.attachment.late == set(children)
    now_ns += 1_000_000_000
    kernel.started = {3000: Arrival(OLD, now_ns)}
    session._follower.look()
    assert session.included[-1] == (0, [3000])


def test_children_that_were_not_told_of_are_spoken_of(kernel: Kernel) -> None:
    kernel.maps = {OLD: [mapped_file(11)]}
    session = Session(kernel, kernel.maps[OLD], Selection(pids=(OLD,)), alone=True)
    kernel.counters.dropped = 3
    session.look()
    assert session.attachment.notes == ["3 notices of new processes were lost."]


@pytest.mark.parametrize("again", [False, True], ids=["gone", "PID used again"])
def test_nothing_stays_attached_to_a_process_that_has_ended(kernel: Kernel, again: bool) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: [file]}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)
    kernel.started = {NEW: Arrival(OLD, 1)}
    session.look()
    assert session.released == []
    if again:
        kernel.started = {NEW: Arrival(OLD, 2)}
    else:
        del kernel.maps[NEW]
    session.look()
    assert session.released == [NEW]
    assert session.included == [(0, [NEW])] * (2 if again else 1)


@pytest.mark.parametrize("method", Method)
def test_it_is_told_of_children_only_where_they_have_links_of_their_own(kernel: Kernel, method: Method) -> None:
    """Perf events, which take the kernel long to end, aren't attached to children that may be gone at once."""
    file = mapped_file(11)
    kernel.maps = {OLD: [file]}
    Session(kernel, [file], Selection(pids=(OLD,)), method=method)
    assert not kernel.tells_of_children
    Session(kernel, [file], Selection(pids=(OLD,)), method=method, alone=True)
    assert kernel.tells_of_children == (method is not Method.PERF)


def test_a_child_that_the_kernel_refuses_is_a_loss_and_ends_nothing(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = mapped_file(11)
    kernel.maps = {OLD: [file], NEW: []}
    session = Session(kernel, [file], Selection(pids=(OLD,)), alone=True)

    def refuse(_index: int, _pids: object) -> None:
        raise AttachError("the kernel refused to probe it.")

    monkeypatch.setattr(session, "include", refuse)
    kernel.started = {NEW: Arrival(OLD, 1)}
    session.look()
    assert session.attachment.late == {NEW}
    assert "nginx (101) isn't traced: the kernel refused to probe it." in capsys.readouterr().err
