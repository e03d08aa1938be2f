# SPDX-License-Identifier: Apache-2.0
"""Opening the very file that a process maps, and nothing else that may lie at its path."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import MappedFile, executable_path, file_identity, mapped_files, name_processes, open_mapped
from ssllatency.targets.identity import _numbers_at
from ssllatency.targets.opening import is_in_user_space

AddProcess = Callable[..., Path]
Spawn = Callable[..., subprocess.Popen[bytes]]
SELF = os.getpid()


def mapped_as(file: Path, path: str) -> MappedFile:
    major, minor, inode = file_identity(file)
    return MappedFile(path, (major, minor), inode, "7f00-7f10", False)


def set_trap(trap: str, path: Path, secret: Path) -> None:
    """Puts something else where the mapped library was."""
    match trap:
        case "replaced":
            path.write_bytes(b"a newer library")
        case "link":
            path.symlink_to(secret)
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "empty":
            path.touch()
        case _:
            assert trap == "gone"


def content(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "jail" / "lib.so"
    file.parent.mkdir()
    file.write_bytes(b"the mapped library")
    return file


def test_the_kernels_handle_wins_over_the_path(proc: Path, add_process: AddProcess, library: Path) -> None:
    mapped = mapped_as(library, "/lib.so")
    held = library.rename(library.with_name("held"))
    library.write_bytes(b"a newer library, with the old name")
    (add_process(20, root=str(library.parent)) / "map_files" / "7f00-7f10").symlink_to(held)
    assert content(open_mapped(20, mapped, proc)) == b"the mapped library"


def test_the_path_counts_from_the_process_root(proc: Path, add_process: AddProcess, library: Path) -> None:
    add_process(20, root=str(library.parent))
    fd = open_mapped(20, mapped_as(library, "/lib.so"), proc)
    assert not os.get_inheritable(fd)
    assert content(fd) == b"the mapped library"


def test_a_path_from_our_root_serves_a_process_that_changed_its_own(proc: Path, add_process: AddProcess, library: Path) -> None:
    add_process(20, root=str(library.parent))
    assert content(open_mapped(20, mapped_as(library, str(library)), proc)) == b"the mapped library"


def test_a_handle_that_now_names_another_file_is_not_used(proc: Path, add_process: AddProcess, library: Path) -> None:
    """The process unmapped the library meanwhile, and something else took its addresses."""
    other = library.with_name("other.so")
    other.write_bytes(b"another library")
    (add_process(20, root=str(library.parent)) / "map_files" / "7f00-7f10").symlink_to(other)
    assert content(open_mapped(20, mapped_as(library, "/lib.so"), proc)) == b"the mapped library"


@pytest.mark.parametrize("trap", ["replaced", "link", "fifo", "folder", "device", "empty", "gone"])
def test_nothing_else_at_the_path_is_accepted(proc: Path, add_process: AddProcess, library: Path, trap: str) -> None:
    add_process(20, root=str(library.parent))
    mapped = mapped_as(library, "/lib.so")
    secret = library.with_name("secret")
    secret.write_bytes(b"not yours")
    library.rename(library.with_name("held"))
    set_trap(trap, library, secret)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(SsllatencyError, match=r"process 20 maps as /lib\.so can't be reached any more: restart"):
        open_mapped(20, mapped, proc)
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


@pytest.mark.parametrize("path", ["/link/lib.so", "/deep/up/lib.so", "/../jail/lib.so", "/./lib.so", "/lib.so/lib.so"])
def test_no_link_is_followed_on_the_way(proc: Path, add_process: AddProcess, library: Path, path: str) -> None:
    """Even to the right file: the kernel shows paths without links, so this one was put there later."""
    jail = library.parent
    (jail / "deep").mkdir()
    (jail / "link").symlink_to(jail)
    (jail / "deep" / "up").symlink_to("..")
    add_process(20, root=str(jail))
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(SsllatencyError, match="can't be reached any more"):
        open_mapped(20, mapped_as(library, path), proc)
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


def test_a_link_cannot_lead_to_a_file_of_ours(proc: Path, add_process: AddProcess, library: Path, tmp_path: Path) -> None:
    """A container's file system says /etc is a link to a folder of the host: nothing there is even opened."""
    outside = tmp_path / "outside"
    outside.mkdir()
    os.mkfifo(outside / "lib.so")
    (library.parent / "etc").symlink_to(outside)
    add_process(20, root=str(library.parent))
    with pytest.raises(SsllatencyError, match="can't be reached any more"):
        open_mapped(20, mapped_as(library, "/etc/lib.so"), proc)


