# SPDX-License-Identifier: Apache-2.0
"""Relocations: which words of the data hold addresses, and of what. RELA, RELR and Android's packed RELA.

Tables are read as a whole with struct, because a libcrypto has 20,000 entries. They are found through the dynamic tags, so no
section headers are needed.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator

from ssllatency.elf.headers import Headers
from ssllatency.elf.memory import Memory
from ssllatency.elf.source import ElfError
from ssllatency.elf.symbols import DynamicSymbols, Symbol

MAX_RELOCATIONS = 2_000_000
_DT_PLTRELSZ, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 7, 8, 23
_DT_RELRSZ, _DT_RELR = 35, 36
_DT_ANDROID_RELA, _DT_ANDROID_RELASZ = 0x60000011, 0x60000012
# From the psABI documents: R_*_RELATIVE; and those that store a symbol's address (64/ABS64, GLOB_DAT, JUMP_SLOT).
_RELATIVE = {"x86-64": 8, "aarch64": 1027}
_SYMBOLIC = {"x86-64": (1, 6, 7), "aarch64": (257, 1025, 1026)}
_GROUPED_BY_INFO, _GROUPED_BY_DELTA, _GROUPED_BY_ADDEND, _HAS_ADDEND = 1, 2, 4, 8

Entry = tuple[int, int, int]  # Elf64_Rela: r_offset, r_info, r_addend (unsigned)


class Relocations:
    """The places of the image's data that hold addresses. ElfError from the constructor where a table is damaged or beyond its
    cap."""

    def __init__(self, headers: Headers, memory: Memory, symbols: DynamicSymbols) -> None:
        self._memory = memory
        self._symbols = symbols
        self._relative: dict[int, int] = {}
        self._symbolic: dict[int, tuple[int, int]] = {}
        self._index: dict[int, list[int]] | None = None
        tags = headers.dynamic
        for start, size in ((_DT_RELA, _DT_RELASZ), (_DT_JMPREL, _DT_PLTRELSZ)):
            self._add(rela_entries(_table(memory, tags, start, size)), headers.machine)
        self._add(packed_entries(_table(memory, tags, _DT_ANDROID_RELA, _DT_ANDROID_RELASZ)), headers.machine)
        places = sorted(relr_addresses(_table(memory, tags, _DT_RELR, _DT_RELRSZ)))
        self._relative.update(memory.data_words(places))

    def _add(self, entries: Iterable[Entry], machine: str) -> None:
        relative, symbolic = _RELATIVE[machine], _SYMBOLIC[machine]
        rows = list(entries)
        self._relative.update({offset: addend for offset, info, addend in rows if info == relative})
        named = ((offset, info, addend) for offset, info, addend in rows if info != relative)
        self._symbolic.update({o: (info >> 32, addend) for o, info, addend in named if info & 0xFFFFFFFF in symbolic})

    def covers(self, address: int) -> bool:
        """Whether the word at `address` is relocated to an address."""
        return address in self._relative or address in self._symbolic

    def symbol(self, address: int) -> Symbol | None:
        """The dynamic symbol, defined here or imported, whose address the word at `address` gets."""
        place = self._symbolic.get(address)
        return self._symbols.at(place[0]) if place else None

    def symbol_slots(self, names: Collection[str]) -> dict[int, str]:
        """The words that get the address of a dynamic symbol called one of `names`, defined here or imported."""
        names_by_index: dict[int, str] = {}
        for index in {index for index, _ in self._symbolic.values()}:
            symbol = self._symbols.at(index)
            if symbol and symbol.name in names:
                names_by_index[index] = symbol.name
        return {address: names_by_index[index] for address, (index, _) in self._symbolic.items() if index in names_by_index}

    def target(self, address: int) -> int | None:
        """The address that the word at `address` holds after relocation; None if it isn't relocated or to an import."""
        relative = self._relative.get(address)
        if relative is not None:
            return relative
        symbol = self.symbol(address)
        if symbol is None or not symbol.has_address:
            return None
        return (symbol.address + self._symbolic[address][1]) % (1 << 64)

    def places(self) -> list[int]:
        """The addresses of all words that hold an address after relocation, in ascending order."""
        return sorted({*self._relative, *self._symbolic})

    def pointers_to(self, address: int) -> list[int]:
        """The addresses of the words that hold `address` after relocation, in ascending order."""
        if self._index is None:
            self._index = self._make_index()
        return self._index.get(address, [])

    def _make_index(self) -> dict[int, list[int]]:
        index: dict[int, list[int]] = {}
        for place in self.places():
            target = self.target(place)
            if target is not None:
                index.setdefault(target, []).append(place)
        return index


def _table(memory: Memory, tags: dict[int, int], start: int, size: int) -> bytes:
    address, length = tags.get(start, 0), tags.get(size, 0)
    if length > MAX_RELOCATIONS * 24:
        raise _too_many()
    return memory.read(address, length) if address and length else b""


def _too_many() -> ElfError:
    return ElfError(f"an ELF file has more than {MAX_RELOCATIONS} relocations.")


def rela_entries(table: bytes) -> Iterator[Entry]:
    """The entries of a RELA table; a remainder shorter than an entry is left out."""
    return struct.iter_unpack("<QQQ", table[: len(table) // 24 * 24])


def relr_addresses(table: bytes) -> list[int]:
    """The addresses that a RELR table relocates: an even word is an address, an odd one a bitmap of the 63 words after it.

    ElfError beyond MAX_RELOCATIONS.
    """
    places: list[int] = []
    base = 0
    for (word,) in struct.iter_unpack("<Q", table[: len(table) // 8 * 8]):
        if word & 1:
            places += [base + 8 * bit for bit in range(63) if word >> bit + 1 & 1]
            base += 63 * 8
        else:
            places.append(word)
            base = word + 8
        if len(places) > MAX_RELOCATIONS:
            raise _too_many()
    return places


def packed_entries(table: bytes) -> Iterator[Entry]:
    """The entries of an Android packed RELA table ("APS2", lld's --pack-dyn-relocs=android); ElfError if damaged."""
    if not table.startswith(b"APS2"):
        return
    numbers = _sleb128(table[4:])

    def take() -> int:
        number = next(numbers, None)
        if number is None:
            raise ElfError("an ELF file's packed relocations are cut short.")
        return number

    left, offset, addend = take(), take(), 0
    if left > MAX_RELOCATIONS:
        raise _too_many()
    while left > 0:
        size, flags = take(), take()
        if not 0 < size <= left:
            raise ElfError("an ELF file's packed relocations are damaged.")
        delta = take() if flags & _GROUPED_BY_DELTA else None
        info = take() if flags & _GROUPED_BY_INFO else None
        each_addend = flags & _HAS_ADDEND and not flags & _GROUPED_BY_ADDEND
        if not flags & _HAS_ADDEND:
            addend = 0
        elif not each_addend:
            addend += take()
        for _ in range(size):
            offset += take() if delta is None else delta
            this = take() if info is None else info
            addend += take() if each_addend else 0
            yield offset % (1 << 64), this % (1 << 64), addend % (1 << 64)
        left -= size


def _sleb128(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield value - (1 << shift) if byte & 0x40 else value
            value = shift = 0
        elif shift > 70:
            raise ElfError("an ELF file's packed relocations are damaged.")
