# SPDX-License-Identifier: Apache-2.0
"""The target options: whom each selects, and what is said where nobody fits."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import Selection, mapped_files, select

# No machine gives out PIDs above 2**22, so none of these is the test's own.
A, B, C, D = (5_000_000 + number for number in range(4))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "libssl.so.3"
    file.write_bytes(b"code")
    return file


@pytest.fixture
def family(proc: Path, add_process: Callable[..., Path], maps_line: Callable[..., str], library: Path) -> Path:
    add_process(A, comm=b"nginx")
    add_process(B, ppid=A, comm=b"nginx", maps=maps_line(library, path="/in/its/container/libssl.so.3"))
    add_process(C, ppid=B, comm=b"helper")
    add_process(D, comm=b"fifteen-bytes-a", maps=maps_line(library))
    return proc


def pids(selection: Selection, proc: Path) -> list[int]:
    return [process.pid for process in select(selection, proc)]


def test_a_pid_brings_its_descendants(family: Path) -> None:
    assert pids(Selection(pids=(A,)), family) == [A, B, C]
    assert pids(Selection(pids=(C,)), family) == [C]
    assert pids(Selection(pids=(C, B)), family) == [B, C]


def test_by_exact_name(family: Path) -> None:
    assert pids(Selection(comms=("nginx",)), family) == [A, B]
    with pytest.raises(SsllatencyError, match=r"No process is named ngin: did you mean nginx\? check the name"):
        select(Selection(comms=("ngin",)), family)


def test_a_long_name_is_cut_as_the_kernel_cuts_it(family: Path) -> None:
    assert pids(Selection(comms=("fifteen-bytes-and-more",)), family) == [D]


def test_names_and_libraries_add_up(family: Path, library: Path) -> None:
    assert pids(Selection(comms=("nginx", "helper")), family) == [A, B, C]
    assert pids(Selection(comms=("helper",), libraries=(str(library),)), family) == [B, C, D]
    with pytest.raises(SsllatencyError, match="No process is named absent"):
        select(Selection(comms=("nginx", "absent")), family)


def test_by_library_whatever_path_it_has(family: Path, library: Path) -> None:
    assert pids(Selection(libraries=(str(library),)), family) == [B, D]
    link = library.with_name("link")
    link.symlink_to(library)
    assert pids(Selection(libraries=(str(link),)), family) == [B, D]


def test_a_library_that_nobody_maps(family: Path, library: Path) -> None:
    copy = library.with_name("copy")
    copy.write_bytes(library.read_bytes())
    with pytest.raises(SsllatencyError, match=r"No process maps .*copy: check"):
        select(Selection(libraries=(str(copy),)), family)


def test_everything_and_unions(family: Path) -> None:
    assert pids(Selection(everything=True), family) == [A, B, C, D]
    assert pids(Selection(pids=(C,), comms=("nginx",)), family) == [A, B, C]


def test_nothing_named_is_misuse(family: Path) -> None:
    with pytest.raises(SsllatencyError, match="add -p PID") as caught:
        select(Selection(), family)
    assert caught.value.status == 2


def test_a_pid_that_is_not_there(family: Path) -> None:
    with pytest.raises(SsllatencyError) as caught:
        select(Selection(pids=(A, 1234)), family)
    assert str(caught.value) == "There is no process 1234: check the PID (pgrep -a nginx shows candidates)."


def test_a_process_that_may_not_be_searched_is_reported(family: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes = Path.read_bytes

    def refuse_one(path: Path) -> bytes:
        if path == family / str(B) / "maps":
            raise PermissionError(13, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse_one)
    with pytest.raises(SsllatencyError, match=f"process {B}"):
        select(Selection(libraries=(str(library),)), family)
    problems: list[SsllatencyError] = []
    found = select(Selection(libraries=(str(library),)), family, problem=problems.append)
    assert [process.pid for process in found] == [D]
    assert [str(B) in str(problem) for problem in problems] == [True]


def test_a_thread_is_traced_back_to_its_process() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(SsllatencyError, match=f"{thread.native_id} is a thread of process {os.getpid()}"):
            select(Selection(pids=(thread.native_id or 0,)))
    finally:
        done.set()
        thread.join()


def test_no_name_of_a_thread_poses_as_its_process(proc: Path) -> None:
    (proc / "5000001").mkdir()
    (proc / "5000001" / "status").write_bytes(b"Name:\t\rTgid: x\nTgid:\t5000000\n")
    with pytest.raises(SsllatencyError, match="5000001 is a thread of process 5000000"):
        select(Selection(pids=(5000001,)), proc)


def test_real_processes_by_library_without_ourselves(spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    child = spawn("sleep", "60")
    own, deadline = {file.path for file in mapped_files(os.getpid())}, time.monotonic() + 30
    while not (shared := own & {file.path for file in mapped_files(child.pid)}):  # the loader may not have mapped it yet
        assert time.monotonic() < deadline, "sleep and Python share no library"
        time.sleep(0.01)
    # Even root may be refused by some process, which is no matter here.
    found = {process.pid for process in select(Selection(libraries=(min(shared),)), problem=lambda _: None)}
    assert child.pid in found
    assert os.getpid() not in found
    assert child.pid in {process.pid for process in select(Selection(pids=(os.getpid(),)))}
