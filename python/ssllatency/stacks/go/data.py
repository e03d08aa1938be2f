# SPDX-License-Identifier: Apache-2.0
"""Reads the data of a Go executable by address: bytes, numbers, pointers, lengths. Whatever isn't there is an ElfError."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ssllatency.elf.source import ElfError

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

LONGEST_NAME = 4096  # bytes of a function's or a type's name; names of generic functions are long
_LONGEST_VARINT = 5


class Data:
    """The image's bytes as the loaded program has them. Errors are sentences that name the file."""

    def __init__(self, image: Image) -> None:
        self.image = image

    def error(self, why: str) -> ElfError:
        """An error to raise: `why` follows the name of the file."""
        return ElfError(f"{self.image.label} {why}.")

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes."""
        data = self.read_up_to(address, size)
        if len(data) != size:
            raise self.error(f"has no {size} bytes at the address {address:#x}")
        return data

    def read_up_to(self, address: int, size: int) -> bytes:
        """At most `size` bytes: fewer at the end of a segment, none where the file has nothing."""
        try:
            return self.image.code(address, size)
        except ElfError:
            return b""

    def has(self, address: int, size: int) -> bool:
        """Whether the file has so many bytes there, by their first and last ones."""
        return len(self.read_up_to(address, 1)) == len(self.read_up_to(address + size - 1, 1)) == 1

    def number(self, address: int, size: int = 8) -> int:
        """The unsigned number of `size` bytes."""
        return int.from_bytes(self.read(address, size), "little")

    def pointer(self, address: int) -> int:
        """The address that the word at `address` holds once the program is loaded, 0 for none."""
        return self.image.pointer(address) or 0

    def length(self, address: int) -> tuple[int, int]:
        """The number at `address`, written in 7 bits a byte, and the address behind it."""
        data = self.read_up_to(address, _LONGEST_VARINT)
        value, size = varint(data, 0) or (0, 0)
        if not size:
            raise self.error(f"has no length at the address {address:#x}")
        return value, address + size

    def text(self, address: int, size: int) -> str:
        """So many bytes as text."""
        if size > LONGEST_NAME:
            raise self.error(f"has a name of {size} bytes at the address {address:#x}")
        return self.read(address, size).decode("utf-8", "replace")

    def find(self, needle: bytes, alignment: int = 1) -> Iterator[int]:
        """The addresses, multiples of `alignment`, at which `needle` occurs."""
        for address, piece in self.image.pieces(len(needle) - 1):
            at = piece.find(needle)
            while at >= 0:
                if (address + at) % alignment == 0:
                    yield address + at
                at = piece.find(needle, at + 1)


def varint(data: bytes, at: int) -> tuple[int, int] | None:
    """The number at `at`, written in 7 bits a byte, and where it ends; None where it has no end or is too long."""
    value = shift = 0
    for index in range(at, min(len(data), at + _LONGEST_VARINT)):
        value |= (data[index] & 0x7F) << shift
        shift += 7
        if data[index] < 0x80:
            return value, index + 1
    return None
