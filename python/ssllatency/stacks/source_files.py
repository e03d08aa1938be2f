# SPDX-License-Identifier: Apache-2.0
"""The code that refers to the names of a library's source files, as OpenSSL's does wherever it raises an error. In a program
that several libraries are linked into, this shows which library a function belongs to."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ssllatency.code.aarch64.call_constants import made

if TYPE_CHECKING:
    from ssllatency.elf.image import Image, Range

_LONGEST_PATH = 256
_LONGEST = 16
# adr or adrp; add, sub, ldr and str, of 64 bits, with an immediate. How many instructions later one may follow.
_OF_ADDRESS, _ADR, _SOON, _IN_PAGE = 0x1F000000, 0x10000000, 64, 0xFFF
_ACCESS, _ADD, _SUBTRACT, _LOAD, _STORE = 0xFFC00000, 0x91000000, 0xD1000000, 0xF9400000, 0xF9000000
_AT_STACK, _STACK = _ACCESS | 0x3E0, 0x3E0
_MAX_FILES = 4096
_OF_PATHS, _UNREADABLE = re.compile(rb"[\w./+-]"), re.compile(rb"[^ -~]")


def file_names(image: Image, folder: str) -> set[int]:
    """The addresses of the texts that are paths of C and C++ files below a folder called `folder`, _MAX_FILES at most.

    A path may follow bytes that end no text, as where a compiler puts a table of constants in front of it: so it begins after a
    byte that no path has, and after the end of a text as well if all since then can be read (a path may have spaces).
    """
    names = re.compile(rb"%b/(?=(?:\w+/)*\w+\.(?:cc|c)\0)" % re.escape(folder.encode()))  # it begins as it is: a quick search
    addresses: set[int] = set()
    for start, data in image.pieces(_LONGEST_PATH):
        for match in names.finditer(data):
            at, earliest = match.start(), max(0, match.start() - _LONGEST_PATH)
            if at and data[at - 1 : at] != b"/" and _OF_PATHS.match(data, at - 1):
                continue  # the end of another folder's name
            text = data.rfind(b"\0", earliest, at + 1) + 1
            path = next((place for place in range(at, earliest, -1) if not _OF_PATHS.match(data, place - 1)), 0)
            begins = {path, text if not _UNREADABLE.search(data, text, at) else 0} - {0}
            addresses.update(start + begin for begin in begins if len(addresses) < _MAX_FILES)
    return addresses


def places_naming(image: Image, texts: Collection[int], within: Range | None = None) -> Iterator[int]:
    """The places at which code, all of it or that `within` a range, takes one of the addresses `texts`: on x86-64 by
    lea text(%rip), register and mov $text, register, which only code at a fixed address has."""
    return (place for place, _ in references(image, texts, within))


def references(image: Image, texts: Collection[int], within: Range | None = None) -> Iterator[tuple[int, int]]:
    """The places at which code takes the address of one of these texts, each with that address; in aarch64 code, where it takes
    the address of the text's page, to which it then adds."""
    if not texts:
        return
    if image.machine == "aarch64":
        yield from _aarch64_references(image, texts, within)
        return
    for start, code in image.code_pieces(_LONGEST, within):
        relative = (min(texts) - start - len(code) - 7, max(texts) - start)
        for match in re.finditer(rb"\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=(..%b))" % _uppers(*relative), code, re.DOTALL):
            text = start + match.start() + 6 + struct.unpack("<i", match[1])[0]
            if text in texts:
                yield start + match.start(), text
        if not image.fixed:
            continue
        for match in re.finditer(rb"[\xb8-\xbf](?=(..%b))" % _uppers(min(texts), max(texts)), code, re.DOTALL):
            (text,) = struct.unpack("<I", match[1])
            if text in texts:
                yield start + match.start(), text


def _aarch64_references(image: Image, texts: Collection[int], within: Range | None) -> Iterator[tuple[int, int]]:
    """Those of adr, and of adrp where something is soon added to its register, be it in another block: the page alone is no
    text's address. A word in the data may be loaded from there as well, as the address of a function in a table of such."""
    wanted, last = set(texts), -1
    pages = {(text & ~_IN_PAGE) - before for text in texts for before in (-_IN_PAGE - 1, 0, _IN_PAGE + 1)}
    for start, code in image.code_pieces(4 * _SOON, within):
        words = memoryview(code[: len(code) & ~3]).cast("I")
        for number, word in enumerate(words):
            if word & _OF_ADDRESS != _ADR or start + 4 * number <= last:  # pieces overlap
                continue
            address = made((), word, start + 4 * number)
            if address is None or address & ~_IN_PAGE not in pages:
                continue
            taken = {address} if not word >> 31 else {address + added for added in _added(words, number, word & 31)}
            for text in sorted(taken & wanted):
                last = start + 4 * number
                yield last, text


def _added(words: Sequence[int], position: int, register: int) -> Iterator[int]:
    """The numbers that are added to the register soon after that position, at once or by way of a place that several texts are
    reached from, or at which words are loaded from there. It may be kept on the stack meanwhile."""
    held = {register: 0}
    for word in words[position + 1 : position + _SOON]:
        number, before, access = word & 31, held.get(word >> 5 & 31), word & _ACCESS
        distance, slot = word >> 10 & _IN_PAGE, -(word >> 10 & _IN_PAGE) - 1
        if access in (_ADD, _SUBTRACT) and before is not None:
            held[number] = before + (distance if access == _ADD else -distance)
            yield held[number]
        elif access == _LOAD and before is not None:
            held.pop(number, None)
            yield before + 8 * distance
        elif word & _AT_STACK == _STORE | _STACK and number in held:
            held[slot] = held[number]
        elif word & _AT_STACK == _LOAD | _STACK and slot in held:
            held[number] = held[slot]
        elif word & _OF_ADDRESS == _ADR:
            held.pop(number, None)
        if not held:
            break


def _uppers(low: int, high: int) -> bytes:
    """A pattern of the upper two bytes of the 32-bit numbers from `low` to `high`."""
    halves = range(max(low, -1 << 31) >> 16, (min(high, (1 << 32) - 1) >> 16) + 1)
    if len(halves) > 1024:
        return b".."
    return b"(?:%b)" % b"|".join(re.escape(struct.pack("<H", half & 0xFFFF)) for half in halves) if halves else b"(?!)"
