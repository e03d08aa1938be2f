# SPDX-License-Identifier: Apache-2.0
"""What a run remembers of files: nothing that is true of one file is believed of another that has its numbers."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.safe_open import Status
from ssllatency.targets import FileVersion, MappedFile, mapped_files
from ssllatency.tracing import seen_files
from ssllatency.tracing.seen_files import SeenFiles

GONE = 1 << 22  # no PID


def file(inode: int = 11, *, path: str = "/usr/lib/libssl.so.3", device: tuple[int, int] = (8, 1)) -> MappedFile:
    return MappedFile(path, device, inode, "1000-2000", False)


def of_subvolume(number: int, path: str = "/usr/lib/libssl.so.3") -> MappedFile:
    """All of them are 257 of one file system in maps."""
    return replace(file(257, path=path, device=(0, 0x2A)), own_identity=(0, number, 257))


def seen(*traced: MappedFile) -> SeenFiles:
    return SeenFiles(traced)


def told(each: MappedFile, generation: int = 5, *, pid: int = GONE, path: str = "") -> MappingNotice:
    return MappingNotice(pid, 1, path or each.path, each.numbers, generation, each.address_range)


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[tuple[MappedFile, Path]]:
    """A file that this process maps as code."""
    path = tmp_path / "plain.so"
    path.write_bytes(bytes(mmap.PAGESIZE))
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC):
        yield next(each for each in mapped_files(os.getpid()) if each.path == str(path)), path


def test_a_traced_file_is_that_file_alone() -> None:
    files = seen(of_subvolume(0x30), file())
    assert files.number_of(of_subvolume(0x30)) == 0
    assert files.number_of(of_subvolume(0x31)) is None
    assert files.certain(told(file())) == 1
    assert files.certain(told(of_subvolume(0x30))) is None


def test_a_mapping_is_told_by_what_its_process_maps() -> None:
    files, ours, twin = seen(of_subvolume(0x30)), of_subvolume(0x30), of_subvolume(0x31)
    assert files.number_told(told(ours), [file(), ours]) == 0
    assert files.number_told(told(ours), [file(), twin]) is None
    assert files.number_told(told(ours), [twin, ours]) == 0
    assert files.number_told(told(ours), []) == 0  # it is gone: by its path
    assert files.number_told(told(ours, path="/tmp/other.so"), []) is None


def test_where_notices_have_other_numbers_the_name_tells() -> None:
    """As of an overlay, on some kernels."""
    files, ours = seen(of_subvolume(0x30)), of_subvolume(0x30)
    assert files.number_told(told(file(99)), [ours]) == 0
    assert files.may_be_traced(told(file(99)))
    assert not files.may_be_traced(told(file(99, path="/usr/lib/libz.so.1")))


@pytest.mark.parametrize(("generation", "settled"), [(5, True), (6, False), (0, False)])
def test_of_who_is_gone_the_generation_tells(generation: int, settled: bool) -> None:
    files = seen()
    files.settle(file().identity, file().numbers, 5)
    assert files.is_settled(told(file(), generation)) == settled


def test_of_who_is_gone_nothing_is_believed_where_numbers_are_shared() -> None:
    files, twin = seen(), of_subvolume(0x31)
    files.settle(twin.identity, twin.numbers, 5)
    assert not files.is_settled(told(twin))


@pytest.mark.parametrize("change", ["none", "written"])
def test_a_file_is_asked_for_its_version_in_each_look(
    mapped: tuple[MappedFile, Path], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """And one that was written to, or has the numbers of another, is unknown again."""
    ours, path = mapped
    if os.geteuid():
        status = lambda *_: Status(ours.identity, *FileVersion(ours.identity, 1, 1, os.stat(path).st_ctime_ns)[1:])  # noqa: E731, PTH116
        monkeypatch.setattr(seen_files, "status_told", status)
        monkeypatch.setattr(seen_files, "mapped_version", lambda *_: FileVersion(*status()))
    files, pid = seen(), os.getpid()
    files.dismiss(pid, ours)
    mapping = told(ours, pid=pid)
    assert files.is_dismissed(pid, ours)
    assert files.is_settled(mapping)
    if change == "written":
        path.write_bytes(b"1" * mmap.PAGESIZE)
    files.begin_look()
    assert files.is_dismissed(pid, ours) == (change == "none")
    assert files.is_settled(mapping) == (change == "none")


def test_a_twin_of_a_known_file_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    files, twin = seen(), of_subvolume(0x31)
    monkeypatch.setattr(seen_files, "mapped_version", lambda _, each: FileVersion(each.identity, 1, 1, 1))
    files.examine(1, [twin])
    for number, known in ((0x31, True), (0x30, False)):
        monkeypatch.setattr(seen_files, "status_told", lambda *_, number=number: Status((0, number, 257), 1, 1, 1))
        assert files.is_settled(told(twin, pid=2)) == known
    assert files.is_examined(1, twin)
    assert not files.is_examined(1, of_subvolume(0x30))


def test_a_traced_file_is_never_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    files = seen(of_subvolume(0x30))
    monkeypatch.setattr(seen_files, "status_told", lambda *_: Status((0, 0x30, 257), 1, 1, 1))
    files.examine_version(FileVersion((0, 0x30, 257), 1, 1, 1))
    assert not files.is_settled(told(of_subvolume(0x30)))


def test_what_is_remembered_of_files_is_forgotten_in_the_end_and_no_file_is_taken_for_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seen_files, "mapped_version", lambda _, each: FileVersion(each.identity, 1, 1, 1))
    monkeypatch.setattr(seen_files, "_MOST_DISMISSED", 3)
    monkeypatch.setattr(seen_files, "_MOST_EXAMINED", 3)
    files, them = seen(), [file(inode) for inode in range(100, 105)]
    for each in them:
        files.dismiss(1, each)
        files.examine(1, [each])
        files.settle(each.identity, each.numbers, 5)
    assert [files.is_dismissed(1, each) for each in them] == [False, False, True, True, True]
    assert [files.is_examined(1, each) for each in them] == [False, False, True, True, True]
    assert [files.is_settled(told(each)) for each in them] == [False, False, True, True, True]
    assert not files.is_dismissed(1, file(999))
    files.unexamine(1, them)
    assert not any(files.is_examined(1, each) for each in them)
