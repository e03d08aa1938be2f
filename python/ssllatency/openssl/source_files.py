# SPDX-License-Identifier: Apache-2.0
"""Which code refers to the names of a library's source files, as OpenSSL's does wherever it raises an error. In a program that
several libraries are linked into, this shows which library a function belongs to."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_LONGEST_PATH = 256
_LONGEST = 16
_MAX_FILES = 4096


def file_names(image: Image, folder: str) -> set[int]:
    """The addresses of the texts that are paths of C and C++ files below a folder called `folder`, _MAX_FILES at most."""
    rest = rb"%b/(?:\w+/)*\w+\.(?:cc|c)\0" % re.escape(folder.encode())
    names = [re.compile(before + rest) for before in (rb"/", rb"\0")]  # each begins as it is, which makes the search quick
    addresses: set[int] = set()
    for start, data in image.pieces(_LONGEST_PATH):
        for match in (match for name in names for match in name.finditer(data)):
            begin = data.rfind(b"\0", max(0, match.start() - _LONGEST_PATH), match.start() + 1) + 1
            if begin and len(addresses) < _MAX_FILES:
                addresses.add(start + begin)
    return addresses


def places_naming(image: Image, texts: Collection[int]) -> Iterator[int]:
    """Where x86-64 code takes one of the addresses `texts` (lea text(%rip), register and mov $text, register)."""
    if not texts:
        return
    for start, code in image.code_pieces(_LONGEST):
        relative = (min(texts) - start - len(code) - 7, max(texts) - start)
        for match in re.finditer(rb"\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=(..%b))" % _uppers(*relative), code, re.DOTALL):
            if start + match.start() + 6 + struct.unpack("<i", match[1])[0] in texts:
                yield start + match.start()
        for match in re.finditer(rb"[\xb8-\xbf](?=(..%b))" % _uppers(min(texts), max(texts)), code, re.DOTALL):
            if struct.unpack("<I", match[1])[0] in texts:
                yield start + match.start()


def _uppers(low: int, high: int) -> bytes:
    """A pattern of the upper two bytes of the 32-bit numbers from `low` to `high`."""
    halves = range(max(low, -1 << 31) >> 16, (min(high, (1 << 32) - 1) >> 16) + 1)
    if len(halves) > 1024:
        return b".."
    return b"(?:%b)" % b"|".join(re.escape(struct.pack("<H", half & 0xFFFF)) for half in halves) if halves else b"(?!)"
