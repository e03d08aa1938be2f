# SPDX-License-Identifier: Apache-2.0
"""The lines of a maps file, and the maps of our own process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import MappedFile, executable_path, mapped_files
from ssllatency.targets.maps import parse_maps

# As the kernel writes them: a static executable at a low address, data and code of a library, two mappings of one file,
# a deleted file, memory without a file, the vdso, a memfd, and shared memory that nothing executes.
MAPS = b"""\
00401000-00479000 r-xp 00001000 fe:00 9995889                            /srv/np
0048b000-0048c000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000001000 r--p 00000000 fe:00 77                         /usr/lib/libssl.so.3
7f0000001000-7f0000002000 r-xp 00001000 fe:00 77                         /usr/lib/libssl.so.3
7f0000003000-7f0000004000 r-xp 00003000 fe:00 77                         /usr/lib/libssl.so.3
7f0000005000-7f0000006000 rwxp 00000000 00:00 0
7f0000007000-7f0000008000 r-xs 00000000 103:1a 78                        /usr/lib/old.so (deleted)
7f0000009000-7f000000a000 r-xp 00000000 00:01 2051                       /memfd:jit (deleted)
7f000000b000-7f000000c000 rw-s 00000000 00:01 9                          /dev/zero (deleted)
7ffe0000d000-7ffe0000f000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""


def test_takes_executable_files_once_each() -> None:
    assert parse_maps(MAPS) == [
        MappedFile("/srv/np", (0xFE, 0), 9995889, "401000-479000", False),
        MappedFile("/usr/lib/libssl.so.3", (0xFE, 0), 77, "7f0000001000-7f0000002000", False),
        MappedFile("/usr/lib/old.so", (0x103, 0x1A), 78, "7f0000007000-7f0000008000", True),
        MappedFile("/memfd:jit", (0, 1), 2051, "7f0000009000-7f000000a000", True),
    ]


@pytest.mark.parametrize(
    ("written", "path", "deleted"),
    [
        (b"/a\\012b", "/a\nb", False),
        (b"/a\\040b", "/a\\040b", False),
        (b"/with  spaces ", "/with  spaces ", False),
        (b"/a (deleted) b", "/a (deleted) b", False),
        (b"/\xff.so (deleted)", os.fsdecode(b"/\xff.so"), True),
    ],
)
def test_paths_are_unescaped(written: bytes, path: str, deleted: bool) -> None:
    [mapped] = parse_maps(b"7f00-7f10 r-xp 00000000 fe:00 5 " + written + b"\n")
    assert (mapped.path, mapped.deleted) == (path, deleted)


def test_garbage_gives_nothing() -> None:
    assert parse_maps(b"") == []
    assert parse_maps(b"7f00-7f10 r-xp\n\nzz-7f10 r-xp 0 fe:00 5 /a\n7f00-7f10 r-xp 0 fe:00 5 relative\n\x00\xff") == []


def test_a_kernel_thread_and_a_process_gone_map_nothing(proc: Path, add_process: Callable[..., Path]) -> None:
    add_process(2)
    assert mapped_files(2, proc) == []
    assert mapped_files(3, proc) == []
    assert executable_path(2, proc) is None
    assert executable_path(3, proc) is None


@pytest.mark.parametrize(("euid", "advice"), [(1000, "as root (sudo)"), (0, "all of root's capabilities")])
def test_not_permitted_says_what_to_do(monkeypatch: pytest.MonkeyPatch, euid: int, advice: str) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "geteuid", lambda: euid)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(Path, "readlink", refuse)
    for look in (mapped_files, executable_path):
        with pytest.raises(SsllatencyError) as caught:
            look(4711)
        assert "process 4711" in str(caught.value)
        assert advice in str(caught.value)


def test_executable_path_is_written_as_in_maps(proc: Path, add_process: Callable[..., Path]) -> None:
    add_process(20, exe="/opt/a\nb (deleted)")
    assert executable_path(20, proc) == "/opt/a\nb"


def test_our_own_executable_is_mapped() -> None:
    paths = [mapped.path for mapped in mapped_files(os.getpid())]
    assert executable_path(os.getpid()) in paths
    assert len(paths) == len(set(paths))


def test_ranges_name_entries_of_map_files(tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]], compiler: str) -> None:
    """A static executable lies low, where maps pads its addresses and map_files doesn't."""
    source, program = tmp_path / "low.c", tmp_path / "low"
    source.write_text("#include <unistd.h>\nint main(void) { return pause(); }\n")
    subprocess.run([compiler, "-static", "-no-pie", "-o", program, source], check=True)
    child = spawn(str(program))
    [mapped] = [file for file in mapped_files(child.pid) if file.path == str(program)]
    assert mapped.address_range in {entry.name for entry in Path(f"/proc/{child.pid}/map_files").iterdir()}
    assert len(mapped.address_range.split("-")[0]) < 8


@pytest.fixture
def compiler() -> str:
    found = shutil.which("gcc") or shutil.which("cc")
    if not found:
        pytest.skip("no C compiler: apt-get install gcc")
    return found
