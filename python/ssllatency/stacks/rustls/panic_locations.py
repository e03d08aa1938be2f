# SPDX-License-Identifier: Apache-2.0
"""The functions of rustls and of ring that may panic, by the files of their source, in a program or library without symbols.

Where Rust's code indexes, unwraps or asserts, it refers to a core::panic::Location in the data: the pointer to the path of a
source file, the length of that path, a line and a column. Lines change with each release; the paths below a package's src/ are
stable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ssllatency.stacks.source_files import references

if TYPE_CHECKING:
    from ssllatency.elf.image import Image, Range

File = tuple[str, str]
"""A package's name, and the path of a file below its src/."""

_PATHS = tuple(
    re.compile(rb"/%b-\d{1,3}\.\d{1,3}\.\d{1,3}[-+.\w]{0,32}/src/((?:\w{1,64}/){0,8}\w{1,64}\.rs)" % package)
    for package in (b"rustls", b"ring")  # each begins as it is: a quick search
)
_PACKAGES = ("rustls", "ring")
_LONGEST_BEFORE = 255  # bytes of a path before the package's folder
_OVERLAP = 1024
_MOST_PATHS, _MOST_CANDIDATES, _MOST_LINES = 4096, 1 << 17, 1 << 16
_LENGTH, _LINE, _COLUMN = 8, 16, 20  # offsets in a Location


class PanicLocations:
    """The functions of one image that refer to the panic locations of a source file. ElfError where its relocations are
    damaged."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._functions: dict[File, set[Range]] = {}
        if image.machine != "x86-64" or image.fixed:
            return  # of a fixed image no relocation tells which words are pointers
        locations = self._locations()
        for place, location in references(image, locations):
            bounds = image.function_bounds(place)
            if bounds and not image.is_part(bounds[0]):
                self._functions.setdefault(locations[location], set()).add(bounds)

    def of(self, package: str, *files: str) -> set[Range]:
        """The functions that refer to one of these files of a package's."""
        return {function for file in files for function in self._functions.get((package, file), ())}

    def _locations(self) -> dict[int, File]:
        """The addresses of the locations, each with the file that it is in."""
        candidates = (
            (place, end - begin, file)
            for begins, end, file in self._paths()
            for begin in begins
            for place in self._image.pointers_to(begin)
        )
        return {place: file for place, length, file in islice(candidates, _MOST_CANDIDATES) if self._is_location(place, length)}

    def _paths(self) -> Iterator[tuple[range, int, File]]:
        """The places where the path of each file may begin, for texts follow one another without an end, and where it ends."""
        ends: set[int] = set()
        for start, data in self._image.pieces(_OVERLAP):
            for package, paths in zip(_PACKAGES, _PATHS, strict=True):
                for match in paths.finditer(data):
                    end = start + match.end()
                    if end not in ends and len(ends) < _MOST_PATHS:
                        ends.add(end)
                        first = start + match.start()
                        yield range(max(0, first - _LONGEST_BEFORE), first + 1), end, (package, match[1].decode())

    def _is_location(self, place: int, length: int) -> bool:
        constant = self._image.constant
        line, column = constant(place + _LINE, 4), constant(place + _COLUMN, 4)
        return constant(place + _LENGTH, 8) == length and bool(line) and bool(column) and (line or 0) < _MOST_LINES