def test_a_process_that_has_ended_is_named(proc: Path, library: Path) -> None:
    with pytest.raises(SsllatencyError, match="Process 20 has ended"):
        open_mapped(20, mapped_as(library, "/nowhere/lib.so"), proc)


def test_not_permitted_asks_for_root(
    proc: Path, add_process: AddProcess, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_process(20)

    def refuse(path: str, _flags: int, **_: int) -> int:
        raise PermissionError(1, "Operation not permitted", path)

    mapped = mapped_as(library, "/lib.so")
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SsllatencyError, match=r"open /lib\.so as process 20 maps it: run ssllatency as root"):
        open_mapped(20, mapped, proc)


def test_our_own_files_open_and_are_the_right_ones() -> None:
    for mapped in mapped_files(SELF):
        fd = open_mapped(SELF, mapped)
        try:
            assert os.fstat(fd).st_ino == mapped.inode
        finally:
            os.close(fd)


def test_a_deleted_program_opens_where_the_kernels_handle_is_permitted(tmp_path: Path, spawn: Spawn) -> None:
    program = Path(shutil.copy(Path(shutil.which("sleep") or "sleep").resolve(), tmp_path / "deleted-sleep"))
    original = program.read_bytes()
    child = spawn(str(program), "60")
    program.unlink()
    program.write_bytes(b"an impostor")
    [mapped] = [file for file in mapped_files(child.pid) if file.path == executable_path(child.pid)]
    assert mapped.deleted
    if handle_permitted(child.pid, mapped):
        assert content(open_mapped(child.pid, mapped)) == original
    else:
        with pytest.raises(SsllatencyError, match="run ssllatency"):
            open_mapped(child.pid, mapped)


def handle_permitted(pid: int, mapped: MappedFile) -> bool:
    try:
        os.close(os.open(f"/proc/{pid}/map_files/{mapped.address_range}", os.O_RDONLY))
    except PermissionError:
        return False
    return True


def test_identity_is_what_maps_says() -> None:
    for mapped in mapped_files(SELF):
        assert file_identity(mapped.path) == mapped.identity


@pytest.mark.parametrize("what", ["absent", "folder", "empty"])
def test_identity_of_what_nobody_can_map(tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    with pytest.raises(SsllatencyError, match=rf"{what}.*(check the path|name a library)"):
        file_identity(tmp_path / what)


def test_numbers_are_those_of_the_mapping_around_the_address() -> None:
    maps = b"1000-3000 r--p 0000 fe:00 5 /a\n3000-4000 rw-p 0000 00:2a 6 /b\n9000-a000 rw-p 0000 00:00 0\n"
    assert _numbers_at(0x2FFF, maps) == (0xFE, 0, 5)
    assert _numbers_at(0x3000, maps) == (0, 0x2A, 6)
    assert _numbers_at(0x4000, maps) is None


OURS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:24 / /dev/shm rw,nosuid shared:3 master:1 - tmpfs tmpfs rw
31 22 0:50 / /srv/a\\040-\\040tmpfs rw,nosuid shared:4 - fuse.sshfs host: rw,user_id=0
32 22 0:51 / /srv/b rw - fuseblk /dev/sda1 rw
"""
THEIRS = """\
90 80 0:60 / / rw - overlay overlay rw,lowerdir=/a
91 90 0:61 / /mnt rw - fuse weird - tmpfs rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[Path]:
    for process, text in (("self", OURS), ("7", THEIRS)):
        (tmp_path / process).mkdir()
        (tmp_path / process / "mountinfo").write_text(text)
    yield tmp_path
    name_processes(named=False)


@pytest.mark.parametrize(
    ("device", "refused"),
    [((254, 0), False), ((0, 24), False), ((0, 60), False), ((0, 50), True), ((0, 51), True), ((0, 61), True), ((0, 99), True)],
)
def test_what_a_program_serves_is_not_opened(mounts: Path, device: tuple[int, int], refused: bool) -> None:
    """Nor what is mounted nowhere any more."""
    assert is_in_user_space(7, device, mounts) is refused


def test_of_a_process_that_was_named_it_is(mounts: Path) -> None:
    name_processes(named=True)
    assert not is_in_user_space(7, (0, 61), mounts)


def test_files_in_memory_are_mounted_nowhere(mounts: Path) -> None:
    descriptor = os.memfd_create("file")
    device = os.fstat(descriptor).st_dev
    os.close(descriptor)
    assert not is_in_user_space(7, (os.major(device), os.minor(device)), mounts)
