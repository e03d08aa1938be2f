# SPDX-License-Identifier: Apache-2.0
"""Symbols by name: the dynamic ones through their hash table, the others (.symtab) through one index of functions."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from ssllatency.data_class import dataclass
from ssllatency.elf.hashes import gnu_candidates, sysv_candidates
from ssllatency.elf.headers import Headers
from ssllatency.elf.memory import Memory
from ssllatency.elf.source import ElfError

MAX_NAME = 256
MAX_SYMBOLS = 2_000_000
MAX_NAMES_SIZE = 128 << 20  # bytes of the names of all functions
_ENTRY = struct.Struct("<IBBHQQ")  # Elf64_Sym: st_name, st_info, st_other, st_shndx, st_value, st_size
_AMBIGUOUS = -1  # in place of the number of an entry
_STT_FUNC = 2
_STT_TLS = 6
_STT_GNU_IFUNC = 10
_SHN_UNDEF = 0
_SHN_ABS = 0xFFF1
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5


@dataclass(frozen=True)
class Symbol:
    """A symbol that the image defines, or imports (`defined` false). `size` in bytes, 0 if unknown."""

    name: str
    address: int
    size: int
    type: int
    defined: bool

    @property
    def is_function(self) -> bool:
        """Whether it is a function at its own address (an IFUNC's address is that of its resolver)."""
        return self.defined and self.type == _STT_FUNC

    @property
    def has_address(self) -> bool:
        """Whether a relocation to it stores its address."""
        return self.defined and self.type not in (_STT_TLS, _STT_GNU_IFUNC)


class DynamicSymbols:
    """The symbols of DT_SYMTAB, which are there in every dynamically linked image, stripped or without section headers."""

    def __init__(self, headers: Headers, memory: Memory) -> None:
        tags = headers.dynamic
        self._memory = memory
        self._table = tags.get(_DT_SYMTAB, 0)
        self._strings = tags.get(_DT_STRTAB, 0)
        self._strings_size = tags.get(_DT_STRSZ, 0)
        self._gnu_hash = tags.get(_DT_GNU_HASH, 0)
        self._sysv_hash = tags.get(_DT_HASH, 0)

    def string(self, offset: int) -> str:
        """The string at `offset` of the dynamic string table, "" where there is none."""
        if not self._strings or offset >= self._strings_size:
            return ""
        text = self._memory.text(self._strings + offset, MAX_NAME)
        return text.decode("ascii", "replace") if text else ""

    def at(self, index: int) -> Symbol | None:
        """The symbol with this index, None where there is none."""
        if not self._table or not index:
            return None
        try:
            entry = self._memory.read(self._table + index * _ENTRY.size, _ENTRY.size)
        except ElfError:
            return None
        name, info, _, section, value, size = _ENTRY.unpack(entry)
        return Symbol(self.string(name), value, size, info & 15, section not in (_SHN_UNDEF, _SHN_ABS))

    def find(self, name: str) -> Symbol | None:
        """The symbol that the image defines under `name`; None where it has none or its tables are damaged."""
        try:
            candidates = (self.at(index) for index in self._candidates(name.encode()))
            return next((symbol for symbol in candidates if symbol and symbol.name == name and symbol.defined), None)
        except ElfError:
            return None

    def _candidates(self, name: bytes) -> Iterator[int]:
        if self._gnu_hash:
            return gnu_candidates(self._memory, self._gnu_hash, name)
        return sysv_candidates(self._memory, self._sysv_hash, name) if self._sysv_hash else iter(())


class FunctionIndex:
    """The functions that a .symtab section names. Empty where the file has no such section or it is damaged.

    A name that two static functions share (of different source files) names neither.
    """

    def __init__(self, headers: Headers | None) -> None:
        self._entries = b""
        self._functions: dict[bytes, int] = {}  # the number of an entry by name: so even millions take little memory
        try:
            if headers:
                self._read(headers)
        except ElfError:
            self._functions = {}

    def _read(self, headers: Headers) -> None:
        table = next((section for section in headers.sections if section.sh_type == "SHT_SYMTAB"), None)
        if table is None or table.sh_link >= len(headers.sections) or table.sh_size > MAX_SYMBOLS * _ENTRY.size:
            return
        strings = headers.content(headers.sections[table.sh_link])
        entries = headers.content(table)
        self._entries = entries[: len(entries) // _ENTRY.size * _ENTRY.size]
        room = MAX_NAMES_SIZE
        for number, (name, info, _, section, value, _) in enumerate(_ENTRY.iter_unpack(self._entries)):
            if info & 15 == _STT_FUNC and section not in (_SHN_UNDEF, _SHN_ABS):
                end = strings.find(b"\0", name, name + MAX_NAME)
                if end > name:
                    self._add(strings[name:end], number, value, info >> 4)
                    room -= end - name
            if room < 0:
                raise ElfError(f"{headers.source.label} names more functions than any library has.")

    def _add(self, name: bytes, number: int, value: int, binding: int) -> None:
        earlier = self._functions.get(name)
        if earlier is None:
            self._functions[name] = number
            return
        _, info, _, _, earlier_value, _ = self._entry(earlier)
        if earlier == _AMBIGUOUS or not info >> 4:
            if binding:
                self._functions[name] = number
            elif earlier != _AMBIGUOUS and earlier_value != value:
                self._functions[name] = _AMBIGUOUS

    def _entry(self, number: int) -> tuple[int, ...]:
        return _ENTRY.unpack_from(self._entries, max(0, number) * _ENTRY.size)

    def __len__(self) -> int:
        return len(self._functions)

    def matching(self, pattern: re.Pattern[bytes]) -> list[str]:
        """The names of functions that are as a whole what the pattern describes."""
        return [name.decode("ascii", "replace") for name in self._functions if pattern.fullmatch(name)]

    def find(self, name: str) -> Symbol | None:
        """The function with this name."""
        number = self._functions.get(name.encode(), _AMBIGUOUS)
        if number == _AMBIGUOUS:
            return None
        *_, value, size = self._entry(number)
        return Symbol(name, value, size, _STT_FUNC, True) if value else None
