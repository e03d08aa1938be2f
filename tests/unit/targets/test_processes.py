# SPDX-License-Identifier: Apache-2.0
"""The list of processes and the family tree, on made-up trees and on our own processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import Process, all_processes, descendants


def test_reads_name_parent_and_start_time(proc: Path, add_process: Callable[..., Path]) -> None:
    add_process(20, ppid=7, comm=b"nginx")
    add_process(7)
    assert all_processes(proc) == [Process(7, 1, "server", 1007), Process(20, 7, "nginx", 1020)]


@pytest.mark.parametrize(
    ("raw", "comm"),
    [
        (b"a b", "a b"),
        (b") R 1 (", ") R 1 ("),
        (b"(sd-pam)", "(sd-pam)"),
        (b"new\nline", "new\nline"),
        (b"\xff", "\\xff"),
        (b"", ""),
    ],
)
def test_any_name_is_read_whole(proc: Path, add_process: Callable[..., Path], raw: bytes, comm: str) -> None:
    add_process(20, ppid=7, comm=raw)
    assert all_processes(proc) == [Process(20, 7, comm, 1020)]


def test_leaves_out_what_vanishes_or_is_cut_short(proc: Path, add_process: Callable[..., Path]) -> None:
    add_process(1)
    (proc / "2").mkdir()
    (proc / "3").mkdir()
    (proc / "3" / "stat").write_bytes(b"")
    (proc / "4").mkdir()
    (proc / "4" / "stat").write_bytes(b"4 (half) S 1 0")
    (proc / "uptime").write_text("1 1")
    assert [process.pid for process in all_processes(proc)] == [1]


def test_missing_proc_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SsllatencyError, match=r"Can't list the processes in .*absent.*mount"):
        all_processes(tmp_path / "absent")


def test_descendants_are_the_whole_subtree_in_order() -> None:
    family = [Process(pid, ppid, "x", 0) for pid, ppid in [(9, 5), (1, 0), (5, 1), (7, 5), (8, 7), (6, 1), (3, 8)]]
    assert [process.pid for process in descendants(5, family)] == [3, 7, 8, 9]
    assert descendants(6, family) == []


def test_a_ring_of_reused_pids_ends() -> None:
    ring = [Process(5, 7, "x", 0), Process(6, 5, "x", 0), Process(7, 6, "x", 0), Process(8, 8, "x", 0)]
    assert [process.pid for process in descendants(5, ring)] == [6, 7]
    assert descendants(8, ring) == []


def test_sees_itself_and_its_children(spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    child = spawn("sleep", "60")
    processes = all_processes()
    own = next(process for process in processes if process.pid == os.getpid())
    assert own.ppid == os.getppid()
    found = next(process for process in descendants(os.getpid(), processes) if process.pid == child.pid)
    assert found.comm == "sleep"
    assert found.start_time >= own.start_time
