# SPDX-License-Identifier: Apache-2.0
"""Bounds of functions, from the unwind tables (.eh_frame), which stripping leaves in place.

The sorted table of .eh_frame_hdr leads to the one frame description that an address needs; without that table the section is
read through once. A function that the compiler split has a description for each part.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from ssllatency.elf.headers import Headers
from ssllatency.elf.memory import Memory
from ssllatency.elf.source import ElfError

MAX_ENTRIES = 2_000_000
MAX_WALK = 200_000
_PCREL, _DATAREL, _OMIT, _ALIGNED = 0x10, 0x30, 0xFF, 0x50
_FORMATS = {0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x09: "<q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q"}
_HEADER_SIZE = 12
# DW_CFA_nop; DW_CFA_set_loc, the three DW_CFA_advance_loc with an operand, and DW_CFA_advance_loc.
_NOP, _ADVANCES = 0, frozenset((1, 2, 3, 4, *range(0x40, 0x80)))


class Unwind:
    """The ranges of functions. Damaged tables have no ranges; no method raises."""

    def __init__(self, headers: Headers, memory: Memory) -> None:
        self._headers = headers
        self._memory = memory
        self._encodings: dict[int, int | None] = {}

    def bounds(self, address: int) -> tuple[int, int] | None:
        """[start, end) of the function, or the part of one, that contains `address`."""
        starts, frames = self._table
        at = bisect_right(starts, address) - 1
        bounds = self._range(frames[at]) if at >= 0 else None
        return bounds if bounds and bounds[0] == starts[at] and address < bounds[1] else None

    def is_part(self, address: int) -> bool:
        """Whether the range that holds `address` is entered with a frame already set up: a part that the compiler split off.

        The description of a whole function advances the location before it describes the frame.
        """
        starts, frames = self._table
        at = bisect_right(starts, address) - 1
        first = self._first_instruction(frames[at]) if at >= 0 else _NOP
        return first != _NOP and first not in _ADVANCES

    def _first_instruction(self, frame: int) -> int:
        """The opcode that the frame description at the address `frame` begins with, _NOP for none."""
        try:
            length, back = struct.unpack("<II", self._memory.read(frame, 8))
            encoding = self._encoding(frame + 4 - back)
            if encoding is None or encoding & 0x0F not in _FORMATS:
                return _NOP
            at = 4 + 2 * struct.calcsize(_FORMATS[encoding & 0x0F])
            data = self._memory.read(frame + 4, min(length, at + 16))
            if self._memory.read(frame + 4 - back + 9, 1) == b"z":
                at = _skip_leb(data, at, 1) + data[at]
            return data[at]
        except (ElfError, IndexError):
            return _NOP

    @property
    def is_empty(self) -> bool:
        """Whether they tell no function."""
        return not self._table[0]

    @cached_property
    def _table(self) -> tuple[list[int], list[int]]:
        """The starts of functions, in ascending order, and the address of the frame description of each."""
        try:
            rows = self._sorted_rows() or self._section_rows()
        except ElfError:
            rows = []
        frames = dict(sorted(rows))
        return list(frames), list(frames.values())

    def _sorted_rows(self) -> list[tuple[int, int]]:
        header = next((segment for segment in self._headers.segments if segment.p_type == "PT_GNU_EH_FRAME"), None)
        if header is None:
            return []
        version, frame, count, table = self._memory.read(header.p_vaddr, 4)
        if version != 1 or frame & 0x0F not in (0x03, 0x0B) or count != 0x03 or table != _DATAREL | 0x0B:
            return []
        entries = self._memory.half(header.p_vaddr + 8)
        if entries > MAX_ENTRIES:
            return []
        numbers = struct.unpack(f"<{entries * 2}i", self._memory.read(header.p_vaddr + _HEADER_SIZE, entries * 8))
        base = header.p_vaddr
        return [(base + start, base + frame) for start, frame in zip(numbers[::2], numbers[1::2], strict=True)]

    def _section_rows(self) -> list[tuple[int, int]]:
        section = self._headers.section(".eh_frame")
        return list(self._walk(section.sh_addr, section.sh_size)) if section else []

    def _walk(self, address: int, size: int) -> Iterator[tuple[int, int]]:
        end = address + size
        for _ in range(MAX_WALK):
            if address + 8 > end:
                return
            length, back = struct.unpack("<II", self._memory.read(address, 8))
            if length in (0, 0xFFFFFFFF):
                return
            bounds = self._range(address) if back else None
            if bounds and bounds[0] < bounds[1]:
                yield bounds[0], address
            address += 4 + length

    def _range(self, frame: int) -> tuple[int, int] | None:
        """The range that the frame description entry at the address `frame` is for."""
        try:
            length, back = struct.unpack("<II", self._memory.read(frame, 8))
            if not back or length in (0, 0xFFFFFFFF):
                return None
            encoding = self._encoding(frame + 4 - back)
            if encoding is None or encoding & 0x0F not in _FORMATS or encoding & 0xF0 not in (0, _PCREL):
                return None
            layout = _FORMATS[encoding & 0x0F]
            width = struct.calcsize(layout)
            data = self._memory.read(frame + 8, 2 * width)
        except ElfError:
            return None
        start = struct.unpack_from(layout, data, 0)[0] + (frame + 8 if encoding & _PCREL else 0)
        return start, start + int.from_bytes(data[width:], "little")

    def _encoding(self, address: int) -> int | None:
        """Return how the frame descriptions of the common information entry at `address` write addresses; None if unknown."""
        if address not in self._encodings:
            self._encodings[address] = self._read_encoding(address)
        return self._encodings[address]

    def _read_encoding(self, address: int) -> int | None:
        length, identity = struct.unpack("<II", self._memory.read(address, 8))
        if identity or length < 8 or length == 0xFFFFFFFF:
            return None
        return pointer_encoding(self._memory.read(address + 8, min(length - 4, 64)))


def pointer_encoding(entry: bytes) -> int | None:
    """The DW_EH_PE encoding of addresses that a common information entry (from its version byte on) sets; None if unknown."""
    end = entry.find(b"\0", 1)
    if end < 0 or entry[0] not in (1, 3):
        return None
    augmentation = entry[1:end]
    if not augmentation.startswith(b"z"):
        return 0 if not augmentation else None
    # Code and data alignment, return register (one byte in version 1), length of what follows: LEB128 numbers.
    at = _skip_leb(entry, end + 1, 2)
    at = _skip_leb(entry, at + 1, 1) if entry[0] == 1 else _skip_leb(entry, at, 2)
    for letter in augmentation[1:].decode("ascii", "replace"):
        value = entry[at] if at < len(entry) else None
        if letter == "R" or value is None:
            return value if value not in (_OMIT, _ALIGNED) else None
        size = _augmentation_size(letter, value)
        if size is None:
            return None
        at += size
    return 0


def _augmentation_size(letter: str, value: int) -> int | None:
    if letter == "L":
        return 1
    if letter in "SB":
        return 0
    if letter == "P" and value & 0x0F in _FORMATS:
        return 1 + struct.calcsize(_FORMATS[value & 0x0F])
    return None


def _skip_leb(data: bytes, at: int, count: int) -> int:
    while count and at < len(data):
        count -= not data[at] & 0x80
        at += 1
    return at
