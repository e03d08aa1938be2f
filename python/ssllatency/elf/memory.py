# SPDX-License-Identifier: Apache-2.0
"""The address space that a file describes: virtual addresses to bytes of the file, through its PT_LOAD segments."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ssllatency.elf.headers import Headers, Segment
from ssllatency.elf.source import CHUNK, ElfError

MAX_SCAN = 512 << 20
_PF_X = 1


class Memory:
    """Reads by virtual address, in the file's own numbering."""

    def __init__(self, headers: Headers) -> None:
        self._source = headers.source
        loads = [segment for segment in headers.segments if segment.p_type == "PT_LOAD" and segment.p_memsz]
        self._loads = tuple(sorted(loads, key=lambda segment: segment.p_vaddr))
        self._spans = tuple((segment.p_vaddr, segment.p_vaddr + segment.p_memsz, segment) for segment in self._loads)

    def _segment(self, address: int) -> Segment | None:
        """The segment that has the address: a loop, as planning a file asks tens of thousands of times."""
        for start, end, segment in self._spans:
            if start <= address < end:
                return segment
        return None

    def mapped(self, address: int) -> bool:
        """Whether `address` lies in the image, zero-filled memory included."""
        return self._segment(address) is not None

    def executable(self, address: int) -> bool:
        """Whether `address` lies in bytes of the file that are mapped executable."""
        segment = self._segment(address)
        return segment is not None and bool(segment.p_flags & _PF_X) and address - segment.p_vaddr < segment.p_filesz

    def available(self, address: int) -> int:
        """Return how many bytes of the file follow at `address` in its segment; 0 where it isn't mapped from the file."""
        segment = self._segment(address)
        return max(0, segment.p_filesz - (address - segment.p_vaddr)) if segment else 0

    def file_offset(self, address: int) -> int:
        """The offset in the file of the byte mapped at `address`; ElfError where there is none."""
        return self._place(address)[0]

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes at `address`; ElfError where they aren't all in one segment of the file."""
        offset, available = self._place(address)
        if size > available:
            raise ElfError(f"{self._source.label} has no {size} bytes at the address {address:#x}.")
        return self._source.read(offset, size)

    def read_up_to(self, address: int, size: int) -> bytes:
        """At most `size` bytes at `address`, fewer at the end of the segment; ElfError where `address` has none."""
        offset, available = self._place(address)
        return self._source.read(offset, min(size, available))

    def _place(self, address: int) -> tuple[int, int]:
        """The offset in the file of the byte at `address`, and how many of the file are there from it on; ElfError for none."""
        segment = self._segment(address)
        offset = address - segment.p_vaddr if segment else 0
        if segment is None or offset >= segment.p_filesz:
            raise ElfError(f"{self._source.label} has no bytes at the address {address:#x}.")
        return segment.p_offset + offset, segment.p_filesz - offset

    def word(self, address: int) -> int:
        """The unsigned 64-bit word at `address`."""
        return int.from_bytes(self.read(address, 8), "little")

    def half(self, address: int) -> int:
        """The unsigned 32-bit word at `address`."""
        return int.from_bytes(self.read(address, 4), "little")

    def text(self, address: int, limit: int = 256) -> bytes | None:
        """The NUL-terminated bytes at `address`, without the NUL; None where there is none within `limit` bytes."""
        if not self.available(address):
            return None
        data = self.read_up_to(address, limit)
        end = data.find(b"\0")
        return data[:end] if end >= 0 else None

    def pieces(self, overlap: int) -> Iterator[tuple[int, bytes]]:
        """The bytes of the file's segments as (address, piece), pieces overlapping by `overlap` bytes; at most MAX_SCAN in
        all."""
        left = MAX_SCAN
        for segment in self._loads:
            size = min(segment.p_filesz, segment.p_memsz, left)
            left -= size
            yield from self._pieces(segment, 0, size, overlap)

    def code_pieces(self, overlap: int, within: tuple[int, int] | None = None) -> Iterator[tuple[int, bytes]]:
        """The bytes of executable segments as (address, piece), or of the part of them in [start, end)."""
        left = MAX_SCAN
        for segment in self._loads:
            if segment.p_flags & _PF_X:
                size = min(segment.p_filesz, segment.p_memsz, left)
                left -= size
                first, last = within or (segment.p_vaddr, segment.p_vaddr + size)
                yield from self._pieces(segment, max(0, first - segment.p_vaddr), min(size, last - segment.p_vaddr), overlap)

    def _pieces(self, segment: Segment, first: int, last: int, overlap: int) -> Iterator[tuple[int, bytes]]:
        for start in range(first, last, CHUNK):
            yield segment.p_vaddr + start, self._source.read(segment.p_offset + start, min(CHUNK + overlap, last - start))

    def find(self, needle: bytes, alignment: int = 1) -> Iterator[int]:
        """The addresses, multiples of `alignment`, at which `needle` occurs, overlapping occurrences included."""
        for address, piece in self.pieces(len(needle) - 1):
            at = piece.find(needle)
            while at >= 0:
                if (address + at) % alignment == 0:
                    yield address + at
                at = piece.find(needle, at + 1)

    def numbered_words(self, wanted: Callable[[int], bool]) -> Iterator[int]:
        """The addresses of aligned words that are `wanted` and followed by what could be an address of the image."""
        low = min((segment.p_vaddr for segment in self._loads), default=0)
        high = max((segment.p_vaddr + segment.p_memsz for segment in self._loads), default=0)
        for start, piece in self.pieces(8):
            address = start + -start % 8
            data = memoryview(piece)[address - start :]
            words = struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])
            pointers = [index for index, word in enumerate(words) if low <= word < high]
            yield from (address + 8 * (index - 1) for index in pointers if index and wanted(words[index - 1]))

    def data_words(self, addresses: list[int]) -> dict[int, int]:
        """The 64-bit words at `addresses` (in ascending order), as far as they lie in the file."""
        words: dict[int, int] = {}
        base, piece = 0, b""
        for address in addresses:
            if not 0 <= address - base <= len(piece) - 8:
                if self.available(address) < 8:
                    continue
                base, piece = address, self.read_up_to(address, CHUNK)
            words[address] = struct.unpack_from("<Q", piece, address - base)[0]
        return words
