# SPDX-License-Identifier: Apache-2.0
"""Who has opted out gets no links, and loses those that it has, where that can be."""

from __future__ import annotations

import pytest
from tests.unit.tracing.follow.following import NEW, OLD, Kernel, Session, mapped_file

from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.targets import Selection
from ssllatency.tracing import follow
from ssllatency.tracing.links import own_links


def test_who_maps_a_traced_file_again_and_again_is_asked_once_whether_it_has_opted_out(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment may be of megabytes."""
    asked: list[int] = []
    monkeypatch.setattr(follow, "has_opted_out", lambda pid: not asked.append(pid))
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
    monkeypatch.setattr(follow, "has_opted_out", lambda pid: pid in off)
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
    assert any("until this run ends" in note for note in session.attachment.notes) is left
