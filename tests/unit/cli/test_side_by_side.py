# SPDX-License-Identifier: Apache-2.0
"""Work in several processes: all of it once, and no process left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssllatency.cli.side_by_side import side_by_side


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """On three processors; the processes that are forked, none of which may be left."""
    found: list[int] = []
    fork = os.fork

    def noted() -> int:
        found.append(fork())
        return found[-1]

    monkeypatch.setattr(os, "fork", noted)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    yield found
    for pid in found:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def note(path: Path) -> Callable[[], None]:
    """A task that leaves a line with its process's number."""

    def task() -> None:
        with path.open("a") as file:
            file.write(f"{os.getpid()}\n")

    return task


def meet(path: Path, other: Path) -> Callable[[], None]:
    """A task that ends only when another has begun."""

    def task() -> None:
        path.touch()
        until = time.monotonic() + 20
        while not other.exists():
            assert time.monotonic() < until
            time.sleep(0.001)
        note(path)()

    return task


def test_each_task_is_run_once(tmp_path: Path, children: list[int]) -> None:
    side_by_side([note(tmp_path / str(number)) for number in range(100)])
    assert [len((tmp_path / str(number)).read_text().splitlines()) for number in range(100)] == [1] * 100
    assert len(children) == 2


def test_tasks_run_at_the_same_time_in_processes_of_their_own(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    side_by_side([meet(first, second), meet(second, first)])
    assert len({first.read_text(), second.read_text()}) == 2
    assert str(os.getpid()) in {first.read_text().strip(), second.read_text().strip()}


def test_what_is_done_meanwhile_is_done_here_while_the_first_task_runs(tmp_path: Path) -> None:
    side_by_side([meet(tmp_path / "a", tmp_path / "b"), note(tmp_path / "c")], meet(tmp_path / "b", tmp_path / "a"))
    assert (tmp_path / "b").read_text() == f"{os.getpid()}\n" != (tmp_path / "a").read_text()


def test_an_error_ends_its_task_only(tmp_path: Path) -> None:
    side_by_side([lambda: 1 / 0, note(tmp_path / "done"), (tmp_path / "missing").stat, note(tmp_path / "also")])
    assert (tmp_path / "done").exists()
    assert (tmp_path / "also").exists()


def test_without_more_processes_one_does_it_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError("no more processes are allowed")

    monkeypatch.setattr(os, "fork", refuse)
    side_by_side([note(tmp_path / str(number)) for number in range(3)])
    assert {(tmp_path / str(number)).read_text() for number in range(3)} == {f"{os.getpid()}\n"}
