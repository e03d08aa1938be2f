# SPDX-License-Identifier: Apache-2.0
"""Functions of a Go executable that the compiler has inlined into others: what is inlined can't be probed there.

A function with inlined calls has a tree of them among its data, and a table of pc values that says for its instructions which
call of the tree they belong to. The tree's size isn't stated: its largest number in that table tells it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property

from ssllatency.elf.source import MAX_READ
from ssllatency.stacks.go.data import Data
from ssllatency.stacks.go.functions import Functions
from ssllatency.stacks.go.module_data import ModuleData

_TREE_INDEX, _TREE = 2, 3  # of a function's tables of pc values, and of its data
_CALL, _OLD_CALL = (16, 4), (20, 12)  # the size of an inlined call in a tree, and where the offset of its name is
_MOST_CALLS = 1 << 16  # in one tree
_MOST_VALUES = 1 << 20  # for instructions, of all functions that are looked at
_MOST_PLACES, _MOST_SHARING = 1 << 14, 64  # of a function's name, of which few are in trees; of functions with one tree


class Inlining:
    """The inlined calls of an executable. ElfError where their tables are damaged."""

    def __init__(self, data: Data, module: ModuleData, functions: Functions) -> None:
        self._data, self._functions = data, functions
        self._start = module.function_data
        self._counts: dict[int, int] = {}  # by the table that tells it, which functions may share
        self._values = 0
        self._size, self._name = _OLD_CALL if module.old_records else _CALL

    @cached_property
    def _trees(self) -> Mapping[int, list[int]]:
        """The numbers of the functions by the offsets of their trees, which functions may share."""
        return self._functions.with_data(_TREE)

    @cached_property
    def _bytes(self) -> bytes:
        """The data of functions up to the last tree, and as much behind as that can take."""
        return self._data.read_up_to(self._start, min(MAX_READ, max(self._trees, default=0) + _MOST_CALLS * self._size))

    def hosts(self, name: str) -> list[str]:
        """The functions into which the one of this name is inlined, in the order of their names."""
        offsets = self._functions.offsets_of(name)
        numbers = {number for offset in offsets for number in self._numbers(offset)}
        return sorted({self._functions.numbered(number).name for number in numbers})

    def _numbers(self, name_offset: int) -> Iterator[int]:
        """The numbers of the functions that have an inlined call of the function whose name is at this offset."""
        starts, pattern = self._sorted, struct.pack("<I", name_offset)
        at = self._bytes.find(pattern)
        for _ in range(_MOST_PLACES):
            if at < 0:
                return
            tree = starts[bisect_right(starts, at - self._name) - 1] if starts and starts[0] <= at - self._name else at
            call, remainder = divmod(at - self._name - tree, self._size)
            if not remainder and call < _MOST_CALLS:
                sharing = self._trees.get(tree, [])[:_MOST_SHARING]
                yield from (number for number in sharing if call < self._calls(number))
            at = self._bytes.find(pattern, at + 1)

    @cached_property
    def _sorted(self) -> list[int]:
        return sorted(self._trees)

    def _calls(self, number: int) -> int:
        """Return how many inlined calls the function of this number has."""
        tables = self._functions.record(self._functions.numbered(number)).pc_tables
        table = tables[_TREE_INDEX] if len(tables) > _TREE_INDEX else 0
        if table not in self._counts:
            self._counts[table] = self._counted(table)
        return self._counts[table]

    def _counted(self, table: int) -> int:
        values = self._functions.pc_values(table)
        self._values += len(values)
        if self._values > _MOST_VALUES:
            raise self._data.error("has more values for instructions in its trees of inlined calls than any program")
        return 1 + max((value for _, value in values), default=-1)
