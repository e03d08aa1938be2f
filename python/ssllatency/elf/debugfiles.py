# SPDX-License-Identifier: Apache-2.0
"""Symbols that lie outside an image's own tables: compressed in .gnu_debugdata, or in a separate debug file.

A debug file is taken only if it belongs to the image: its build-id is the image's where both have one, and through
.gnu_debuglink its CRC is the one that the link names. Anyone can forge such a file, so it must be owned by root, by our own
user, or by the owner of the image, who could have changed the image as well.
"""

from __future__ import annotations

import lzma
import os
import posixpath
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.elf.headers import Headers, text_at
from ssllatency.elf.source import ElfError, ElfSource
from ssllatency.elf.symbols import FunctionIndex

MAX_UNPACKED = 64 << 20
MAX_UNPACKER_MEMORY = 128 << 20


@dataclass(frozen=True)
class DebugLink:
    """The contents of .gnu_debuglink: the file's name, without a folder, and the CRC of its content."""

    name: str
    crc: int


def mini_debug_functions(headers: Headers) -> FunctionIndex | None:
    """The functions in .gnu_debugdata; None where it is missing, damaged or unpacks to more than MAX_UNPACKED bytes."""
    section = headers.section(".gnu_debugdata")
    if section is None:
        return None
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_UNPACKER_MEMORY)
        data = unpacker.decompress(headers.content(section), MAX_UNPACKED)
        if not unpacker.eof:
            return None
        return FunctionIndex(Headers(ElfSource.of(data, f"the mini debug information of {headers.source.label}")))
    except (ElfError, lzma.LZMAError, MemoryError, EOFError):
        return None


def debug_link(headers: Headers) -> DebugLink | None:
    """The image's .gnu_debuglink; None where it has none, or one whose name is no plain file name."""
    section = headers.section(".gnu_debuglink")
    if section is None or section.sh_size > 4096:
        return None
    try:
        data = headers.content(section)
    except ElfError:
        return None
    name = text_at(data, 0)
    at = (len(name) + 4) // 4 * 4
    if not name or "/" in name or name in (".", "..") or at + 4 > len(data):
        return None
    return DebugLink(name, struct.unpack_from("<I", data, at)[0])


@dataclass(frozen=True)
class Place:
    """A place where a debug file may be: `path` below `root`, and the CRC that it must have (None: its build-id is checked
    instead)."""

    root: str
    path: str
    crc: int | None

    @property
    def shown(self) -> str:
        """The path as we see it, for messages; the file is opened only below its root."""
        return str(Path(self.root, self.path))


def places(build_id: str, link: DebugLink | None, label: str, roots: Sequence[str]) -> Iterator[Place]:
    """The places where a debug file may lie, best first.

    `label` is the image's path as the target sees it; `roots` are the root folders to search, in this order.
    """
    if len(build_id) > 2:
        for root in roots:
            yield Place(root, f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug", None)
    if link is None or not label.startswith("/"):
        return
    folder = posixpath.normpath(label).rpartition("/")[0].lstrip("/")
    for root in roots:
        for place in (folder, f"{folder}/.debug", f"usr/lib/debug/{folder}"):
            yield Place(root, posixpath.join(place, link.name), link.crc)


def debug_file_functions(headers: Headers, label: str, roots: Sequence[str]) -> tuple[str, FunctionIndex] | None:
    """The path and the functions of the first debug file that belongs to the image and has a symbol table."""
    for place in places(headers.build_id, debug_link(headers), label, roots):
        functions = _functions_of(place, headers)
        if functions:
            return place.shown, functions
    return None


def _functions_of(place: Place, image: Headers) -> FunctionIndex | None:
    build_id = image.build_id
    try:
        source = ElfSource.open_below(place.root, place.path, place.shown)
        if source.owner not in (0, os.geteuid(), image.source.owner):
            return None
        headers = Headers(source)
        if headers.build_id and build_id and headers.build_id != build_id:
            return None
        if place.crc is None and not headers.build_id:
            return None
        if place.crc is not None and source.crc32() != place.crc:
            return None
        return FunctionIndex(headers)
    except ElfError:
        return None
