# SPDX-License-Identifier: Apache-2.0
"""The headers of an ELF file as plain values, and what only they describe: dynamic tags and the build-id."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from ssllatency.elf.layouts import (
    EM_AARCH64,
    EM_X86_64,
    ET_DYN,
    ET_EXEC,
    FILE_HEADER,
    IDENT,
    MAGIC,
    PT_DYNAMIC,
    PT_NOTE,
    SECTION,
    SEGMENT,
    SHT_NOBITS,
    SHT_NOTE,
)
from ssllatency.elf.source import ElfError, Source

MACHINES = {EM_X86_64: "x86-64", EM_AARCH64: "aarch64"}
MAX_SEGMENTS = 128
MAX_ADDRESS = 1 << 56
MAX_SECTIONS = 4096
MAX_TAGS = 4096
MAX_NOTES = 64 * 1024
MAX_BUILD_ID = 64
MAX_SECTION_NAMES = 1 << 20
_NT_GNU_BUILD_ID = 3


@dataclass(frozen=True)
class Segment:
    """A program header. `p_type` is PT_LOAD and so on; `p_flags` has PF_X 1, PF_W 2, PF_R 4."""

    p_type: int
    p_offset: int
    p_vaddr: int
    p_filesz: int
    p_memsz: int
    p_flags: int


@dataclass(frozen=True)
class Section:
    """A section header; `name` is the text at sh_name, `sh_type` is SHT_SYMTAB and so on, `sh_link` the index of a section."""

    name: str
    sh_type: int
    sh_offset: int
    sh_addr: int
    sh_size: int
    sh_link: int


@dataclass(frozen=True)
class _Table:
    """Where a table of headers lies in the file: its offset, the size of an entry and how many there are."""

    offset: int
    entry_size: int
    count: int

    def entries(self, source: Source, layout: struct.Struct) -> list[tuple[int, ...]]:
        """The fields of each entry; ElfError where one lies outside the file."""
        starts = (self.offset + index * self.entry_size for index in range(self.count))
        return [layout.unpack(source.read(start, layout.size)) for start in starts]


class Headers:
    """The contents of a file's ELF header, program headers and section headers.

    `machine` is "x86-64" or "aarch64"; `fixed` is true for ET_EXEC, whose stored addresses need no relocation. The constructor
    raises ElfError for anything but a 64-bit little-endian executable or shared object of these machines.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        fields = self._file_header()
        e_type, e_machine, (e_phoff, e_shoff) = fields[1], fields[2], fields[5:7]
        e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx = fields[9:14]
        if e_machine not in MACHINES:
            raise ElfError(f"{source.label} is for another machine than x86-64 and aarch64.")
        if e_type not in (ET_EXEC, ET_DYN):
            raise ElfError(f"{source.label} is neither a program nor a shared library.")
        self.machine = MACHINES[e_machine]
        self.fixed = e_type == ET_EXEC
        self._section_table = _Table(e_shoff, e_shentsize, e_shnum)
        self._section_names = e_shstrndx
        self.segments = self._read_segments(_Table(e_phoff, e_phentsize, e_phnum))

    def _file_header(self) -> tuple[int, ...]:
        """The fields after e_ident, each at its place."""
        label = self.source.label
        ident = self.source.read(0, min(self.source.size, FILE_HEADER.size))
        if not ident.startswith(MAGIC):
            raise ElfError(f"{label} is not an ELF file.")
        if len(ident) < FILE_HEADER.size:
            raise ElfError(f"{label} is cut short or damaged.")
        if not ident.startswith(IDENT):
            raise ElfError(f"{label} is not a 64-bit little-endian ELF file.")
        return FILE_HEADER.unpack(ident)

    def _read_segments(self, table: _Table) -> tuple[Segment, ...]:
        if table.count > MAX_SEGMENTS:
            raise ElfError(f"{self.source.label} has more than {MAX_SEGMENTS} program headers.")
        segments = tuple(
            Segment(p_type, p_offset, p_vaddr, p_filesz, p_memsz, p_flags)
            for p_type, p_flags, p_offset, p_vaddr, _, p_filesz, p_memsz, _ in table.entries(self.source, SEGMENT)
        )
        if any(segment.p_vaddr + segment.p_memsz > MAX_ADDRESS for segment in segments):
            raise ElfError(f"{self.source.label} has a segment beyond the addresses that a process has.")
        return segments

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The section headers; none where the file has none, or where they are damaged (they are not needed to run it)."""
        table = self._section_table
        if not table.offset or not 0 < table.count <= MAX_SECTIONS:
            return ()
        try:
            return self._read_sections(table)
        except ElfError:
            return ()

    def _read_sections(self, table: _Table) -> tuple[Section, ...]:
        entries = table.entries(self.source, SECTION)
        if self._section_names >= len(entries):
            return ()
        _, _, _, _, offset, size, *_ = entries[self._section_names]
        names = self.source.read(offset, min(size, MAX_SECTION_NAMES))
        return tuple(
            Section(text_at(names, sh_name), sh_type, sh_offset, sh_addr, sh_size, sh_link)
            for sh_name, sh_type, _, sh_addr, sh_offset, sh_size, sh_link, *_ in entries
        )

    def section(self, name: str) -> Section | None:
        """The first section with this name and with bytes in the file."""
        return next((section for section in self.sections if section.name == name and section.sh_type != SHT_NOBITS), None)

    def content(self, section: Section) -> bytes:
        """The bytes of `section`; ElfError where they lie outside the file."""
        return self.source.read(section.sh_offset, section.sh_size)

    @cached_property
    def dynamic(self) -> dict[int, int]:
        """DT_* tag to value, the first of each; empty for a static program."""
        segment = next((segment for segment in self.segments if segment.p_type == PT_DYNAMIC), None)
        if segment is None:
            return {}
        data = self.source.read(segment.p_offset, min(segment.p_filesz, MAX_TAGS * 16) // 16 * 16)
        tags: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<QQ", data):
            if tag == 0:
                break
            tags.setdefault(tag, value)
        return tags

    @cached_property
    def build_id(self) -> str:
        """The build-id in hexadecimal, "" where there is none."""
        places = [(segment.p_offset, segment.p_filesz) for segment in self.segments if segment.p_type == PT_NOTE]
        places += [(section.sh_offset, section.sh_size) for section in self.sections if section.sh_type == SHT_NOTE]
        for offset, size in places:
            try:
                build_id = _build_id(self.source.read(offset, min(size, MAX_NOTES)))
            except ElfError:
                continue
            if build_id:
                return build_id
        return ""


def text_at(strings: bytes, offset: int, limit: int = 256) -> str:
    """The NUL-terminated text at `offset` of a string table; "" where there is none of at most `limit` bytes."""
    end = strings.find(b"\0", offset, offset + limit)
    return strings[offset:end].decode("ascii", "replace") if end >= 0 else ""


def _build_id(notes: bytes) -> str:
    offset = 0
    while offset + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, offset)
        start = offset + 12 + (name_size + 3) // 4 * 4
        if kind == _NT_GNU_BUILD_ID and notes[offset + 12 : offset + 16] == b"GNU\0" and start + size <= len(notes):
            return notes[start : start + min(size, MAX_BUILD_ID)].hex()
        offset = start + (size + 3) // 4 * 4
    return ""
