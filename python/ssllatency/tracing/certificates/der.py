# SPDX-License-Identifier: Apache-2.0
"""DER (X.690), as far as certificates need it: elements with one byte of tag and a definite length, which must be the shortest
that says it and must fit. Whatever isn't so is refused, and nothing is read beyond what was given."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.data_class import dataclass

INTEGER, BIT_STRING, OCTET_STRING, OBJECT_IDENTIFIER = 0x02, 0x03, 0x04, 0x06
SEQUENCE, SET = 0x30, 0x31
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
_LONG_TAG, _LONG_LENGTH, _MOST_LENGTH_BYTES = 0x1F, 0x80, 3


class DerError(ValueError):
    """These bytes aren't what they must be."""


@dataclass(frozen=True)
class Element:
    """An element: its tag, its content, and how many bytes it takes with both."""

    tag: int
    content: bytes
    size: int

    def children(self) -> Iterator[Element]:
        """The elements that its content consists of, one at a time. DerError from the first that is wrong."""
        at = 0
        while at < len(self.content):
            child = read(self.content, at)
            at += child.size
            yield child


def read(data: bytes, at: int = 0) -> Element:
    """The element that begins there. DerError where none does."""
    if at + 2 > len(data):
        raise DerError("cut off")
    tag, first = data[at], data[at + 1]
    if tag & _LONG_TAG == _LONG_TAG:
        raise DerError("a tag of several bytes")
    start, length = at + 2, first
    if first >= _LONG_LENGTH:
        count = first - _LONG_LENGTH
        if not 0 < count <= _MOST_LENGTH_BYTES or start + count > len(data):
            raise DerError("a length of another form")
        length = int.from_bytes(data[start : start + count])
        if length < _LONG_LENGTH or length >> 8 * (count - 1) == 0:
            raise DerError("a length that isn't the shortest")
        start += count
    if start + length > len(data):
        raise DerError("longer than what it is in")
    return Element(tag, data[start : start + length], start + length - at)


def whole(data: bytes, tag: int) -> Element:
    """The element of this tag that these bytes are, and nothing more. DerError where they aren't."""
    element = read(data)
    if element.tag != tag or element.size != len(data):
        raise DerError("something else")
    return element


def header_size(length: int) -> int:
    """The bytes that tag and length take in front of so many."""
    return 2 if length < _LONG_LENGTH else 2 + (length.bit_length() + 7) // 8
