# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers and names: the rows around one that is known. How a row is read, each library tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ssllatency.elf.image import Image
from ssllatency.stacks.texts import pointers_to_text, text_at

MAX_ROWS = 4096
TLS = 0x03000000
"""In the 32-bit identifiers of ciphers, above TLS' number."""
_STRIDES = range(16, 160, 8)
MOST_PLACES = 32  # pointers to a text: each table has one

Row = tuple[int, str]
ReadRow = Callable[[int], Row | None]
"""The row that begins at an address; None where none does."""


def table(read: ReadRow, anchors: Iterable[int]) -> dict[int, str]:
    """The names by their numbers of the tables in which those anchors lie that are rows. A row without a name is left out."""
    found = (row for anchor in anchors if read(anchor) for row in rows_around(read, anchor, _stride(read, anchor)))
    return {number: name for number, name in islice(found, MAX_ROWS) if name}


def rows_around(read: ReadRow, anchor: int, stride: int) -> Iterator[Row]:
    """The rows of the table around the one at `anchor`, in both directions, `stride` bytes apart (0: only that row)."""
    for step in (stride, -stride) if stride else (1,):
        for address in range(anchor, anchor + step * (MAX_ROWS if stride else 1), step):
            row = read(address)
            if row is None:
                break
            yield row


def rows_naming(image: Image, text: bytes, name: int) -> Iterator[int]:
    """The beginnings of what may be rows, which point to this text so far from there."""
    return (place - name for place in pointers_to_text(image, text, MOST_PLACES))


def _stride(read: ReadRow, anchor: int) -> int:
    return next((stride for stride in _STRIDES if read(anchor + stride) or read(anchor - stride)), 0)


def suite_reader(image: Image, number: int, name: int) -> ReadRow:
    """Reads rows with the two bytes of a cipher suite and IANA's name of it, so far from their beginning."""

    def read(address: int) -> Row | None:
        code, text = image.constant(address + number, 2), text_at(image, address + name)
        if code is None or not text.startswith(("TLS_", "SSL_")):
            return None
        return TLS | int.from_bytes(code.to_bytes(2, "little"), "big"), text

    return read
