# SPDX-License-Identifier: Apache-2.0
"""How much is read of the files that strangers map: none of them keeps others' files from being looked into, nor for good."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssllatency.facts import NOTHING, FileFacts
from ssllatency.tracing import file_facts
from ssllatency.tracing.allowance import Allowance, SharedAllowance, host
from ssllatency.tracing.file_facts import KnownFiles, NotInspectedError

HEADER = struct.pack("<16s2HI3QI6H", b"\x7fELF\x02\x01", 3, 62, 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0)
PAGE = 4096


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def elf(path: Path, size: int, end: bytes = b"") -> Path:
    """An ELF file without section headers, of which all but the beginning and the end is a hole."""
    with path.open("wb") as file:
        file.write(HEADER)
        file.truncate(size - len(end))
        file.seek(0, os.SEEK_END)
        file.write(end)
    return path


def test_what_is_used_up_comes_back_with_time() -> None:
    now = 100.0
    allowance = Allowance(8, 4.0, lambda: now)
    allowance.use(12)  # the last may take more than is left
    assert allowance.left == -4
    now = 101.0
    assert allowance.left == -2
    now = 1000.0
    assert allowance.left == 8
    assert allowance.is_whole


def test_in_a_container_the_hosts_own_files_are_those_of_its_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own root is the container's. Where that process may not be looked at, there is nothing of the host's to see."""
    monkeypatch.setattr("ssllatency.tracing.allowance._ROOTS", (tmp_path, Path("/proc/self")))
    ours, hosts = ((0, folder.stat().st_dev) for folder in (tmp_path, Path("/proc/self")))
    assert host() == {ours, hosts}
    shared = SharedAllowance(400, 10.0, host())
    shared.use((1000, ours[1]), 1000)
    assert shared.has_room(ours)
    assert shared.has_room(hosts)
    assert not shared.has_room((1000, hosts[1]))
    monkeypatch.setattr("ssllatency.tracing.allowance._ROOTS", (tmp_path, tmp_path / "gone"))
    assert host() == {ours}


def test_no_user_takes_all_and_nobody_takes_the_hosts() -> None:
    now = 0.0
    shared = SharedAllowance(400, 10.0, {"host"}, lambda: now)
    shared.use("eve", 100)
    assert not shared.has_room("eve")
    assert shared.has_room("bob")
    for friend in ("mallory", "oscar", "trudy"):
        shared.use(friend, 100)
    assert not shared.has_room("bob")
    assert shared.has_room("host")
    now = 1.0
    assert shared.has_room("bob")
    assert shared.has_room("eve")
    for number in range(5000):
        shared.use(number, 1e9)
    assert len(shared._users) <= 1024
    now = 1e12
    shared.use("new", 1)
    assert len(shared._users) == 1


def makes_holes(folder: Path) -> bool:
    """Whether the file system makes holes, and tells where they are."""
    with opened(elf(folder / "hole", 1 << 20, b"end")) as fd:
        return os.lseek(fd, 1 << 16, os.SEEK_DATA) > 1 << 16


def test_large_files_that_are_mostly_holes_use_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not makes_holes(tmp_path):
        pytest.skip(f"the file system of {tmp_path} makes no holes, or doesn't tell where they are")
    monkeypatch.setattr(file_facts, "most_copied", lambda: 1 << 30)  # less where our control group has little memory
    known = KnownFiles(lambda *_: FileFacts(("libssl",)))
    for number in range(16):  # of 1 GiB each
        with opened(elf(tmp_path / f"sparse{number}", 1 << 30)) as fd:
            assert known.describe(fd, "/tmp/sparse") == NOTHING
            assert not known.holds_traced(fd, "/tmp/sparse")
    with opened(elf(tmp_path / "server", 1 << 30, b"ssl/ssl_lib.c\0")) as fd:
        assert known.holds_traced(fd, "/opt/server")
    assert not known.unlooked


def test_a_file_for_which_there_is_no_room_is_looked_into_later(tmp_path: Path) -> None:
    now = 0.0
    known = KnownFiles(lambda *_: FileFacts(("libssl",)))
    known._bytes = SharedAllowance(PAGE, 10.0, {"host"}, lambda: now)
    with opened(elf(tmp_path / "first", PAGE)) as first, opened(elf(tmp_path / "server", PAGE, b"ssl/ssl_lib.c\0")) as server:
        assert not known.holds_traced(first, "/tmp/first")
        with pytest.raises(NotInspectedError, match="Too many or too large files") as refused:
            known.holds_traced(server, "/opt/server")
        assert refused.value.for_now
        assert known.describe(server, "/opt/server") == NOTHING
        assert list(known.unlooked) == [str(refused.value)]
        now = 1000.0
        assert known.holds_traced(server, "/opt/server")


def test_what_is_remembered_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_facts, "_MOST", 4)
    known = KnownFiles(lambda *_: NOTHING)
    for number in range(9):
        with opened(elf(tmp_path / str(number), PAGE)) as fd:
            known.describe(fd, "/tmp/plain")
    assert len(known._used) == 4
