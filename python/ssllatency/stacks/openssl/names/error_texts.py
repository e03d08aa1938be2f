# SPDX-License-Identifier: Apache-2.0
"""Texts of OpenSSL's error codes, from the ERR_STRING_DATA tables of libssl and libcrypto.

Such a table is an array of {unsigned long code; const char *text} that ends with {0, NULL}. A code packs the number of a
library and a reason: lib << 23 | reason in OpenSSL 3, lib << 24 | function << 12 | reason before. Tables of functions' names,
which OpenSSL 1.1.1 has as well, are left out. Layout and packing: openssl/err.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import count

from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image
from ssllatency.stacks.names import unpack
from ssllatency.stacks.texts import pointers_to_text, readable, text_at

MAX_TABLE = 512
MAX_COMMON = 64
_ENTRY = 16
# Below library 128, from where on numbers are given out at run time; reasons have 12 bits in the tables of either packing.
_CODES, _NOT_IN_CODES = range(1 << 23, 1 << 31), 0x7FF000
_COMMON_CODES = range(1, 1 << 23)
_SYSTEM, _SSL = 2, 20
# Reasons below are those that all libraries share. One entry alone is more likely there by chance.
_LOWEST_REASON, _FEWEST = 71, 2
# Texts that are in every version: the first two tell how codes are packed, the last marks the reasons that all libraries share.
_SSL_TEXTS = {"no shared cipher": 193, "SSL routines": 0}
_COMMON = b"malloc failure"

Row = tuple[int, str]


@dataclass(frozen=True)
class ErrorTexts:
    """`reasons` by (library, reason), those of all libraries under library 0; `libraries` by number.

    `major` says how codes are packed, 3 or 1; 0 where the image doesn't tell, and then it has no texts.
    """

    reasons: Mapping[tuple[int, int], str] = field(default_factory=dict)
    libraries: Mapping[int, str] = field(default_factory=dict)
    major: int = 0


def error_texts(image: Image) -> ErrorTexts:
    """The texts of the image's tables. ElfError where its relocations are damaged."""
    tables = sorted(_tables(image), key=len, reverse=True)
    major = next((version for table in tables for row in table if (version := _major(row))), 0)
    if not major:
        return ErrorTexts()
    unpacked = [[(*unpack(code, major), text) for code, text in table] for table in tables]
    libraries = next((_libraries(table) for table in unpacked if (_SSL, 0, "SSL routines") in table), {})
    libraries_done: set[int] = set()
    reasons = {(0, code): text for code, text in _common(image)}
    for table in (table for table in unpacked if len(table) >= _FEWEST):
        number = table[0][0]
        if _is_of_library(table, number) and number not in libraries_done:
            libraries_done.add(number)
            reasons |= {(number, reason): text for _, reason, text in table}
    return ErrorTexts(reasons, libraries, major)


def _libraries(table: list[tuple[int, int, str]]) -> dict[int, str]:
    return {library: text for library, reason, text in table if not reason}


def _is_of_library(table: list[tuple[int, int, str]], number: int) -> bool:
    return number != _SYSTEM and all(library == number and reason >= _LOWEST_REASON for library, reason, _ in table)


def _is_code(number: int) -> bool:
    return number in _CODES and not number & _NOT_IN_CODES


def _major(row: Row) -> int:
    code, text = row
    reason = _SSL_TEXTS.get(text)
    return 0 if reason is None else {_SSL << 23 | reason: 3, _SSL << 24 | reason: 1}.get(code, 0)


def _tables(image: Image) -> Iterator[list[Row]]:
    """Runs of entries that end with {0, NULL}: a library's reasons, the libraries' names, or something else by chance."""
    texts = ((address, code, readable(image, target)) for address, code, target in image.numbered_pointers(_is_code))
    rows = {address: (code, text) for address, code, text in texts if text}
    for start in rows:
        if start - _ENTRY not in rows:
            end = next(address for address in count(start, _ENTRY) if address not in rows)
            if image.constant(end, 8) == 0 and image.pointer(end + 8) is None:
                yield [rows[address] for address in range(start, end, _ENTRY)]


def _common(image: Image) -> list[Row]:
    """The table of the reasons that all libraries share: small numbers, so it is found by one of its texts."""
    for place in pointers_to_text(image, _COMMON, MAX_COMMON):
        table = [*_walk(image, place - 8, -_ENTRY), *_walk(image, place + 8, _ENTRY)]
        if len(table) > _FEWEST and all(code in _COMMON_CODES for code, _ in table):
            return table
    return []


def _walk(image: Image, entry: int, step: int) -> Iterator[Row]:
    for address in range(entry, entry + step * MAX_TABLE, step):
        code, text = image.constant(address, 8), text_at(image, address + 8)
        if not code or not text:
            return
        yield code, text
