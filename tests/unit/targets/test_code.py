# SPDX-License-Identifier: Apache-2.0
"""Code as a process runs it: our own, which nothing has changed, and a file's that we map and change."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency.targets import CodeState, code_byte, code_state, mapped_files, read_maps
from ssllatency.targets.code import is_only_probed

PAGE = mmap.PAGESIZE
NOP = bytes.fromhex("0f1f440000")
LONG_NOP = bytes.fromhex("662e0f1f840000000000")


def test_a_byte_is_the_file_s_where_no_breakpoint_is() -> None:
    file = next(one for one in mapped_files(os.getpid()) if "libc.so" in one.path or "libc-" in one.path)
    content = Path(file.path).read_bytes()
    found = {offset: code_byte(os.getpid(), file, offset) for offset in range(0, len(content), 4096)}
    mapped = {offset: byte for offset, byte in found.items() if byte is not None}
    assert len(mapped) > 50
    assert mapped == {offset: content[offset] for offset in mapped}
    assert code_byte(os.getpid(), file, len(content) + (1 << 20)) is None
    assert code_byte(5_000_000, file, 0) is None


class Mapped:
    """A file of four pages that this process maps, private and as code, and writes to as patchers do."""

    def __init__(self, path: Path) -> None:
        self._path, self._content = path, bytes(range(256)) * (4 * PAGE // 256)
        path.write_bytes(self._content)
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._anchor = ctypes.c_char.from_buffer(self._memory)
        self._protect(mmap.PROT_READ | mmap.PROT_EXEC)

    def _protect(self, protection: int) -> None:
        address = ctypes.c_void_p(ctypes.addressof(self._anchor))
        assert ctypes.CDLL(None).mprotect(address, ctypes.c_size_t(4 * PAGE), protection) == 0

    def write(self, at: int, code: bytes, *, stay_writable: bool = False) -> None:
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        self._memory[at : at + len(code)] = code
        self._protect(mmap.PROT_READ | mmap.PROT_EXEC | (mmap.PROT_WRITE if stay_writable else 0))

    def state(self, *ranges: tuple[int, int], path: str = "", pid: int | None = None) -> CodeState | None:
        (file,) = [one for one in mapped_files(os.getpid()) if one.path == str(self._path)]

        def content(at: int, size: int) -> bytes:
            return self._content[at : at + size]

        return code_state(
            pid or os.getpid(), read_maps(pid or os.getpid()), file.numbers, path or str(self._path), ranges, content
        )

    def close(self) -> None:
        del self._anchor
        self._memory.close()


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[Mapped]:
    file = Mapped(tmp_path / "lib\nssl.so")
    yield file
    file.close()


def test_a_process_that_has_changed_its_copy_of_the_code(mapped: Mapped) -> None:
    everywhere = (0, 4 * PAGE)
    assert mapped.state(everywhere) is CodeState.SAME
    mapped.write(PAGE + 100, b"\xe9")
    assert mapped.state(everywhere) is CodeState.CHANGED
    assert mapped.state((100, PAGE + 101)) is CodeState.CHANGED
    assert mapped.state((PAGE + 101, 4 * PAGE)) is mapped.state((0, PAGE + 100)) is CodeState.SAME
    assert mapped.state() is CodeState.SAME
    mapped.write(PAGE + 100, bytes([100]))
    assert mapped.state(everywhere) is CodeState.SAME


def test_what_the_kernel_would_set_no_breakpoint_in(mapped: Mapped) -> None:
    mapped.write(3 * PAGE, bytes([0]), stay_writable=True)
    assert mapped.state((0, PAGE)) is CodeState.UNPROBED


def test_who_does_not_map_it(mapped: Mapped) -> None:
    with subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert mapped.state((0, PAGE), pid=other.pid) is None
        other.communicate(b"\n")
    assert mapped.state((0, PAGE), pid=5_000_000) is None


@pytest.mark.parametrize(
    ("machine", "content", "own", "only_probed"),
    [
        ("x86_64", b"\x55\x48\x89\xe5", b"\x55\x48\x89\xe5", True),
        ("x86_64", b"\x55\x48\x89\xe5", b"\xcc\x48\x89\xe5", True),
        ("x86_64", b"\x55\x48\x89\xe5", b"\xe9\x48\x89\xe5", False),
        ("x86_64", b"\x55\x48\x89\xe5", b"\xcc\x48\x89", False),
        ("x86_64", b"\x90" + NOP, b"\x90\xe8\1\2\3\4", True),
        ("x86_64", b"\x90" + NOP, b"\x90\xcc\1\2\3\4", True),
        ("x86_64", b"\x90" + NOP, b"\x90\xe9\1\2\3\4", False),
        ("x86_64", LONG_NOP + b"\x90", bytes.fromhex("488d642480e801020304") + b"\x90", True),
        ("x86_64", LONG_NOP + b"\x90", bytes.fromhex("488d642480e901020304") + b"\x90", False),
        ("aarch64", bytes.fromhex("fd7bbfa9fd030091"), bytes.fromhex("a00020d4fd030091"), True),
        ("aarch64", bytes.fromhex("fd7bbfa9fd030091"), bytes.fromhex("00000014fd030091"), False),
    ],
)
def test_breakpoints_are_no_change(machine: str, content: bytes, own: bytes, only_probed: bool) -> None:
    assert is_only_probed(own, content, machine) is only_probed
