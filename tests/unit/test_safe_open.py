# SPDX-License-Identifier: Apache-2.0
"""Files of targets: opened below their root alone, and touched only if they are regular."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_for

from ssllatency import safe_open
from ssllatency.elf.source import ElfError, ElfSource
from ssllatency.probes.cache import store
from ssllatency.safe_open import (
    NotRegular,
    handle_below,
    open_below,
    open_regular,
    stat_below,
    stat_regular_below,
    walk_watching,
)

SPARSE = 5 << 30
REFUSED = OSError  # of any kind: what matters is that nothing is opened


@pytest.fixture(params=["openat2", "folder by folder"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target's tree, resolved by the kernel or by the walk that stands in for it."""
    if request.param != "openat2":
        monkeypatch.setattr(safe_open, "_resolve", lambda *_: None)
    folder = tmp_path / "root"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/libssl.so").write_bytes(b"theirs")
    (tmp_path / "secret").write_bytes(b"the host's")
    return folder


@pytest.fixture
def waiting_writer(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits until somebody opens root/lib/pipe for reading."""
    os.mkfifo(root / "lib/pipe")
    with subprocess.Popen(["sh", "-c", "echo >&2; exec >lib/pipe"], cwd=root, stderr=subprocess.PIPE) as process:
        assert process.stderr
        process.stderr.read(1)
        wait_for(lambda: _sleeps(process.pid))
        yield process
        process.kill()


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def content(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


def test_a_file_below_the_root(root: Path) -> None:
    fd = open_below(root, "/lib/libssl.so")
    assert not os.get_inheritable(fd)
    assert content(fd) == b"theirs"
    assert content(open_below(root, "lib/libssl.so")) == b"theirs"


@pytest.mark.parametrize("where", ["lib/link", "folder/secret"])
@pytest.mark.parametrize("how", ["absolute", "upwards"])
def test_a_link_never_leads_to_a_file_of_the_host(root: Path, where: str, how: str) -> None:
    outside = root.parent if how == "absolute" else Path("../../../../../../../../..") / root.parent.relative_to("/")
    (root / "lib/link").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    with pytest.raises(REFUSED):
        open_below(root, where)
    with pytest.raises(REFUSED):
        stat_below(root, where, links=False)


def test_a_link_within_the_tree_is_followed_by_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libssl.so").write_bytes(b"theirs")
    (tmp_path / "debug").symlink_to("/lib/libssl.so")
    assert content(open_below(tmp_path, "debug")) == b"theirs"
    with pytest.raises(REFUSED):
        handle_below(tmp_path, "debug", links=False)


@pytest.mark.usefixtures("waiting_writer")
def test_a_pipe_is_not_opened(root: Path, waiting_writer: subprocess.Popen[bytes]) -> None:
    """Whoever opens it for reading lets its writer go on, which is how a container would see what root looks at."""
    with pytest.raises(NotRegular, match="not a regular file"):
        open_below(root, "lib/pipe")
    with pytest.raises(NotRegular, match="not a regular file"):
        open_regular(root / "lib/pipe")
    with pytest.raises(ElfError, match="not a regular file"):
        ElfSource.open_below(str(root), "lib/pipe", "/lib/pipe")
    with pytest.raises(ElfError, match="not a regular file"):
        ElfSource.open(root / "lib/pipe", "/lib/pipe")
    assert store.digest(root / "lib/pipe") == ""
    time.sleep(0.2)
    assert waiting_writer.poll() is None
    os.close(os.open(root / "lib/pipe", os.O_RDONLY | os.O_NONBLOCK))
    assert waiting_writer.wait(10) == 0  # so it would have been seen


def test_a_device_is_not_opened() -> None:
    """Each opening of /dev/ptmx makes a terminal."""
    before = sorted(Path("/dev/pts").iterdir()) if Path("/dev/ptmx").exists() else pytest.skip("there is no /dev/ptmx")
    for opening in (
        lambda: open_below("/", "dev/pts/ptmx"),
        lambda: open_below("/", "dev/zero"),
        lambda: open_regular("/dev/ptmx"),
    ):
        with pytest.raises(REFUSED):
            os.close(opening())
    assert sorted(Path("/dev/pts").iterdir()) == before


@pytest.mark.parametrize("path", ["proc/self/exe", "proc/self/root/etc/passwd", "proc/self/cwd"])
def test_links_of_proc_are_not_followed(path: str) -> None:
    with pytest.raises(REFUSED):
        open_below("/", path)


@pytest.mark.parametrize("path", ["proc/version", "proc/self/maps", "sys/kernel/notes"])
def test_what_the_kernel_makes_up_is_not_opened(path: str) -> None:
    if not Path("/", path).exists():
        pytest.skip(f"there is no /{path}")
    with pytest.raises(OSError, match="regular file of a disk"):
        open_below("/", os.path.realpath(f"/{path}"))


def test_a_huge_sparse_file_is_refused_unread(root: Path) -> None:
    with (root / "lib/sparse").open("wb") as file:
        file.truncate(SPARSE)
    with pytest.raises(NotRegular, match="larger than 2 GiB"):
        open_below(root, "lib/sparse")
    with pytest.raises(NotRegular, match="larger than 4 GiB"):
        open_regular(root / "lib/sparse")


@pytest.mark.parametrize("path", ["", "lib/no", "lib/libssl.so/x", "a\0b", "x" * 5000, "lib"])
def test_what_is_no_path_to_a_file_is_an_error_and_leaves_nothing_open(root: Path, path: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(REFUSED):
        os.close(open_below(root, path))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("path", ["../secret", "lib/../../secret"])
def test_no_path_leads_upwards(root: Path, path: str) -> None:
    with pytest.raises(REFUSED):
        open_below(root, path)


@pytest.mark.parametrize("trap", ["pipe", "folder", "device", "dangling", "outside", "nothing"])
def test_what_would_not_be_opened_is_no_debug_file(root: Path, trap: str) -> None:
    """Neither one that has come, for which a plan would be made anew each time, nor one that is still the same."""
    place = root / "usr/lib/debug/.build-id/ab/cd.debug"
    place.parent.mkdir(parents=True)
    match trap:
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "device":
            place.symlink_to("/dev/null")
        case "dangling":
            place.symlink_to("nowhere")
        case "outside":
            place.symlink_to(root.parent / "secret")
    assert not store.debug_file_has_come("abcd", [str(root)])
    with pytest.raises(OSError, match=r".*"):
        stat_regular_below(root, str(place.relative_to(root)))
    with pytest.raises(OSError, match=r".*"):
        open_below(root, str(place.relative_to(root)))


def test_a_debug_file_that_would_be_opened_has_come(root: Path) -> None:
    place = root / "usr/lib/debug/.build-id/ab/cd.debug"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"symbols")
    assert store.debug_file_has_come("abcd", [str(root)])
    assert stat_regular_below(root, str(place.relative_to(root))).st_size == 7


def proc_is_served(handle: int, _above: int = -1) -> bool:
    return safe_open.file_system_of(handle) == 0x9FA0


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("lib/libssl.so", b"theirs"),
        ("/lib/../lib/./libssl.so", b"theirs"),
        ("../../lib/libssl.so", b"theirs"),  # the root stands for what is above it
        ("usr/libssl.so", b"theirs"),
        ("absolute/libssl.so", b"theirs"),
        ("upwards", None),
        ("round", None),
        ("lib/libssl.so/x", None),
        ("gone", None),
    ],
)
def test_a_path_is_walked_within_the_root(tmp_path: Path, path: str, found: bytes | None) -> None:
    root, before = tmp_path / "root", len(list(Path("/proc/self/fd").iterdir()))
    (root / "lib").mkdir(parents=True)
    (root / "lib/libssl.so").write_bytes(b"theirs")
    (tmp_path / "secret").write_bytes(b"the host's")
    for name, leads_to in (("usr", "lib"), ("absolute", "/usr"), ("upwards", "../../secret"), ("round", "round")):
        (root / name).symlink_to(leads_to)
    folder = os.open(root, os.O_PATH)
    try:
        if found is None:
            with pytest.raises(OSError, match=r"\[Errno"):
                walk_watching(folder, path, proc_is_served)
        else:
            assert content(safe_open.open_handle(walk_watching(folder, path, proc_is_served))) == found
    finally:
        os.close(folder)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("way", ["proc/version", "link/version", "proc"])
def test_nothing_is_looked_up_below_what_a_program_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """/proc stands for such a file system here: the folder is reached by its name, and no name in it."""
    opened: list[str] = []

    def opening(path: str, flags: int, **where: int) -> int:
        opened.append(path)
        return really(path, flags, **where)

    really = os.open
    (tmp_path / "link").symlink_to("/proc")
    folder = os.open("/", os.O_PATH)
    monkeypatch.setattr(os, "open", opening)
    try:
        with pytest.raises(NotRegular, match="file system in user space"):
            walk_watching(folder, way.replace("link", f"{tmp_path}/link"), proc_is_served)
    finally:
        os.close(folder)
    assert opened[-1] == "proc"


KINDS = {"proc": False, "fuse": True, "fuse.sshfs": True, "fuseblk": True, "fuseblk.ntfs": True, "fusectl": False}.items()


def test_mounts_are_told_by_the_kernels_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(text: str) -> safe_open.Mounts:
        monkeypatch.setattr(safe_open, "_list_at", lambda _: text.encode())
        return safe_open.Mounts(tmp_path)

    with (tmp_path / "file").open("wb") as file, Path("/proc/self/stat").open("rb") as made_up:
        number, status = safe_open.mount_of(made_up.fileno()), os.fstat(made_up.fileno())
        device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        by_number, by_device = f"{number} 1 0:999999", f"999999 1 {device}"
        for kind, served in KINDS:
            for known in (by_number, by_device):
                line = f"{known} /a\\040b /p\rr rw,nosuid shared:5 master:1 - {kind} x rw\n"
                assert told(line).is_served(made_up.fileno()) == served
        assert told("999999 1 0:999999 / / rw - proc x rw\n").is_served(made_up.fileno())  # one that has come meanwhile
        assert not told("").is_served(made_up.fileno())
        monkeypatch.undo()
        assert not safe_open.Mounts("/proc/self").is_served(made_up.fileno())
        assert not safe_open.Mounts("/proc/self").is_served(file.fileno())


def test_another_mount_of_a_process_is_entered_if_no_program_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stat_below("/proc/self/root", "/proc/version").st_mode
    with pytest.raises(NotRegular, match="is not a regular file of a disk"):
        stat_regular_below("/proc/self/root", "/proc/version")
    monkeypatch.setattr(safe_open.Mounts, "is_served", lambda _, handle, _above=-1: proc_is_served(handle))
    with pytest.raises(NotRegular, match="file system in user space"):
        stat_regular_below("/proc/self/root", "/proc/version")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of each list of mounts, for a test to fill."""
    lines: list[str] = []
    monkeypatch.setattr(safe_open, "_list_at", lambda _: "".join(lines).encode())
    return lines


def test_a_program_may_serve_a_file_system_of_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: list[str]
) -> None:
    """As ntfs-3g does: the device is the disk's then."""
    monkeypatch.setattr(safe_open, "status_now", lambda _: safe_open.Status((8, 17, 5), 1, 0, 0))
    monkeypatch.setattr(safe_open, "mount_of", lambda _: 412)
    options = "rw,nosuid,nodev,relatime shared:215"
    own, another = f"412 29 8:17 / /media/stick {options}", f"413 29 8:17 / /media/stick {options}"
    behind = "/dev/sdb1 rw,user_id=0,group_id=0,default_permissions,allow_other,blksize=4096\n"
    root = "29 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro\n"
    for line, served in (
        (f"{own} - fuseblk {behind}", True),
        (f"{another} - fuseblk {behind}", True),
        (f"{own} - ntfs3 {behind}", False),
        (f"412 29 0:52 / /media/stick {options} - btrfs {behind}", False),
        ("", False),
    ):
        listed[:] = [root, line]
        assert safe_open.Mounts(tmp_path).is_served(0) == served, line


