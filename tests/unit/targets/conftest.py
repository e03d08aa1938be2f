# SPDX-License-Identifier: Apache-2.0
"""A made-up /proc tree in a temporary folder, filled one process at a time, and real processes to look at."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssllatency.targets import file_identity

AddProcess = Callable[..., Path]
Spawn = Callable[..., subprocess.Popen[bytes]]
MapsLine = Callable[..., str]


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


@pytest.fixture
def add_process(proc: Path) -> AddProcess:
    """add_process(pid, ppid=…, comm=…, maps=…, exe=…): makes the process' folder and returns it."""

    def add(pid: int, ppid: int = 1, comm: bytes = b"server", maps: str = "", exe: str = "", root: str = "/") -> Path:
        folder = proc / str(pid)
        folder.mkdir()
        rest = [b"S", str(ppid).encode(), *[b"0"] * 17, str(1000 + pid).encode(), *[b"0"] * 30]
        (folder / "stat").write_bytes(b"%d (%s) %s\n" % (pid, comm, b" ".join(rest)))
        (folder / "maps").write_text(maps)
        (folder / "map_files").mkdir()
        (folder / "root").symlink_to(root)
        if exe:
            (folder / "exe").symlink_to(exe)
        return folder

    return add


@pytest.fixture
def maps_line() -> MapsLine:
    """maps_line(file, path=…, start=…): the line of a maps file that says `file` is mapped executable, as `path`."""

    def line(file: Path, path: str = "", start: int = 0x7F0000000000) -> str:
        major, minor, inode = file_identity(file)
        return f"{start:08x}-{start + 4096:08x} r-xp 00000000 {major:02x}:{minor:02x} {inode}   {path or file}\n"

    return line


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts a real process and waits until it runs what it was asked to run; ends it after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        started.append(child)
        name = Path(command[0]).name[:15]
        deadline = time.monotonic() + 10
        while Path(f"/proc/{child.pid}/comm").read_text().rstrip() != name:
            assert time.monotonic() < deadline, f"{command} did not start"
            time.sleep(0.005)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()
