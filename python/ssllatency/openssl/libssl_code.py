# SPDX-License-Identifier: Apache-2.0
"""Which functions of a file are libssl's.

In libssl itself all functions are. In a program with libssl and libcrypto in it, those that name one of libssl's source files,
as nearly all do for their errors, and those that lie among them: a static link keeps a library's functions together. Where it
doesn't, because others of OpenSSL's functions lie there as well, only those that name a file count.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Image, Range
from ssllatency.openssl.source_files import file_names, places_naming

_FARTHEST = 1 << 18  # bytes between two functions of libssl that name a file
_MOST = 0.9  # of the functions that name a file lie together; the others do by chance


@dataclass(frozen=True)
class LibsslCode:
    """`within` is the range to search, None for the whole file; `only` the addresses of the functions that count, None for all
    in the range."""

    within: Range | None = None
    only: frozenset[int] | None = None

    def holds(self, start: int) -> bool:
        """Whether the function that begins at `start` is libssl's."""
        if self.only is not None:
            return start in self.only
        return self.within is None or self.within[0] <= start < self.within[1]


def static_code(image: Image, bodies: Bodies, others: Collection[int]) -> LibsslCode:
    """The functions of libssl in a program that holds more; `others` are addresses of functions that are libcrypto's.

    Unplannable where they can't be determined.
    """
    if image.machine != "x86-64":
        raise Unplannable(f"libssl's functions can't be told from libcrypto's in a static {image.machine} program")
    naming = sorted(bodies.functions(places_naming(image, file_names(image, "ssl"))))
    together = max(_groups(naming), key=len, default=[])
    if len(together) < 2 or len(together) < _MOST * len(naming):
        raise Unplannable("no functions name libssl's source files, so they can't be told from libcrypto's")
    mixed = any(together[0] <= other <= together[-1] for other in others)
    return LibsslCode((together[0], _end(image, together[-1])), frozenset(together) if mixed else None)


def _groups(starts: list[int]) -> list[list[int]]:
    """The addresses, ascending, in groups without wide gaps."""
    groups: list[list[int]] = []
    for start in starts:
        if not groups or start - groups[-1][-1] > _FARTHEST:
            groups.append([])
        groups[-1].append(start)
    return groups


def _end(image: Image, start: int) -> int:
    bounds = image.function_bounds(start)
    return bounds[1] if bounds else start + 1
