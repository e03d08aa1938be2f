# SPDX-License-Identifier: Apache-2.0
"""The read and write system calls of processes, as far as they are known."""

from __future__ import annotations

import os
from pathlib import Path

from ssllatency.engines.read.io_calls import IoCalls


def write(folder: Path, pid: int, text: str) -> None:
    (folder / str(pid)).mkdir(exist_ok=True)
    (folder / str(pid) / "io").write_text(text)


def test_the_calls_of_all_are_added_up_and_those_of_ended_processes_stay(tmp_path: Path) -> None:
    calls = IoCalls(tmp_path)
    assert calls.total([7]) is None
    write(tmp_path, 7, "rchar: 900\nwchar: 1\nsyscr: 30\nsyscw: 12\n")
    write(tmp_path, 8, "rchar: 900\nwchar: 1\nsyscr: 5\nsyscw: 0\n")
    assert calls.total([7, 8, 9]) == 47
    (tmp_path / "8" / "io").unlink()
    write(tmp_path, 7, "syscr: 40\nsyscw: 12\n")
    assert calls.total([7]) == 57


def test_a_file_without_the_figures_tells_nothing(tmp_path: Path) -> None:
    write(tmp_path, 7, "rchar: 900\nsyscr: many\n")
    assert IoCalls(tmp_path).total([7]) is None


def test_the_kernel_counts_reads_and_writes() -> None:
    calls = IoCalls()
    before = calls.total([os.getpid()])
    reader, writer = os.pipe()
    for _ in range(50):
        os.write(writer, b"1")
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    after = calls.total([os.getpid()])
    assert before is not None
    assert after is not None
    assert after - before >= 100


def test_of_a_process_that_has_not_run_nothing_is_read_again(tmp_path: Path) -> None:
    ran: dict[int, int | None] = {7: 100, 8: 50}
    calls = IoCalls(tmp_path, ran.get)
    for pid in (7, 8):
        write(tmp_path, pid, "syscr: 30\nsyscw: 0\n")
    assert calls.total([7, 8]) == 60
    for pid in (7, 8):
        write(tmp_path, pid, "syscr: 40\nsyscw: 0\n")
    ran[8] = 51
    assert calls.total([7, 8]) == 70
    ran[7] = None  # it has ended
    assert calls.total([7, 8]) == 70
    ran[7] = 3  # another one
    assert calls.total([7, 8]) == 80
