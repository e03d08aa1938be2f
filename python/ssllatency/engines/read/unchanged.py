# SPDX-License-Identifier: Apache-2.0
"""Values made of the rows of a kernel map, kept as long as their bytes stay the same: most rows of most readings are those of
the reading before, and comparing one takes a hundredth of what making numbers of it does.

Every byte is compared, so a row that was read while the kernel counted in it is made anew the next time. Only blocks that
aren't empty are kept of the bytes: of a histogram's buckets few are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ssllatency.engines.read.zeros import BLOCK_BYTES

T = TypeVar("T")
_CHUNK_BYTES = 8 * BLOCK_BYTES
_EMPTY, _EMPTY_CHUNK = bytes(BLOCK_BYTES), bytes(_CHUNK_BYTES)

Blocks = tuple[tuple[int, bytes], ...]  # each after where it begins


def filled_blocks(raw: bytes | memoryview) -> Blocks:
    """The contents of the blocks that aren't empty, without the zeros at both ends."""
    filled = []
    for chunk_start in range(0, len(raw), _CHUNK_BYTES):
        chunk = bytes(raw[chunk_start : chunk_start + _CHUNK_BYTES])  # copying a large row at once would take longer
        if chunk == _EMPTY_CHUNK:  # most are, of many rows
            continue
        for start in range(0, len(chunk), BLOCK_BYTES):
            block = chunk[start : start + BLOCK_BYTES]
            if block != _EMPTY and (content := block.lstrip(b"\0")):
                filled.append((chunk_start + start + len(block) - len(content), content.rstrip(b"\0")))
    return tuple(filled)


class Unchanged(Generic[T]):
    """`make` gets a row's key and bytes, which it may only look at. What it returns is handed out again until the row's bytes
    are others, so that whoever has seen it can tell by identity that nothing was counted in between."""

    def __init__(self, make: Callable[[bytes, memoryview], T]) -> None:
        self._make = make
        self._kept: dict[bytes, tuple[Blocks, T]] = {}
        self._expected = bytearray()

    @property
    def last(self) -> list[tuple[bytes, T]]:
        """The last result of `read`."""
        return [(key, made) for key, (_, made) in self._kept.items()]

    def read(self, pairs: Iterable[tuple[bytes, bytes | memoryview]]) -> list[tuple[bytes, T]]:
        """All rows of the map by now, by key; what is no more among them is forgotten."""
        kept: dict[bytes, tuple[Blocks, T]] = {}
        for key, value in pairs:
            before = self._kept.get(key)
            raw = memoryview(value)
            if before and self._is(raw, before[0]):
                kept[key] = before
            else:
                kept[key] = filled_blocks(raw), self._make(key, raw)
        self._kept = kept
        return self.last

    def _is(self, raw: memoryview, blocks: Blocks) -> bool:
        """Whether the row has these blocks, and nothing else."""
        expected = self._expected
        if len(expected) != len(raw):
            expected = self._expected = bytearray(len(raw))
        for start, block in blocks:
            expected[start : start + len(block)] = block
        same = expected == raw
        for start, block in blocks:
            expected[start : start + len(block)] = _EMPTY[: len(block)]
        return same