def test_a_number_of_a_mount_may_be_anothers_by_then(tmp_path: Path, listed: list[str]) -> None:
    """So the list that was read for one handle says nothing of the next: its mount may have come since."""
    with Path("/proc/self/stat").open("rb") as made_up:
        mounts, number = safe_open.Mounts(tmp_path), safe_open.mount_of(made_up.fileno())
        listed[:] = [f"{number} 1 0:999999 / /a rw - tmpfs x rw\n"]
        assert not mounts.is_served(made_up.fileno())
        listed[:] = [f"{number} 1 0:999999 / /a rw - fuse x rw\n"]
        assert mounts.is_served(made_up.fileno())
        with Path("/proc/self/maps").open("rb") as above:
            assert not mounts.is_served(made_up.fileno(), above.fileno())  # no list is read where the mount is the same


def test_a_list_that_is_too_long_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_open, "_LONGEST_LIST", 400)
    with Path("/proc/self/stat").open("rb") as made_up:
        line = f"{safe_open.mount_of(made_up.fileno())} 1 0:999999 / /a rw - tmpfs x rw\n"
        for text, served in ((line, False), (line * 20, True)):
            (tmp_path / "mountinfo").write_text(text)
            mounts = safe_open.Mounts(tmp_path)
            mounts._lists = {tmp_path / "mountinfo"}
            assert mounts.is_served(made_up.fileno()) == served


