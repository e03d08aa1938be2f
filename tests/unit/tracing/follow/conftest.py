# SPDX-License-Identifier: Apache-2.0
"""The kernel that tests of the follower play."""

from __future__ import annotations

import pytest
from tests.unit.tracing.follow.following import Kernel, image_of, play

from ssllatency.errors import TRACEBACK
from ssllatency.targets import Process, TracedFile
from ssllatency.tracing.late import new_files
from ssllatency.tracing.links import others, own_links


@pytest.fixture(autouse=True)
def _shows_defects(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, where a run would tell of them and go on."""
    monkeypatch.setenv(TRACEBACK, "1")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    play(monkeypatch, "tls_candidates", lambda pid: made.maps.get(pid, []))
    play(monkeypatch, "process_of", lambda pid: Process(pid, 1, "nginx", 0))
    play(monkeypatch, "all_processes", lambda: [Process(pid, 1, "nginx", 0) for pid in made.maps])
    play(monkeypatch, "exists", lambda pid: pid in made.maps)
    play(monkeypatch, "open_file", lambda pid, file, _: TracedFile("", pid, file, (pid,)))
    play(monkeypatch, "plan_of", lambda file, _: image_of(file.mapping, 0).plan)
    monkeypatch.setattr(own_links, "exists", lambda pid: pid in made.maps)
    monkeypatch.setattr(others, "mapped_files", lambda pid: made.maps.get(pid, []))
    monkeypatch.setattr(others, "process_of", lambda pid: Process(pid, 1, "other", 0) if pid in made.maps else None)
    monkeypatch.setattr(others, "_pids", lambda: list(made.maps))
    opened = iter(range(50, 5000))
    monkeypatch.setattr(
        new_files, "open_images", lambda files, *_: tuple(image_of(each.mapping, next(opened), each.pid) for each, _ in files)
    )
    return made
