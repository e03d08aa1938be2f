# SPDX-License-Identifier: Apache-2.0
"""The functions of a Go executable by name and by address, from its table of functions (pclntab).

The table has an index of pairs (where the function begins, offset of its record), in ascending order. A function ends where the
next begins; the bytes between are padding. A record holds more offsets: of the name, of tables of values for each instruction
(pc values), and of data for the function (funcdata).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

from ssllatency.data_class import dataclass
from ssllatency.elf.image import Function
from ssllatency.stacks.go.data import LONGEST_NAME, Data, varint
from ssllatency.stacks.go.module_data import ModuleData

FOUND = "function table"
# Words of a record: its entry, then the name, arguments, the way on after a recovered panic, stack depths, and so on.
_NAME, _RECOVERY, _STACK_DEPTHS, _PC_TABLES = 1, 3, 4, 7
_OLD_WORDS, _WORDS = 10, 11  # of a record before its lists
_NO_DATA = 0xFFFFFFFF
_LONGEST_RECORD, _MOST_PC_VALUES = 4096, 1 << 16
_QUANTUM = {"x86-64": 1, "aarch64": 4}
# GOFIPS140 builds with a version of the module of cryptography, whose packages then have that version in their paths.
_MODULE = "crypto/internal/fips140/"
_VERSIONED, _NO_PREFIX = re.compile(rb"crypto/internal/fips140/(?:v[0-9][^/]*/)?"), re.compile(b"")
_LONGEST_PREFIX, _MOST_PLACES = 128, 4096  # of a name, at the ends of others


@dataclass(frozen=True)
class Record:
    """The record of a function beside its name: `recovery` is the offset in it at which it goes on after a recovered panic, 0
    for none; `stack_depths`, `pc_tables`: offsets of tables of pc values; `data`: of its data, None where it has none."""

    recovery: int
    stack_depths: int
    pc_tables: tuple[int, ...]
    data: tuple[int | None, ...]


class Functions:
    """All functions. ElfError from the constructor where their table is damaged."""

    def __init__(self, data: Data, module: ModuleData) -> None:
        self._data, self._module = data, module
        self._text = module.text
        table = data.read(module.functions.address, module.functions.size // 4 * 4)
        self._words = memoryview(table).cast("I")
        self.names = data.read(module.names.address, module.names.size)
        count = module.count
        self._starts: list[int] = self._words[0 : 2 * count + 1 : 2].tolist()
        self._records: list[int] = self._words[1 : 2 * count : 2].tolist()
        if len(self._words) <= 2 * count or not self._is_good():
            raise data.error("has a table of functions that is damaged")
        self._name_offsets = [self._words[record // 4 + _NAME] for record in self._records]

    def _is_good(self) -> bool:
        """Whether functions follow each other within the code, and their records lie in the table, each of its own function."""
        starts, records = self._starts, self._records
        most = 4 * (len(self._words) - _WORDS)
        return (
            all(map(int.__le__, starts, starts[1:]))
            and self._data.image.executable(self._text + starts[0])
            and self._data.image.executable(self._text + starts[-1] - 1)
            and all(0 <= record <= most and record % 4 == 0 for record in records)
            and all(self._words[record // 4] == start for record, start in zip(records, starts, strict=False))
        )

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Function]:
        return map(self.numbered, range(len(self)))

    def numbered(self, index: int) -> Function:
        """The function of this number, in the order of their addresses."""
        start, end = self._starts[index], self._starts[index + 1]
        return Function(self.name_at(self._name_offsets[index]), self._text + start, end - start, FOUND)

    def name_at(self, offset: int) -> str:
        """The name that begins at `offset` in the table of names. ElfError where there is none, or it is too long."""
        end = self.names.find(b"\0", offset, offset + LONGEST_NAME)
        if end < 0:
            raise self._data.error("has a table of functions that is damaged: the name of one lies outside it")
        return self.names[offset:end].decode("utf-8", "replace")

    def named(self, name: str) -> list[Function]:
        """The functions of this name, in the order of their addresses. A package of a GOFIPS140 build has its version in its
        path, which isn't in `name`."""
        indexes = (index for offset in self.offsets_of(name) for index in self.by_name.get(offset, ()))
        return [self.numbered(index) for index in sorted(indexes)]

    def offsets_of(self, name: str) -> list[int]:
        """Return where the name is in the table of names."""
        text = name.removeprefix(_MODULE).encode() + b"\0"
        prefix = _VERSIONED if name.startswith(_MODULE) else _NO_PREFIX
        offsets: list[int] = []
        at = self.names.find(text)
        for _ in range(_MOST_PLACES):
            if at < 0:
                break
            begin = self.names.rfind(b"\0", max(0, at - _LONGEST_PREFIX), at) + 1
            if (begin or at < _LONGEST_PREFIX) and prefix.fullmatch(self.names, begin, at):
                offsets.append(begin)
            at = self.names.find(text, at + 1)
        return offsets

    @cached_property
    def by_name(self) -> dict[int, list[int]]:
        """The numbers of the functions by the offsets of their names."""
        numbers: dict[int, list[int]] = {}
        for number, offset in enumerate(self._name_offsets):
            numbers.setdefault(offset, []).append(number)
        return numbers

    def at(self, address: int) -> Function | None:
        """The function that contains `address`; None where there is none."""
        index = bisect_right(self._starts, address - self._text) - 1
        return self.numbered(index) if 0 <= index < len(self) else None

    def record(self, function: Function) -> Record:
        """Return what is stored of a function of this table. ElfError where that lies outside of it."""
        at = self._records[bisect_right(self._starts, function.address - self._text) - 1] // 4
        size = _OLD_WORDS if self._module.old_records else _WORDS
        tables, datas = self._words[at + _PC_TABLES], self._words[at + size - 1] >> 24
        end = at + size + tables + datas
        if tables > _LONGEST_RECORD or end > len(self._words):
            raise self._data.error("has a table of functions that is damaged: the record of one lies outside it")
        lists = self._words[at + size : end].tolist()
        offsets = (None if offset == _NO_DATA else offset for offset in lists[tables:])
        return Record(self._words[at + _RECOVERY], self._words[at + _STACK_DEPTHS], tuple(lists[:tables]), tuple(offsets))

    def with_data(self, number: int) -> dict[int, list[int]]:
        """The functions, by their numbers, that have data of this number, by its offset, which several may share."""
        numbers: dict[int, list[int]] = {}
        words, size = self._words, _OLD_WORDS if self._module.old_records else _WORDS
        for index, record in enumerate(self._records):
            at = record // 4
            place = at + size + words[at + _PC_TABLES] + number
            if words[at + size - 1] >> 24 > number and place < len(words) and words[place] != _NO_DATA:
                numbers.setdefault(words[place], []).append(index)
        return numbers

    @cached_property
    def _pc_values(self) -> bytes:
        return self._data.read(self._module.pc_values.address, self._module.pc_values.size)

    def pc_values(self, table: int) -> Sequence[tuple[int, int]]:
        """(offset at which it ends, value) of each range of a function, of the table of pc values at `table`. ElfError for a
        damaged one."""
        quantum = _QUANTUM[self._data.image.machine]
        values: list[tuple[int, int]] = []
        at, value, pc = table, -1, 0
        while table and len(values) < _MOST_PC_VALUES:
            change = varint(self._pc_values, at)
            if change and change[0] == 0 and values:
                return values
            step = varint(self._pc_values, change[1]) if change else None
            if change is None or step is None:
                break
            value += (change[0] >> 1) ^ -(change[0] & 1)
            pc, at = pc + step[0] * quantum, step[1]
            values.append((pc, value))
        if table:
            raise self._data.error("has a table of functions that is damaged: its values for instructions have no end")
        return values
