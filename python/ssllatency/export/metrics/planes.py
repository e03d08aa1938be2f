# SPDX-License-Identifier: Apache-2.0
"""The counts of a histogram as text, for the way from one process to the other: the lowest byte of each count, then the next
one of each, as far as any is needed. Most counts are small, and of a word of eight bytes seven would be sent for nothing."""

from __future__ import annotations

_WORD = 8  # bytes of a count
_MOST_BUCKETS = 480
# By how many bytes of each count are sent: the bits that have to be 0 in all counts.
_REST = {
    width: int.from_bytes((b"\0" * width + b"\xff" * (_WORD - width)) * _MOST_BUCKETS, "little")
    for width in range(1, _WORD + 1)
}


def to_planes(packed: int) -> tuple[int, str]:
    """Return how many bytes of each count there are, and these in hexadecimal digits; the counts are words of one number."""
    words = packed.to_bytes(-(-packed.bit_length() // (8 * _WORD)) * _WORD, "little")
    if not packed & _REST[1]:  # as of nearly all
        return 1, words[::_WORD].hex()
    width = next(width for width, rest in _REST.items() if not packed & rest)
    return width, b"".join([words[place::_WORD] for place in range(width)]).hex()


def from_plane(digits: str) -> bytes:
    """The counts, a byte each, of which the digits are all there is. Errors as of `from_planes`."""
    counts = bytes.fromhex(digits)
    if len(counts) > _MOST_BUCKETS:
        raise ValueError("no counts")
    return counts.rstrip(b"\0")


def from_planes(width: int, digits: str) -> int:
    """The number that these were made of. ValueError where none has such bytes, TypeError for anything else."""
    planes = bytes.fromhex(digits)
    if not 1 <= width <= _WORD or len(planes) % width or len(planes) > width * _MOST_BUCKETS:
        raise ValueError("no counts")
    count = len(planes) // width
    words = bytearray(count * _WORD)
    for place in range(width):
        words[place::_WORD] = planes[place * count : (place + 1) * count]
    return int.from_bytes(words, "little")
