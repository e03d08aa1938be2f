# SPDX-License-Identifier: Apache-2.0
"""What a quick look at a file shows: what it defines, and texts of its data; not what it imports, nor code."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest
from tests.fixtures import build

from ssllatency.elf import quick_look
from ssllatency.elf.image import Image
from ssllatency.elf.quick_look import Signs, look, shows
from ssllatency.elf.source import CHUNK, read_through
from ssllatency.probes.signs import QUICK
from ssllatency.stacks.implementations import tls_inside
from ssllatency.stacks.registry import libraries_in

SIGNS = Signs((b"SSL_read",), (b"ssl/a_file.c",))
DEFINES = "int SSL_read(void) { return 1; }"
IMPORTS = "int SSL_read(void); int call(void) { return SSL_read(); }"
HOLDS = 'const char *where(void) { return "../ssl/a_file.c"; }'
NEITHER = "int SSL_reader(void) { return 1; }"


def looked_at(path: Path, signs: Signs = SIGNS) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return shows(fd, signs)
    finally:
        os.close(fd)


def library(folder: Path, source: str, *flags: str) -> Path:
    (folder / "source.c").write_text(source)
    build.run("gcc", "-shared", "-fPIC", "-o", folder / "lib.so", folder / "source.c", *flags)
    return folder / "lib.so"


@pytest.mark.parametrize(("source", "shown"), [(DEFINES, True), (HOLDS, True), (IMPORTS, False), (NEITHER, False)])
@pytest.mark.parametrize("flags", [(), ("-s",), ("-g",)], ids=["symbols", "stripped", "debug"])
def test_what_a_library_shows(tmp_path: Path, source: str, shown: bool, flags: tuple[str, ...]) -> None:
    assert looked_at(library(tmp_path, source, *flags)) is shown


def test_a_static_function_is_shown_by_the_symbol_table_alone(tmp_path: Path) -> None:
    source = '__attribute__((visibility("hidden"))) ' + DEFINES
    assert looked_at(library(tmp_path, source))
    assert not looked_at(library(tmp_path, source, "-s"))


def test_without_section_headers_all_of_it_is_read(tmp_path: Path) -> None:
    path = library(tmp_path, HOLDS)
    content = bytearray(path.read_bytes())
    content[0x28:0x30] = bytes(8)  # e_shoff
    content[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    path.write_bytes(content)
    assert looked_at(path)
    path.write_bytes(content.replace(b"a_file", b"b_file"))
    assert not looked_at(path)


def test_a_text_is_found_across_pieces(tmp_path: Path) -> None:
    header = b"\x7fELF\x02\x01".ljust(64, b"\0")  # without section headers
    for place in range(CHUNK - 12, CHUNK + 1):
        (tmp_path / "program").write_bytes(header.ljust(place, b"x") + SIGNS.texts[0] + bytes(CHUNK))
        assert looked_at(tmp_path / "program"), place


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 200, b"text " * 100])
def test_what_is_no_elf_file_shows_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)
    assert not looked_at(tmp_path / "odd")


@pytest.mark.parametrize("type_", [1, 2, 11], ids=["data", "symbol table", "dynamic symbols"])
def test_sections_that_overlap_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: int) -> None:
    """A hostile file may describe the same bytes thousands of times."""
    number, size = 4000, 1 << 20
    header = struct.pack("<16s2HI3QI6H", b"\x7fELF\x02\x01", 3, 62, 1, 0, 0, size, 0, 64, 0, 0, 64, number, 0)
    section = struct.pack("<2I4Q2I2Q", 0, type_, 2, 0, 0, size, 0, 0, 0, 0)
    (tmp_path / "odd").write_bytes(header.ljust(size, b"\0") + number * section)
    asked = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: asked.append(count) or pread(fd, count, at))
    assert not looked_at(tmp_path / "odd")
    assert sum(asked) < 2 * size


def test_what_the_real_libraries_show() -> None:
    """All that a closer look finds anything in shows a sign."""
    folder = Path("/usr/lib/x86_64-linux-gnu")
    files = [folder / "libssl.so.3", folder / "libcrypto.so.3", folder / "libc.so.6", Path("/usr/sbin/nginx")]
    for path in filter(Path.exists, files):
        image = Image.open(path)
        assert looked_at(path, QUICK) == bool(libraries_in(image) or any(tls_inside(image).traceable)), path


def test_holes_are_not_read_and_what_lies_behind_them_is(tmp_path: Path) -> None:
    """And what lies right before one, whose end is its first byte."""
    path, hole = tmp_path / "sparse", 64 * CHUNK
    content = bytearray(library(tmp_path, NEITHER).read_bytes())
    content[0x28:0x30] = bytes(8)  # e_shoff
    content[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    for place, name, found in (
        (3 * hole // 2, b"ssl/a_file.c", True),
        (hole // 2 - 8, b"SSL_read", True),
        (hole, b"SSL_read", False),
    ):
        with path.open("wb") as file:
            file.write(content)
            file.seek(place)
            file.write(name if found else b"SSL_rea")
            file.truncate(2 * hole)
        with path.open("rb") as file:
            shown, read_bytes = look(file.fileno(), SIGNS)
        assert shown is found
        assert read_bytes < 8 * CHUNK


@pytest.mark.parametrize("size", [8 * CHUNK, 1], ids=["back to data", "back to an end"])
def test_who_says_where_data_is_leads_nobody_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A file system in user space may answer with a place before the one that was asked for, or with another size."""
    asked = []

    def answered(_fd: int, offset: int, whence: int) -> int:
        asked.append(offset)
        assert len(asked) < 100, "it goes round"
        if whence == os.SEEK_DATA and size == 1:
            raise OSError(errno.ENXIO, "no data")
        return 0 if whence == os.SEEK_DATA else offset + CHUNK

    path = tmp_path / "holes"
    path.write_bytes(b"\x7fELF\x02\x01".ljust(64, b"\0") + bytes(8 * CHUNK - 64))
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        sizes = iter([status.st_size])
        monkeypatch.setattr(os, "lseek", answered)
        with monkeypatch.context() as patch:
            patch.setattr(quick_look._Reader, "size", property(lambda _: next(sizes, size)))
            assert look(file.fileno(), SIGNS)[1] < status.st_size + CHUNK
        assert read_through(file.fileno(), status.st_size)[1] == (0 if size == 1 else status.st_size)


def test_a_stretch_of_data_for_each_byte_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stretches"
    path.write_bytes(bytes(1 << 20))
    asked = []

    def answered(_fd: int, offset: int, whence: int) -> int:
        asked.append(offset)
        return offset + (whence == os.SEEK_HOLE)

    with path.open("rb") as file:
        monkeypatch.setattr(os, "lseek", answered)
        assert read_through(file.fileno(), 1 << 20)[1] == 1 << 20
    assert len(asked) < 1 << 16
