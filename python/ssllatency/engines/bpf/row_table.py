# SPDX-License-Identifier: Apache-2.0
"""The rows that handshakes are counted in: a map says which is whose, by labels, and they are memory that the programs share.
The programs take free ones from a stack, on which all are put at the start, and again those of processes that have ended."""

from __future__ import annotations

import ctypes

from ssllatency import abi
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.words import memory_of

_SIZE = ctypes.sizeof(abi.HandshakeRow)
_NUMBER = 4  # bytes of a row's number


def make_room(loaded: Loadable, entries: int) -> None:
    """Before loading: makes the maps for so many rows."""
    for name in ("rows", "row_counts", "free_rows"):
        loaded.resize_map(name, entries)


class RowTable:
    """The rows of an object that was loaded with room for so many `entries`."""

    def __init__(self, loaded: Loadable, entries: int) -> None:
        self._numbers = loaded.map("rows", ctypes.sizeof(abi.Labels), _NUMBER)
        self._free = loaded.map("free_rows", 0, _NUMBER)
        whole = type("RowMemory", (ctypes.Structure,), {"_fields_": (("rows", abi.HandshakeRow * entries),)})
        self._memory = loaded.live_section("row_counts", whole)
        self._rows = list(map(self._row, range(entries)))
        self._unused = list(range(entries))
        self._last: dict[bytes, int] = {}

    def _row(self, number: int) -> memoryview:
        return memory_of(self._memory)[number * _SIZE : (number + 1) * _SIZE]

    def add(self, key: abi.Labels) -> None:
        """Makes a row. Not after `release`."""
        self._numbers.update(key, ctypes.c_uint32(self._unused.pop()))

    def release(self) -> None:
        """Leaves all other rows to the programs."""
        while self._unused:
            self._free.push(ctypes.c_uint32(self._unused.pop()))

    def read(self) -> list[tuple[bytes, memoryview]]:
        """All rows, by key: the memory of each, which is the same object as long as it is the same row's."""
        self._last = {key: int.from_bytes(number, "little") for key, number in self._numbers.items()}
        return [(key, self._rows[number]) for key, number in self._last.items()]

    def delete(self, key: bytes) -> bool:
        """Frees a row that was read last; whether it was still there."""
        if not self._numbers.delete(key):
            return False
        number = self._last.pop(key)
        ctypes.memset(ctypes.addressof(self._memory) + number * _SIZE, 0, _SIZE)
        self._rows[number] = self._row(number)
        self._free.push(ctypes.c_uint32(number))
        return True
