# SPDX-License-Identifier: Apache-2.0
"""The headers of an ELF file as plain values. Only this module uses pyelftools; it turns pyelftools' errors into ElfError.

Only the header structures are used: the section and segment classes of pyelftools read whole tables entry by entry when they
are made, which is slow on good files and has no bound on bad ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, BinaryIO, TypeVar

from elftools.common.exceptions import ELFError as PyelftoolsError
from elftools.common.utils import struct_parse
from elftools.construct import ConstructError
from elftools.elf.structs import ELFStructs

from ssllatency.data_class import dataclass
from ssllatency.elf.source import ElfError, ElfSource

MACHINES = {"EM_X86_64": "x86-64", "EM_AARCH64": "aarch64"}
MAX_SEGMENTS = 128
MAX_ADDRESS = 1 << 56
MAX_SECTIONS = 4096
MAX_TAGS = 4096
MAX_NOTES = 64 * 1024
MAX_BUILD_ID = 64
MAX_SECTION_NAMES = 1 << 20
_DAMAGE = (PyelftoolsError, ConstructError, struct.error, ValueError, LookupError, TypeError, AttributeError, AssertionError,
           ArithmeticError, OSError)  # fmt: skip
_NT_GNU_BUILD_ID = 3
_MAGIC, _EI_CLASS, _EI_DATA = b"\x7fELF", 4, 5
_T = TypeVar("_T")


@dataclass(frozen=True)
class Segment:
    """A program header. `p_type` is "PT_LOAD" and so on, or a number as text; `p_flags` has PF_X 1, PF_W 2, PF_R 4."""

    p_type: str
    p_offset: int
    p_vaddr: int
    p_filesz: int
    p_memsz: int
    p_flags: int


@dataclass(frozen=True)
class Section:
    """A section header; `name` is the text at sh_name, `sh_type` a text like `p_type`, `sh_link` the index of a section."""

    name: str
    sh_type: str
    sh_offset: int
    sh_addr: int
    sh_size: int
    sh_link: int


@dataclass(frozen=True)
class _Table:
    """The place of a table of headers in the file: its offset, the size of an entry and how many there are."""

    offset: int
    entry_size: int
    count: int


class _Elf:
    """A file's ELF header and the structures of its other headers, as pyelftools' ELFFile has them. That one brings in DWARF
    and much else as well, which takes as long as all the headers of a library do."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        stream.seek(0)  # a duplicate descriptor is where the last reader left it
        identification = stream.read(_EI_DATA + 1)
        if not identification.startswith(_MAGIC):
            raise PyelftoolsError("Magic number does not match")
        self.elfclass = {1: 32, 2: 64}[identification[_EI_CLASS]]
        self.little_endian = {1: True, 2: False}[identification[_EI_DATA]]
        self.structs: Any = ELFStructs(little_endian=self.little_endian, elfclass=self.elfclass)
        self.structs.create_basic_structs()
        self._header = struct_parse(self.structs.Elf_Ehdr, stream, 0)
        self.structs.create_advanced_structs(self["e_type"], self["e_machine"], self["e_ident"]["EI_OSABI"])

    def __getitem__(self, name: str) -> Any:
        return self._header[name]


class Headers:
    """The contents of a file's ELF header, program headers and section headers.

    `machine` is "x86-64" or "aarch64"; `fixed` is true for ET_EXEC, whose stored addresses need no relocation. The constructor
    raises ElfError for anything but a 64-bit little-endian executable or shared object of these machines.
    """

    def __init__(self, source: ElfSource) -> None:
        self.source = source
        with self._parser() as elf:
            self._check(elf)
            self.machine = MACHINES[str(elf["e_machine"])]
            self.fixed = elf["e_type"] == "ET_EXEC"
            self._section_table = _Table(elf["e_shoff"], elf["e_shentsize"], elf["e_shnum"])
            self._section_names = int(elf["e_shstrndx"])
            self.segments = self._read_segments(elf, _Table(elf["e_phoff"], elf["e_phentsize"], elf["e_phnum"]))

    @contextmanager
    def _parser(self) -> Iterator[_Elf]:
        with self.source.stream() as stream:
            try:
                yield _Elf(stream)
            except ElfError:
                raise
            except PyelftoolsError as error:
                wrong = "is not an ELF file" if "Magic" in str(error) else "is cut short or damaged"
                raise ElfError(f"{self.source.label} {wrong}.") from error
            except _DAMAGE as error:
                raise ElfError(f"{self.source.label} is cut short or damaged.") from error

    def _check(self, elf: _Elf) -> None:
        if elf.elfclass != 64 or not elf.little_endian:
            raise ElfError(f"{self.source.label} is not a 64-bit little-endian ELF file.")
        if elf["e_machine"] not in MACHINES:
            raise ElfError(f"{self.source.label} is for another machine than x86-64 and aarch64.")
        if elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
            raise ElfError(f"{self.source.label} is neither a program nor a shared library.")

    def _read_segments(self, elf: _Elf, table: _Table) -> tuple[Segment, ...]:
        def convert(raw: Any) -> Segment:
            places = (raw["p_offset"], raw["p_vaddr"], raw["p_filesz"], raw["p_memsz"], raw["p_flags"])
            return Segment(str(raw["p_type"]), *places)

        if table.count > MAX_SEGMENTS:
            raise ElfError(f"{self.source.label} has more than {MAX_SEGMENTS} program headers.")
        segments = tuple(_entries(elf, elf.structs.Elf_Phdr, table, convert))
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
        with self._parser() as elf:
            raws = list(_entries(elf, elf.structs.Elf_Shdr, table, lambda raw: raw))
            names = raws[self._section_names]
            text = self.source.read(names["sh_offset"], min(names["sh_size"], MAX_SECTION_NAMES))

        def convert(raw: Any) -> Section:
            places = (raw["sh_offset"], raw["sh_addr"], raw["sh_size"], raw["sh_link"])
            return Section(text_at(text, raw["sh_name"]), str(raw["sh_type"]), *places)

        return tuple(convert(raw) for raw in raws)

    def section(self, name: str) -> Section | None:
        """The first section with this name and with bytes in the file."""
        return next((section for section in self.sections if section.name == name and section.sh_type != "SHT_NOBITS"), None)

    def content(self, section: Section) -> bytes:
        """The bytes of `section`; ElfError where they lie outside the file."""
        return self.source.read(section.sh_offset, section.sh_size)

    @cached_property
    def dynamic(self) -> dict[int, int]:
        """DT_* tag to value, the first of each; empty for a static program."""
        segment = next((segment for segment in self.segments if segment.p_type == "PT_DYNAMIC"), None)
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
        places = [(segment.p_offset, segment.p_filesz) for segment in self.segments if segment.p_type == "PT_NOTE"]
        places += [(section.sh_offset, section.sh_size) for section in self.sections if section.sh_type == "SHT_NOTE"]
        for offset, size in places:
            try:
                build_id = _build_id(self.source.read(offset, min(size, MAX_NOTES)))
            except ElfError:
                continue
            if build_id:
                return build_id
        return ""


def _entries(elf: _Elf, layout: Any, table: _Table, convert: Callable[[Any], _T]) -> Iterator[_T]:
    for index in range(table.count):
        yield convert(struct_parse(layout, elf.stream, table.offset + index * table.entry_size))


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
