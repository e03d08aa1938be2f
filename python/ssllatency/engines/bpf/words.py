# SPDX-License-Identifier: Apache-2.0
"""Tables of 64-bit words that the programs fill, nearly all of which are 0. They are looked through in place, as the copy of a
megabyte takes longer than to see that it is empty."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

_LARGE, _SMALL = 1 << 16, 1 << 12  # bytes of the blocks that are skipped where they are empty
_EMPTY = bytearray(_LARGE)  # compares with memory byte by byte in C, which bytes doesn't

Table = bytes | ctypes.Structure


def memory_of(table: Table) -> memoryview:
    """The table's own bytes."""
    if isinstance(table, bytes):
        return memoryview(table)
    return memoryview((ctypes.c_char * ctypes.sizeof(table)).from_buffer(table))


def filled_words(table: Table) -> Iterator[tuple[int, int]]:
    """The words that aren't 0, each after its number, ascending. Empty blocks are skipped as a whole."""
    memory = memory_of(table)
    for large, block in _filled_blocks(memory, _LARGE):
        for small, words in _filled_blocks(block, _SMALL):
            numbered = enumerate(memoryview(bytes(words)).cast("Q"), (large + small) // 8)
            yield from ((number, word) for number, word in numbered if word)


def _filled_blocks(memory: memoryview, size: int) -> Iterator[tuple[int, memoryview]]:
    empty = _EMPTY[:size]
    for start in range(0, len(memory), size):
        block = memory[start : start + size]
        if (empty if len(block) == size else _EMPTY[: len(block)]) != block:
            yield start, block


def bits_of(word: int) -> Iterator[int]:
    """The numbers of its bits that are 1, ascending."""
    while word:
        lowest = word & -word
        yield lowest.bit_length() - 1
        word ^= lowest