def test_a_path_leads_into_a_bounded_number_of_mounts(tmp_path: Path, listed: list[str]) -> None:
    with Path("/proc/self/stat").open("rb") as made_up:
        mounts, number = safe_open.Mounts(tmp_path), safe_open.mount_of(made_up.fileno())
        listed[:] = [f"{number} 1 0:999999 / /a rw - tmpfs x rw\n"]
        answers = [mounts.is_served(made_up.fileno()) for _ in range(100)]
    assert answers == [False] * 32 + [True] * 68


@pytest.mark.parametrize("way", ["up and down", "links", "deep"])
def test_a_path_is_walked_for_a_bounded_number_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """However many of them its links hold, and with a bounded number of descriptors."""
    folders, opened, held = tmp_path, 0, 0
    for _ in range(200):
        folders /= "a"
    folders.mkdir(parents=True)
    for number in range(6):
        (tmp_path / f"link{number}").symlink_to("a/../" * 100 + f"link{number + 1}")
    path = {"up and down": "a/../" * 600 + "a", "links": "link0", "deep": "a/" * 200}[way]

    def opening(path: str, flags: int, **where: int) -> int:
        nonlocal opened, held
        if "dir_fd" not in where:
            return really(path, flags)
        opened += 1
        handle = really(path, flags, **where)
        held = max(held, len(list(Path("/proc/self/fd").iterdir())) - before)
        return handle

    gc.collect()  # files that other tests have left open
    really, before = os.open, len(list(Path("/proc/self/fd").iterdir()))
    folder = os.open(tmp_path, os.O_PATH)
    monkeypatch.setattr(os, "open", opening)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            os.close(walk_watching(folder, path, lambda *_: False))
    finally:
        os.close(folder)
    assert opened <= 512
    assert held < 140
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_long_path_that_is_plausible_is_walked(tmp_path: Path) -> None:
    (tmp_path / "/".join(["a"] * 100)).mkdir(parents=True)
    folder = os.open(tmp_path, os.O_PATH)
    try:
        os.close(walk_watching(folder, "///./" * 600 + "a/" * 100 + "../" * 120 + "a", lambda *_: False))
    finally:
        os.close(folder)
