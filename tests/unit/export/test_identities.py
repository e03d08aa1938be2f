# SPDX-License-Identifier: Apache-2.0
"""What is kept of processes and containers: no longer than it is true, and of no more than so many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from ssllatency import targets
from ssllatency.export import identities
from ssllatency.export.identities import Bounded, Identities
from ssllatency.export.process_handles import ProcessHandles
from ssllatency.export.services import Services
from ssllatency.targets import Process

BEYOND_ALL_PIDS = 1 << 22
ID, OTHER = "0123456789abcdef" * 4, "a" * 64


def test_the_values_used_longest_ago_make_room() -> None:
    kept: Bounded[str, int] = Bounded(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert [kept.get(key) for key in "abc"] == [1, None, 3]
    kept.put("a", 4)
    kept.drop("c")
    kept.drop("c")
    assert (len(kept), kept.get("a"), kept.get("c")) == (1, 4, None)


def docker(root: Path, container_id: str, name: str, image: str) -> None:
    folder = root / "var/lib/docker/containers" / container_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.v2.json").write_text(json.dumps({"Name": f"/{name}", "Config": {"Image": image}}))


def test_a_container_keeps_its_name_and_image(tmp_path: Path) -> None:
    docker(tmp_path, ID, "shop", "shop/web:2.7")
    found = Identities(root=tmp_path)
    assert (found.name_of(ID), found.image_of(ID)) == ("shop", "shop/web:2.7")
    docker(tmp_path, ID, "other", "other:1")
    assert (found.name_of(ID), found.image_of(ID)) == ("shop", "shop/web:2.7")
    assert (found.name_of(OTHER), found.image_of(OTHER)) == ("", "")


def test_a_name_that_was_not_found_is_looked_for_again_after_a_minute(tmp_path: Path) -> None:
    now = [1000.0]
    found = Identities(root=tmp_path, clock_s=lambda: now[0])
    assert found.name_of(ID) == ""
    docker(tmp_path, ID, "shop", "shop/web:2.7")
    now[0] += 59
    assert found.name_of(ID) == ""
    now[0] += 2
    assert found.name_of(ID) == "shop"


def test_of_too_many_containers_the_ones_used_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "_MOST_CONTAINERS", 2)
    asked: list[str] = []

    def image_of(container_id: str, _root: Path) -> str:
        asked.append(container_id)
        return "image"

    monkeypatch.setattr(identities, "image_of", image_of)
    found = Identities(root=tmp_path)
    for container_id in "abacab":
        assert found.image_of(container_id) == "image"
    assert asked == ["a", "b", "c", "b"]


def test_of_a_process_that_rests_no_file_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    pid = BEYOND_ALL_PIDS  # of which there is no handle
    clocks = {pid: 1000}

    def process_of(pid: int, _proc: Path) -> SimpleNamespace | None:
        read.append(pid)
        return SimpleNamespace(start_time=50 + clocks[pid]) if pid in clocks else None

    monkeypatch.setattr(identities, "process_clock_ns", clocks.get)
    monkeypatch.setattr(identities, "process_of", process_of)
    found = Identities()
    assert [found.started(pid), found.started(pid)] == [1050, 1050]
    assert read == [pid]
    clocks[pid] = 2000  # it has run, or the PID is another's
    assert found.started(pid) == 2050
    assert read == [pid, pid]
    del clocks[pid]
    assert [found.started(pid), found.started(pid)] == [None, None]


def test_one_look_at_a_new_process_tells_who_it_is_and_when_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one might be at another process, which has the PID by then."""
    read: list[int] = []

    def process_of(pid: int, _proc: Path) -> SimpleNamespace:
        read.append(pid)
        return SimpleNamespace(start_time=49 + len(read), comm=f"number {len(read)}")

    monkeypatch.setattr(identities, "process_clock_ns", lambda _: 1000)
    monkeypatch.setattr(identities, "process_of", process_of)
    services = Services()
    known = services.known(BEYOND_ALL_PIDS, "")
    assert (known.started, dict(known.labels)["comm"]) == (50, "number 1")
    assert services.started(BEYOND_ALL_PIDS) == 50
    assert read == [BEYOND_ALL_PIDS]


def test_when_a_real_process_started_and_that_it_has_ended() -> None:
    found = Identities()
    with subprocess.Popen(["sleep", "60"]) as process:
        first = found.started(process.pid)
        assert first
        assert found.started(process.pid) == first
        process.kill()
        process.wait()
        assert found.started(process.pid) is None


def test_of_a_process_with_a_handle_no_file_is_read_again_however_much_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def process_of(pid: int, proc: Path) -> Process | None:
        read.append(pid)
        return targets.process_of(pid, proc)

    clock = iter(range(100))
    monkeypatch.setattr(identities, "process_of", process_of)
    monkeypatch.setattr(identities, "process_clock_ns", lambda _: next(clock))
    found = Identities()
    with subprocess.Popen(["sleep", "60"]) as process:
        first = found.started(process.pid)
        assert [found.started(process.pid) for _ in range(3)] == [first] * 3
        assert read == [process.pid]
        process.kill()
        process.wait()
        assert found.started(process.pid) is None


def test_a_handle_tells_that_its_process_has_ended_before_its_parent_has_heard_of_it() -> None:
    handles = ProcessHandles(most=2)
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(subprocess.Popen(["sleep", "60"])) for _ in range(3))
        for process in (first, second, third, first):
            handles.open(process.pid)
        assert len(handles) == 2
        assert [handles.lives(process.pid) for process in (first, second, third)] == [True, True, False]
        for process in (first, second, third):
            process.kill()
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        assert not handles.lives(first.pid)
        handles.close(second.pid)
        handles.close(second.pid)
        assert len(handles) == 0
    handles.open(BEYOND_ALL_PIDS)
    assert not handles.lives(BEYOND_ALL_PIDS)


def test_a_child_that_has_the_handles_too_keeps_none_that_was_closed() -> None:
    """As one that was forked to read a file has them for a moment."""
    handles = ProcessHandles()
    with ExitStack() as stack:
        first, second = (stack.enter_context(subprocess.Popen(["sleep", "60"])) for _ in range(2))
        for process in (first, second):
            handles.open(process.pid)
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            first.kill()
            os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
            assert not handles.lives(first.pid)
            assert handles.lives(second.pid)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            second.kill()
