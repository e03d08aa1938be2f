# SPDX-License-Identifier: Apache-2.0
"""The functions of a file that are libssl's.

In libssl itself all functions are. In a program with libssl and libcrypto in it, those that name one of libssl's source files,
as nearly all do for their errors, and those that lie among them: a static link keeps a library's functions together. Where it
doesn't, because others of OpenSSL's functions lie there as well, only those that name a file count; so do those of other parts
of libssl, which a linker takes where libcrypto needs more of it later on.
"""

from __future__ import annotations

from collections.abc import Collection

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Unplannable
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image, Range
from ssllatency.stacks.source_files import file_names, places_naming

_FARTHEST = 1 << 18  # bytes between two functions of libssl that name a file
_MOST = 0.9  # of the functions that name a file lie together, or in a few parts; the others do by chance
_OTHERS = 5  # functions of libcrypto's at least show by where they lie that none lies among libssl's
_PART = 5  # functions at least, that name a file, are in a part that the linker took for itself


@dataclass(frozen=True)
class LibsslCode:
    """`within` is the range to search, None for the whole file; `only` the addresses of the functions that count, None for all
    in the range. All in the range `whole` count as well."""

    within: Range | None = None
    only: frozenset[int] | None = None
    whole: Range = (0, 0)

    def holds(self, start: int) -> bool:
        """Whether the function that begins at `start` is libssl's."""
        if self.only is not None:
            return start in self.only or self.whole[0] <= start < self.whole[1]
        return self.within is None or self.within[0] <= start < self.within[1]


def static_code(image: Image, bodies: Bodies, others: Collection[int]) -> LibsslCode:
    """The functions of libssl in a program that holds more; `others` are addresses of functions that are libcrypto's.

    Where few of these are known, as symbols name none, they may lie among libssl's as well. Unplannable where libssl's can't be
    determined.
    """
    naming = sorted(bodies.functions(places_naming(image, file_names(image, "ssl"))))
    groups = _groups(naming)
    largest = max(groups, key=len, default=[])
    if len(largest) >= max(2, _MOST * len(naming)):
        groups = [largest]
    functions = [start for group in groups if group is largest or len(group) >= _PART for start in group]
    if len(largest) < 2 or len(functions) < _MOST * len(naming):
        raise Unplannable("no functions name libssl's source files, so they can't be told from libcrypto's")
    within, whole = ((each[0], _end(image, each[-1])) for each in (functions, largest))
    uncertain = image.unnamed and len(others) < _OTHERS
    if uncertain or any(largest[0] <= other <= largest[-1] for other in others):
        return LibsslCode(within, frozenset(functions))
    return LibsslCode(within) if within == whole else LibsslCode(within, frozenset(functions), whole)


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
