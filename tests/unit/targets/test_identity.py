# SPDX-License-Identifier: Apache-2.0
"""Which file a mapping is of, where maps gives two files the same numbers, or one file two."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.safe_open import Status, status_now
from ssllatency.targets import (
    all_processes,
    identity,
    mapped_files,
    mapped_version,
    open_expected,
    open_mapped,
    open_shared,
    read_processes,
    tls_files,
)

AddProcess = Callable[..., Path]
FIRST, SECOND = "7f0000000000-7f0000001000", "7f0000002000-7f0000003000"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "libssl.so.3", tmp_path / "plain.so"
    for file, text in zip(made, ("libssl", " plain"), strict=True):
        file.write_text(text)
    return made


def line(address_range: str, path: Path, *, device: str = "00:2a", inode: int = 257) -> str:
    """As maps has a file of a subvolume: every one of these is 257 of the file system's device."""
    return f"{address_range} r-xp 00000000 {device} {inode}   {path}\n"


def own(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


def map_as(folder: Path, address_range: str, path: Path, **numbers: str | int) -> None:
    """A process maps the file there."""
    (folder / "map_files" / address_range).symlink_to(path)
    with (folder / "maps").open("a") as maps:
        maps.write(line(address_range, path, **numbers))  # type: ignore[arg-type]


def test_files_of_one_process_that_share_their_numbers_are_two(
    proc: Path, add_process: AddProcess, files: tuple[Path, Path]
) -> None:
    folder = add_process(10)
    for address_range, file in zip((FIRST, SECOND), files, strict=True):
        map_as(folder, address_range, file)
    found = mapped_files(10, proc)
    assert [file.identity for file in found] == [own(file) for file in files]
    assert {file.numbers for file in found} == {(0, 0x2A, 257)}


def test_a_file_by_two_paths_is_one(proc: Path, add_process: AddProcess, files: tuple[Path, Path]) -> None:
    folder, other = add_process(10), files[0].with_name("link.so")
    other.hardlink_to(files[0])
    map_as(folder, FIRST, files[0])
    map_as(folder, SECOND, other)
    assert [file.identity for file in mapped_files(10, proc)] == [own(files[0])]


@pytest.mark.parametrize("first", [0, 1])
def test_a_twin_hides_no_library(proc: Path, add_process: AddProcess, files: tuple[Path, Path], first: int) -> None:
    """Whoever of the two has the lower PID."""
    order = files if first == 0 else tuple(reversed(files))
    for pid, file in zip((10, 20), order, strict=True):
        map_as(add_process(pid), FIRST, file)
    holds = lambda fd, *_: not os.pread(fd, 1, 0).startswith(b" ")  # noqa: E731
    with ExitStack() as stack:
        (found,) = tls_files(read_processes(all_processes(proc), lambda *_: None, proc), holds, stack, proc)
        assert (found.path, found.pids) == (str(files[0]), ((10, 20)[first],))
        assert found.descriptor is not None
        assert os.pread(found.descriptor, 100, 0) == b"libssl"
    with os.fdopen(open_shared(found, proc)) as opened:
        assert opened.read() == "libssl"


def test_a_mapping_that_is_a_twins_by_now_is_not_opened(proc: Path, add_process: AddProcess, files: tuple[Path, Path]) -> None:
    folder = add_process(10)
    map_as(folder, FIRST, files[0])
    (mapped,) = mapped_files(10, proc)
    (folder / "map_files" / FIRST).unlink()
    (folder / "map_files" / FIRST).symlink_to(files[1])
    files[0].rename(files[0].with_name("away"))
    with pytest.raises(SsllatencyError, match="can't be reached any more"):
        open_mapped(10, mapped, proc)


def test_on_a_block_device_nobody_is_asked(
    proc: Path, add_process: AddProcess, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_process(10)
    for inode, (address_range, file) in enumerate(zip((FIRST, SECOND), files, strict=True), 1):
        map_as(folder, address_range, file, device="fe:00", inode=inode)
    asked: list[str] = []
    monkeypatch.setattr(identity, "status_now", asked.append)
    assert [file.identity for file in mapped_files(10, proc)] == [(0xFE, 0, 1), (0xFE, 0, 2)]
    assert asked == []


def test_where_files_have_the_file_systems_device_one_is_asked(
    proc: Path, add_process: AddProcess, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in memory, or on an overlay of one file system."""
    folder = add_process(10)
    for inode, (address_range, file) in enumerate(zip((FIRST, SECOND), files, strict=True), 1):
        map_as(folder, address_range, file, inode=inode)
    asked: list[str] = []

    def status(path: str) -> Status:
        asked.append(path)
        return Status((0, 0x2A, len(asked)), 1, 1, 1)

    monkeypatch.setattr(identity, "status_now", status)
    assert [file.identity for file in mapped_files(10, proc)] == [(0, 0x2A, 1), (0, 0x2A, 2)]
    assert len(asked) == 1


def test_who_maps_very_many_files_is_asked_about_some(
    proc: Path, add_process: AddProcess, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_process(10)
    (folder / "maps").write_text("".join(line(FIRST, files[0].with_name(f"{number}.so")) for number in range(5000)))
    asked: list[str] = []

    def status(path: str) -> Status:
        asked.append(path)
        return Status((0, 0x30, len(asked)), 1, 1, 1)

    monkeypatch.setattr(identity, "status_now", status)
    assert len(mapped_files(10, proc)) == identity._MOST_ASKED + 1
    assert len(asked) == identity._MOST_ASKED


def test_without_the_kernels_handle_the_path_tells(proc: Path, add_process: AddProcess, files: tuple[Path, Path]) -> None:
    """If the inode number is the one that maps has: an ordinary user may look at his own processes."""
    folder = add_process(10)
    (folder / "maps").write_text(line(FIRST, files[0], inode=files[0].stat().st_ino) + line(SECOND, files[1]))
    found = mapped_files(10, proc)
    assert [file.identity for file in found] == [own(files[0]), (0, 0x2A, 257)]


@pytest.mark.parametrize("change", ["replaced", "written", "none"])
def test_a_version_is_of_one_content(proc: Path, add_process: AddProcess, files: tuple[Path, Path], change: str) -> None:
    """Also where the size and the time of the last write are what they were."""
    folder = add_process(10)
    map_as(folder, FIRST, files[0], device="fe:00")
    (mapped,) = mapped_files(10, proc)
    before, status = mapped_version(10, mapped, proc), files[0].stat()
    if change == "replaced":
        files[0].unlink()
    if change != "none":
        files[0].write_text("sslssl")
        os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (mapped_version(10, mapped, proc) == before) == (change == "none")


def test_the_version_of_an_open_file_is_that_of_the_mapped_one() -> None:
    for mapped in mapped_files(os.getpid()):
        if mapped.path.startswith("/") and not mapped.deleted:
            with ExitStack() as stack:
                expected = open_expected(mapped.path, "/", stack)
                assert expected
                assert (expected.mapping.identity, expected.mapping.numbers) == (mapped.identity, mapped.numbers)
                version = mapped_version(os.getpid(), mapped)
                assert version in (expected.version, identity.FileVersion(mapped.identity))  # without times where not permitted


def test_a_status_of_a_link_of_the_kernels() -> None:
    with Path(__file__).open("rb") as file:
        told, status = status_now(f"/proc/self/fd/{file.fileno()}"), os.fstat(file.fileno())
    assert told == Status(own(Path(__file__)), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    with pytest.raises(FileNotFoundError):
        status_now("/proc/self/fd/99999")
