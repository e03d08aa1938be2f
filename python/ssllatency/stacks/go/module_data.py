# SPDX-License-Identifier: Apache-2.0
"""The two tables by which all others of a Go executable are found: the header of its table of functions (pclntab), known by its
magic number, and the module data, the structure that points to that header.

No names of sections and no symbols are needed: a stripped file has both tables, for the program itself reads them.
Layouts: runtime/symtab.go of Go 1.18 to 1.27.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from ssllatency.data_class import dataclass
from ssllatency.elf.source import MAX_READ
from ssllatency.stacks.go.data import Data

MAX_FUNCTIONS, MAX_TYPES = 1 << 21, 128 << 20  # the latter in bytes
_MAGIC_END = {
    "x86-64": b"\xff\xff\xff\0\0\x01\x08",
    "aarch64": b"\xff\xff\xff\0\0\x04\x08",
}  # with the quantum and 8 bytes a word
_OF_1_18, _OF_1_20 = 0xF0, 0xF1  # the first byte of the magic number
_OLDER = (0xFA, 0xFB)
_MOST_HEADERS, _MOST_PLACES = 16, 1 << 12  # that look like one; of the bytes behind its first, of which a program has few
_NAMES, _PC_TABLE, _FUNCTIONS = 32, 56, 64  # in the header: the offsets of the tables of names, pc values and functions
_TEXT_START = 24  # 0 since Go 1.26
# In the module data: slices (address, length, capacity) and addresses.
_NAMES_SLICE, _PC_SLICE, _RECORDS_SLICE, _INDEX_SLICE = 8, 80, 104, 128
_TEXT = 176
_SECTION_BASE = 16  # in the description of a section of the text: where it is


@dataclass(frozen=True)
class _Layout:
    """The places where the module data has the ends of the types, the base of functions' data, and the sections of the text."""

    types: int
    end_of_types: int
    function_data: int
    text_sections: int


_LAYOUTS = {
    _OF_1_18: (_Layout(280, 288, 304, 312),),
    _OF_1_20: (
        _Layout(296, 312, 344, 360),  # since Go 1.27
        _Layout(296, 304, 320, 336),  # Go 1.26
        _Layout(296, 304, 320, 328),
    ),
}


@dataclass(frozen=True)
class Table:
    """So many bytes at an address."""

    address: int
    size: int


@dataclass(frozen=True)
class ModuleData:
    """The places of the tables of a Go executable. Its code begins at `text`; `functions` has their records, behind an index of
    `count`; `old_records`: those of Go 1.18 and 1.19, without the line at which a function begins."""

    count: int
    text: int
    names: Table
    pc_values: Table
    functions: Table
    types: Table
    function_data: int
    old_records: bool


def module_data(data: Data) -> ModuleData:
    """The tables of the image. ElfError where there are none, or none that are understood."""
    headers = list(islice(_headers(data), _MOST_HEADERS))
    for header, version in headers:
        layouts = _LAYOUTS.get(version, ())
        if layouts and (module := _module(data, header, layouts)):
            return _read(data, header, module, layouts)
    if any(version in _OLDER for _, version in headers):
        raise data.error("was built by a Go that is older than 1.18")
    raise data.error("has no table of functions as Go 1.18 to 1.27 write it: it isn't of Go, is garbled, or of a newer Go")


def _headers(data: Data) -> Iterator[tuple[int, int]]:
    """(address, first byte) of what begins as a header of a table of functions."""
    for rest in islice(data.find(_MAGIC_END[data.image.machine]), _MOST_PLACES):
        first = data.read_up_to(rest - 1, 1)
        if rest % 8 == 1 and first and (first[0] in _LAYOUTS or first[0] in _OLDER):
            yield rest - 1, first[0]


def _module(data: Data, header: int, layouts: tuple[_Layout, ...]) -> int:
    """The address of the module data that points to this header, 0 where none does."""
    fields = data.read_up_to(header, _FUNCTIONS + 8)
    if len(fields) < _FUNCTIONS + 8:
        return 0
    count, names = struct.unpack_from("<Q", fields, 8)[0], struct.unpack_from("<Q", fields, _NAMES)[0]
    if not 0 < count < MAX_FUNCTIONS:
        return 0
    size = max(layout.text_sections for layout in layouts) + 16
    places = data.image.pointers_to(header)
    fitting = (place for place in places if data.pointer(place + _NAMES_SLICE) == header + names)
    return next((place for place in fitting if data.has(place, size)), 0)


def _read(data: Data, header: int, module: int, layouts: tuple[_Layout, ...]) -> ModuleData:
    count = data.number(header + 8)
    text, stated = data.pointer(module + _TEXT), data.pointer(header + _TEXT_START)
    if not text or stated not in (0, text):
        raise data.error("has tables of functions that disagree about where its code is")
    functions = _table(data, module + _RECORDS_SLICE)
    if _table(data, module + _INDEX_SLICE, 8) != Table(functions.address, 8 * (count + 1)):
        raise data.error("has a table of functions that disagrees with its own number of functions")
    layout = next((layout for layout in layouts if _fits(data, module, layout)), None)
    if layout is None:
        raise data.error("has tables that are laid out otherwise than those of Go 1.18 to 1.27")
    if data.number(module + layout.text_sections + 8) > 1:
        raise data.error("has its code in several sections, which isn't understood")
    types = data.pointer(module + layout.types)
    return ModuleData(
        count,
        text,
        _table(data, module + _NAMES_SLICE),
        _table(data, module + _PC_SLICE),
        functions,
        Table(types, data.pointer(module + layout.end_of_types) - types),
        data.pointer(module + layout.function_data),
        layouts is _LAYOUTS[_OF_1_18],
    )


def _table(data: Data, slice_at: int, each: int = 1) -> Table:
    address, size = data.pointer(slice_at), data.number(slice_at + 8) * each
    if not address or not 0 < size <= MAX_READ:
        raise data.error("has an empty or oversized table of functions")
    return Table(address, size)


def _fits(data: Data, module: int, layout: _Layout) -> bool:
    """Whether this layout is the right one: the types end behind their beginning, both in the file, and the first section of
    the text is where the text is."""
    types, end = data.pointer(module + layout.types), data.pointer(module + layout.end_of_types)
    there = 0 < types < end <= types + MAX_TYPES and data.has(types, end - types)
    sections = data.pointer(module + layout.text_sections)
    known = there and sections and data.pointer(sections + _SECTION_BASE) == data.pointer(module + _TEXT)
    return bool(known and data.pointer(module + layout.function_data))
