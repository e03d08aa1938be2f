# SPDX-License-Identifier: Apache-2.0
"""Calls through a table of functions that lies at an address of its own: `operations.derive(…)`. The table's address is made in
the function, loaded from a constant, or returned by another function that does nothing else, on every way to the call."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, cast

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import returned
from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import Flow, Instruction, Machine
from ssllatency.code.pointer_calls import called_loads
from ssllatency.elf import aarch64
from ssllatency.elf.image import Image

if TYPE_CHECKING:
    from ssllatency.code.aarch64.instructions import Aarch64Instruction
    from ssllatency.code.x86.instructions import X86Instruction

_LONGEST = 16
_BEHIND_RIP = re.compile(rb"[\x48-\x4f][\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=(.{4}))", re.DOTALL)
_MOST_STEPS = 4  # from a register to the constant that it is made of


class TableCalls:
    """The calls through tables in an image."""

    def __init__(self, image: Image, machine: Machine, bodies: Bodies) -> None:
        self._image, self._machine, self._bodies = image, machine, bodies
        self._returned: dict[int, int | None] = {}  # by functions that were called
        self._pointers: dict[int, set[int]] = {}  # the places of pointers that were loaded, by what they lead to

    def of_function(self, start: int) -> dict[int, tuple[int, int]]:
        """The calls in the function that begins at `start`, by their addresses: the table, and the offset in it of the pointer
        to what is called."""
        try:
            graph = self._bodies.graph(start)
        except Unplannable:
            return {}
        calls = (instruction for _, instruction in sorted(graph.nodes.items()) if instruction.flow is Flow.INDIRECT_CALL)
        return {call.address: slot for call in calls if (slot := self._slot(graph, call))}

    def through(self, table: int, offsets: Collection[int]) -> dict[int, int]:
        """The calls through the pointers at these offsets of the table at `table`, as far as the table is referred to in the
        ways that of_function() has met: by the calls' addresses, the offset."""
        starts = sorted(self._bodies.functions(self._references(table)))
        calls = (call for start in starts for call in self.of_function(start).items())
        return {address: offset for address, (found, offset) in calls if found == table and offset in offsets}

    def _references(self, table: int) -> Iterator[int]:
        """Instructions that may bring the table's address, or that of a pointer to it, into a register."""
        getters = [function for function, value in self._returned.items() if value == table]
        for sites in calls_to(self._image, getters).values():
            yield from sites
        places = {table, *self._pointers.get(table, ())}
        scan = _x86_references if self._image.machine == "x86-64" else _aarch64_references
        for start, code in self._image.code_pieces(_LONGEST):
            yield from scan(start, code, places)

    def _slot(self, graph: Graph, call: Instruction) -> tuple[int, int] | None:
        """The one pointer that an indirect call goes through."""
        slots: set[tuple[int, int] | None] = set()
        for load in called_loads(graph, call):
            tables = self._constants(graph, load.address, load.base, _MOST_STEPS)
            slots |= {(table, load.offset) for table in tables} or {None}
        return slots.pop() if len(slots) == 1 else None

    def _constants(self, graph: Graph, address: int, register: str, steps: int) -> set[int]:
        """The constants that are in the register before the instruction at `address`; none if something else may be."""
        found: set[int] = set()
        seen, work = {(address, register)}, [(address, register)]
        while work:
            at, name = work.pop()
            if at == graph.entry:
                return set()
            for before in graph.predecessors[at]:
                instruction = graph.nodes[before]
                made = self._made(graph, instruction, name, steps)
                if made is None and instruction.copy and instruction.copy[0] == name and instruction.copy[2] == 64:
                    origin = before, instruction.copy[1]
                elif made is None and name not in instruction.writes:
                    origin = before, name
                elif made:
                    found |= made
                    continue
                else:
                    return set()
                if origin not in seen:
                    seen.add(origin)
                    work.append(origin)
        return found

    def _made(self, graph: Graph, instruction: Instruction, register: str, steps: int) -> set[int] | None:
        """The constants that the instruction leaves in the register; an empty set for another value, None where it isn't known
        to make any."""
        if not steps:
            return None
        if instruction.flow is Flow.CALL:
            result = self._constant_of(instruction.target) if register == self._machine.result_register else None
            return None if result is None else {result}
        if hasattr(instruction, "word"):
            return self._made_on_aarch64(graph, cast("Aarch64Instruction", instruction), register, steps)
        return self._made_on_x86(cast("X86Instruction", instruction), register)

    def _constant_of(self, target: int | None) -> int | None:
        """The number that the function at `target` returns, whatever it is called with; None where that isn't one."""
        if target is None:
            return None
        if target not in self._returned:
            values = set(returned(self._image, target))
            value = values.pop() if len(values) == 1 else None
            self._returned[target] = value if isinstance(value, int) else None
        return self._returned[target]

    def _made_on_x86(self, instruction: X86Instruction, register: str) -> set[int] | None:
        """lea place(%rip), register and mov place(%rip), register."""
        behind_rip = instruction.rex & 8 and instruction.modrm & 0xC7 == 0x05 and instruction.opcode in (0x8B, 0x8D)
        if not behind_rip or register not in instruction.writes:
            return None
        place = instruction.end + int.from_bytes(instruction.code[-4:], "little", signed=True)
        return {place} if instruction.opcode == 0x8D else self._loaded({place})

    def _made_on_aarch64(self, graph: Graph, instruction: Aarch64Instruction, register: str, steps: int) -> set[int] | None:
        """adrp, and the add or the ldr that follows it."""
        word = instruction.word
        if register not in instruction.writes:
            return None
        if word & 0x9F000000 == 0x90000000:
            return {aarch64.page(word, instruction.address)}
        base, number = f"x{word >> 5 & 31}", word >> 10 & 0xFFF
        if word & 0xFFC00000 == 0x91000000:
            return {page + number for page in self._constants(graph, instruction.address, base, steps - 1)}
        if word & 0xFFC00000 == 0xF9400000:
            return self._loaded({page + 8 * number for page in self._constants(graph, instruction.address, base, steps - 1)})
        return None

    def _loaded(self, places: set[int]) -> set[int]:
        """The pointers that the file has at these places; none if one isn't known."""
        pointers = {place: self._image.pointer(place) for place in places}
        for place, pointer in pointers.items():
            if pointer:
                self._pointers.setdefault(pointer, set()).add(place)
        return {pointer for pointer in pointers.values() if pointer} if all(pointers.values()) else set()


def _x86_references(start: int, code: bytes, places: Collection[int]) -> Iterator[int]:
    """lea place(%rip), register and mov place(%rip), register."""
    for match in _BEHIND_RIP.finditer(code):
        if start + match.end() + 4 + int.from_bytes(match[1], "little", signed=True) in places:
            yield start + match.start()


def _aarch64_references(start: int, code: bytes, places: Collection[int]) -> Iterator[int]:
    """add and ldr with the part of a place that adrp leaves out."""
    adds = {0x91000000 | (place & 0xFFF) << 10 for place in places}
    loads = {0xF9400000 | (place >> 3 & 0x1FF) << 10 for place in places}
    for number, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) & ~3])):
        if word & 0xFFFFFC00 in adds or word & 0xFFFFFC00 in loads:
            yield start + 4 * number
