# SPDX-License-Identifier: Apache-2.0
"""Tables of 64-bit words that the programs fill, nearly all of which are 0."""

from __future__ import annotations

from collections.abc import Iterator

_BLOCK_BYTES = 1 << 12
_EMPTY = bytes(_BLOCK_BYTES)


def filled_words(table: bytes) -> Iterator[tuple[int, int]]:
    """The words that aren't 0, each after its number, ascending. Empty blocks are skipped as a whole."""
    for start in range(0, len(table), _BLOCK_BYTES):
        block = table[start : start + _BLOCK_BYTES]
        if block != _EMPTY[: len(block)]:
            yield from ((number, word) for number, word in enumerate(memoryview(block).cast("Q"), start // 8) if word)


def bits_of(word: int) -> Iterator[int]:
    """The numbers of its bits that are 1, ascending."""
    while word:
        lowest = word & -word
        yield lowest.bit_length() - 1
        word ^= lowest
