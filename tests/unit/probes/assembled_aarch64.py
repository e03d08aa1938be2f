# SPDX-License-Identifier: Apache-2.0
"""Small aarch64 functions in assembly, made into a shared library, and planned: assembled.py for the other machine.

clang assembles them on any machine. As few machines have a linker for aarch64, the library is written here: one segment of code
and unwind tables, and the symbols. So the text must lead nowhere else: the assembler has to know all its addresses.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol
from tests.fixtures import build
from tests.unit.probes.assembled import Assembled

from ssllatency.code.aarch64.machine import Aarch64
from ssllatency.code.flow import Code
from ssllatency.code.machine import BASELINE, Emulation
from ssllatency.openssl.tails import Tails
from ssllatency.probes.sites.operation import Planner

START = 0x1000  # the code's address, and its offset in the file
_R_AARCH64_PREL32 = 261
_EM_AARCH64, _ET_DYN, _PT_LOAD, _READ_EXECUTE = 183, 3, 1, 5
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB, _FUNCTION = 1, 2, 3, 0x12
_NAMES = b"\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab\0"


def function(name: str, body: str) -> str:
    """A function with its symbol, its size and its unwind table entry."""
    head = f".type {name}, @function\n{name}:\n.cfi_startproc\n"
    return f".p2align 4\n{head}{body}\n.cfi_endproc\n.size {name}, .-{name}\n"


@dataclass(frozen=True)
class AssembledAarch64(Assembled):
    """A library made of aarch64 assembly text. `addresses` are those of all its labels."""

    addresses: tuple[tuple[str, int], ...]

    @cached_property
    def symbols(self) -> dict[str, int]:
        return dict(self.addresses)

    def planner(
        self, *, return_probes: bool = True, prefer: bool = False, emulation: Emulation = BASELINE, branch_exits: bool = True
    ) -> Planner:
        machine = Aarch64()
        code, tails = Code(self.image, machine), Tails(self.image)
        return Planner(self.image, machine, code, tails, emulation, return_probes, prefer, branch_exits)


def assemble(folder: Path, text: str) -> AssembledAarch64:
    """The library that the assembly `text` makes."""
    source, target, path = folder / "code.s", folder / "code.o", folder / "libcode.so"
    source.write_text(f".text\n{text}\n")
    build.run("clang", "--target=aarch64-linux-gnu", "-march=armv8.5-a", "-c", "-o", target, source)
    elf = ELFFile(io.BytesIO(target.read_bytes()))
    found = {each.name: (START + each["st_value"], each["st_size"]) for each in _symbols(elf) if each.name}
    path.write_bytes(_library(_code(elf), _unwind(elf), {name: place for name, place in found.items() if place[1]}))
    return AssembledAarch64(path, tuple((name, address) for name, (address, _) in found.items()))


def _symbols(elf: ELFFile) -> list[Symbol]:
    return list(elf.get_section_by_name(".symtab").iter_symbols())


def _code(elf: ELFFile) -> bytes:
    assert elf.get_section_by_name(".rela.text") is None, "the code leads to what the assembler doesn't know"
    content: bytes = elf.get_section_by_name(".text").data()
    return content.ljust(len(content) + -len(content) % 8, b"\0")


def _unwind(elf: ELFFile) -> bytes:
    """The unwind table for its place behind the code, where each function's address is relative to."""
    content, symbols = bytearray(elf.get_section_by_name(".eh_frame").data()), _symbols(elf)
    for each in elf.get_section_by_name(".rela.eh_frame").iter_relocations():
        assert each["r_info_type"] == _R_AARCH64_PREL32
        address = symbols[each["r_info_sym"]]["st_value"] + each["r_addend"]
        struct.pack_into("<i", content, each["r_offset"], address - len(_code(elf)) - each["r_offset"])
    return bytes(content)


def _library(code: bytes, unwind: bytes, functions: dict[str, tuple[int, int]]) -> bytes:
    """A shared object with this code and these functions."""
    names, symbols = b"\0", bytes(24)
    for name, (address, size) in functions.items():
        symbols += struct.pack("<IBBHQQ", len(names), _FUNCTION, 0, 1, address, size)
        names += name.encode() + b"\0"
    content, sections = code + unwind, bytes(64)
    parts = (
        (b".text", _SHT_PROGBITS, code, 0),
        (b".eh_frame", _SHT_PROGBITS, unwind, 0),
        (b".symtab", _SHT_SYMTAB, symbols, 4),
        (b".strtab", _SHT_STRTAB, names, 0),
        (b".shstrtab", _SHT_STRTAB, _NAMES, 0),
    )
    offset = START
    for name, kind, part, link in parts:
        address, entry = offset if kind == _SHT_PROGBITS else 0, 24 if link else 0
        place = _NAMES.index(b"\0" + name + b"\0") + 1
        sections += struct.pack("<IIQQQQIIQQ", place, kind, 2 if address else 0, address, offset, len(part), link, 0, 8, entry)
        offset += len(part)
    header, last = b"\x7fELF\x02\x01\x01".ljust(16, b"\0"), len(parts)
    header += struct.pack("<HHIQQQIHHHHHH", _ET_DYN, _EM_AARCH64, 1, 0, 64, offset, 0, 64, 56, 1, 64, last + 1, last)
    header += struct.pack("<IIQQQQQQ", _PT_LOAD, _READ_EXECUTE, START, START, START, len(content), len(content), 0x1000)
    return header.ljust(START, b"\0") + b"".join(part for _, _, part, _ in parts) + sections
