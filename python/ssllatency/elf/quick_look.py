# SPDX-License-Identifier: Apache-2.0
"""A quick test of a file that is most likely irrelevant: whether it defines one of some symbols, or contains one of some texts.

Every file that a process maps as code is inspected in this way. Code, relocations and debug information, most of a file, aren't
read, and nothing but section headers and symbols is parsed: a file that merely imports a function doesn't define it. A file
without section headers is read in whole. A damaged file raises no error; fewer signs are found in it.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator, Sequence

from ssllatency.data_class import dataclass
from ssllatency.elf.source import CHUNK

_FILE_HEADER, _SECTION, _SYMBOL = struct.Struct("<16s2HI3QI6H"), struct.Struct("<2I4Q2I2Q"), struct.Struct("<IBBHQQ")
_ELF64 = b"\x7fELF\x02\x01"
_PROGBITS, _SYMTAB, _DYNSYM = 1, 2, 11
_ALLOCATED, _EXECUTABLE, _COMPRESSED = 1 << 1, 1 << 2, 1 << 11
_UNDEFINED = 0
_LARGEST_TABLE = 128 << 20
_MOST_OCCURRENCES = 64
_BEGINNING = 4  # bytes of a name that are searched for first


@dataclass(frozen=True)
class Signs:
    """Signs to search for: names of symbols that the file defines, and texts in its data."""

    symbols: tuple[bytes, ...]
    texts: tuple[bytes, ...]


@dataclass(frozen=True)
class _Section:
    sh_type: int
    sh_flags: int
    sh_offset: int
    sh_size: int
    sh_link: int


class _Reader:
    """An open file, and how much of it was read."""

    def __init__(self, fd: int) -> None:
        self._fd, self.read_bytes = fd, 0

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at the offset, at most as many as a table can have; empty if they can't be read."""
        try:
            content = os.pread(self._fd, min(size, _LARGEST_TABLE), offset)
        except (OSError, OverflowError):
            return b""
        self.read_bytes += len(content)
        return content

    def next_data(self, offset: int) -> int:
        """The place of the first byte from there on that isn't in a hole of the file, where the file system tells. Never one
        before it, which a file system in user space may say: whoever reads on from there would read for ever."""
        try:
            return max(offset, os.lseek(self._fd, offset, os.SEEK_DATA))
        except (OSError, OverflowError) as error:  # ENXIO: none is left
            return max(offset, self.size) if isinstance(error, OSError) and error.errno == errno.ENXIO else offset


def shows(fd: int, signs: Signs) -> bool:
    """Whether the open file is a 64-bit ELF file that shows one of the signs."""
    return look(fd, signs)[0]


def look(fd: int, signs: Signs) -> tuple[bool, int]:
    """Whether it is, and how many bytes were read for that."""
    file = _Reader(fd)
    return _shows(file, signs), file.read_bytes


def _shows(file: _Reader, signs: Signs) -> bool:
    header = file.read(0, _FILE_HEADER.size)
    if len(header) < _FILE_HEADER.size or not header.startswith(_ELF64):
        return False
    sections = _sections(file, header)
    if not sections:
        names = tuple(name + b"\0" for name in signs.symbols)
        return _holds(file, [(0, file.size)], (*signs.texts, *names))
    # A file has one of each kind; one with thousands would take too long to read.
    tables = {
        section.sh_type: section
        for section in sections
        if section.sh_type in (_DYNSYM, _SYMTAB) and section.sh_link < len(sections)
    }
    if any(_defines(file, table, sections[table.sh_link], signs.symbols) for table in tables.values()):
        return True
    return _holds(
        file,
        _joined((section.sh_offset, section.sh_offset + section.sh_size) for section in sections if _is_data(section)),
        signs.texts,
    )


def _sections(file: _Reader, header: bytes) -> list[_Section]:
    fields = _FILE_HEADER.unpack(header)
    start, entry_size, number = fields[6], fields[11], fields[12]
    if entry_size != _SECTION.size:
        return []
    table = file.read(start, number * entry_size)
    whole = table[: len(table) // entry_size * entry_size]
    return [
        _Section(type_, flags, offset, size, link) for _, type_, flags, _, offset, size, link, *_ in _SECTION.iter_unpack(whole)
    ]


def _is_data(section: _Section) -> bool:
    return section.sh_type == _PROGBITS and section.sh_flags & (_ALLOCATED | _EXECUTABLE | _COMPRESSED) == _ALLOCATED


def _defines(file: _Reader, table: _Section, strings: _Section, names: Sequence[bytes]) -> bool:
    text = file.read(strings.sh_offset, strings.sh_size)
    present = {beginning for beginning in {name[:_BEGINNING] for name in names} if beginning in text}  # most share one
    places = {place for name in names if name[:_BEGINNING] in present for place in _occurrences(text, name + b"\0")}
    if not places:
        return False
    entries = file.read(table.sh_offset, table.sh_size)
    whole = entries[: len(entries) // _SYMBOL.size * _SYMBOL.size]
    return any(name in places and index != _UNDEFINED for name, _, _, index, _, _ in _SYMBOL.iter_unpack(whole))


def _occurrences(text: bytes, name: bytes) -> Iterator[int]:
    """Names may share their ends, so one may begin in the midst of another."""
    place = text.find(name)
    for _ in range(_MOST_OCCURRENCES):
        if place < 0:
            return
        yield place
        place = text.find(name, place + 1)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges' bytes, each once, however they overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _holds(file: _Reader, ranges: Iterable[tuple[int, int]], texts: Sequence[bytes]) -> bool:
    overlap = max(map(len, texts)) - 1
    for start, end in ranges:
        while start < end:
            piece = file.read(start, min(end - start, CHUNK))
            if any(text in piece for text in texts):
                return True
            if len(piece) <= overlap:
                break
            if piece.strip(b"\0"):
                start += len(piece) - (overlap if start + len(piece) < end else 0)
            else:  # of a hole, perhaps, which anybody can make as large as they like
                start = file.next_data(start + len(piece))
    return False
