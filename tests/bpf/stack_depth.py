# SPDX-License-Identifier: Apache-2.0
"""How much stack the programs of a compiled BPF object take, with all functions that they call, by the verifier's own rules
(check_max_stack_depth() of kernel/bpf/verifier.c). They differ by kernel: an older one refuses what this machine's takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import starmap
from struct import Struct
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol

MOST_BYTES, MOST_FRAMES = 512, 8  # MAX_BPF_STACK, MAX_CALL_FRAMES
MOST_BEFORE_TAIL_CALL = 256  # of the callers of a function that makes one
INTERPRETERS_GRANULARITY, JITS_GRANULARITY = 32, 16  # bytes that a frame is rounded up to; the latter in newer kernels
_FRAME_POINTER = 10
_LOAD, _STORES = 1, (2, 3)  # BPF_LDX, BPF_ST and BPF_STX
_MOVE, _ADD_NUMBER, _CALL, _LOAD_ADDRESS = 0xBF, 0x07, 0x85, 0x18
_PSEUDO_CALL, _PSEUDO_FUNC, _TAIL_CALL = 1, 4, 12
_WIDTH = 8


class Instruction(NamedTuple):
    """A struct bpf_insn."""

    code: int
    registers: int
    offset: int
    number: int

    @property
    def destination(self) -> int:
        return self.registers & 15

    @property
    def source(self) -> int:
        return self.registers >> 4


_INSTRUCTION = Struct("<BBhi")


@dataclass(frozen=True)
class Chain:
    """Functions that call each other, the outermost first, with the bytes of stack that each uses."""

    frames: tuple[tuple[str, int], ...]
    granularity: int

    @property
    def size(self) -> int:
        """As the verifier adds it up: for the interpreter a frame is never empty."""
        least = 1 if self.granularity == INTERPRETERS_GRANULARITY else 0
        return sum(-(-max(used, least) // self.granularity) * self.granularity for _name, used in self.frames)


@dataclass(frozen=True)
class Function:
    """One of an object: a program, or what programs call."""

    name: str
    section: str
    used: int
    callees: tuple[str, ...]
    makes_tail_call: bool


class CompiledObject:
    """The functions of an object."""

    def __init__(self, content: bytes) -> None:
        self._elf = ELFFile(BytesIO(content))

    @property
    def programs(self) -> list[str]:
        """The names of those that are attached."""
        return [function.name for function in self.functions.values() if function.section != ".text"]

    def chains(self, program: str, granularity: int) -> Iterator[Chain]:
        """All ways down from a program. The verifier forbids recursion."""
        yield from (Chain(frames, granularity) for frames in self._below(program))

    def deepest(self, program: str, granularity: int) -> Chain:
        """The one that takes most stack."""
        return max(self.chains(program, granularity), key=lambda chain: chain.size)

    def _below(self, name: str) -> Iterator[tuple[tuple[str, int], ...]]:
        function = self.functions[name]
        own = ((name, function.used),)
        yield own
        for callee in function.callees:
            yield from (own + rest for rest in self._below(callee))

    @cached_property
    def functions(self) -> dict[str, Function]:
        """All, by name."""
        return {symbol.name: self._function(symbol) for symbol in self._symbols}

    @cached_property
    def _symbols(self) -> list[Symbol]:
        table = self._elf.get_section_by_name(".symtab")
        return [symbol for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_FUNC"]

    @cached_property
    def _names(self) -> dict[tuple[int, int], str]:
        """By section and where each begins in it."""
        return {(symbol["st_shndx"], symbol["st_value"]): symbol.name for symbol in self._symbols}

    @cached_property
    def _relocated(self) -> dict[tuple[int, int], Symbol]:
        """Symbols that instructions refer to, by section and place."""
        table = self._elf.get_section_by_name(".symtab")
        tables = [section for section in self._elf.iter_sections() if isinstance(section, RelocationSection)]
        return {
            (section["sh_info"], relocation["r_offset"]): table.get_symbol(relocation["r_info_sym"])
            for section in tables
            for relocation in section.iter_relocations()
        }

    def _function(self, symbol: Symbol) -> Function:
        section: Section = self._elf.get_section(symbol["st_shndx"])
        code = section.data()[symbol["st_value"] :][: symbol["st_size"]]
        instructions = list(starmap(Instruction, _INSTRUCTION.iter_unpack(code)))
        callees = {
            self._callee(symbol["st_shndx"], symbol["st_value"] + place * _WIDTH, each)
            for place, each in enumerate(instructions)
            if (each.code, each.source) in {(_CALL, _PSEUDO_CALL), (_LOAD_ADDRESS, _PSEUDO_FUNC)}
        }
        return Function(
            symbol.name,
            section.name,
            used_stack(instructions),
            tuple(sorted(callees)),
            any((each.code, each.source, each.number) == (_CALL, 0, _TAIL_CALL) for each in instructions),
        )

    def _callee(self, section: int, place: int, call: Instruction) -> str:
        """A call of another section's function has a relocation: to it, or to its section with a distance."""
        symbol = self._relocated.get((section, place))
        if symbol is None:
            return self._names[section, place + (call.number + 1) * _WIDTH]
        if symbol["st_info"]["type"] == "STT_FUNC":
            return str(symbol.name)
        return self._names[symbol["st_shndx"], symbol["st_value"] + (call.number + 1) * _WIDTH]


def used_stack(instructions: list[Instruction]) -> int:
    """How far below its frame pointer a function reads or writes, or passes an address."""
    lowest, copies = 0, set()
    for each in instructions:
        kind = each.code & 7
        if (kind == _LOAD and each.source == _FRAME_POINTER) or (kind in _STORES and each.destination == _FRAME_POINTER):
            lowest = min(lowest, each.offset)
        if each.code == _MOVE and each.source == _FRAME_POINTER:
            copies.add(each.destination)
        elif each.code == _ADD_NUMBER and each.destination in copies:
            copies.discard(each.destination)
            lowest = min(lowest, each.number)
    return -lowest
