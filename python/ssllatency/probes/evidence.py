# SPDX-License-Identifier: Apache-2.0
"""The bytes that a plan's sites rest on, so that they can be compared with the file that is attached to.

For each function with a site they are all bytes from the function's beginning, according to the file's own tables, to past its
last site. These instructions are walked once more, in a straight line and without the planner's decoder: a site must lie where
an instruction begins.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

from ssllatency.code.boundaries import boundaries
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Image, Range
from ssllatency.probes.plan import CodeRange, Probe

LONGEST = 1 << 17  # bytes from where a function begins to its last site
_PAST = 16  # bytes from a site on, at most: no instruction is longer


class CodeEvidence:
    """Gathers them for the plan of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._last_sites: dict[Range, int] = {}

    def add(self, probes: Iterable[Probe], own: Range | None = None) -> None:
        """Takes all of these sites or none: Unplannable where one lies in no function of the image, or in the midst of an
        instruction. `own` is the function that a symbol of the file itself names, which the unwind tables may not know."""
        sites: dict[Range, set[int]] = defaultdict(set)
        for probe in probes:
            sites[self._function(probe.address, own)].add(probe.address)
        for bounds, addresses in sites.items():
            begins = boundaries(self._image.machine, self._code(bounds, max(addresses)))
            for address in sorted(addresses):
                if address - bounds[0] not in begins:
                    raise Unplannable(f"no instruction begins at its site at {address:#x}, walking from {bounds[0]:#x}")
        for bounds, addresses in sites.items():
            self._last_sites[bounds] = max(self._last_sites.get(bounds, 0), *addresses)

    def ranges(self) -> tuple[CodeRange, ...]:
        """The ranges that hold all sites, in ascending order."""
        ranges = []
        for bounds, last in sorted(self._last_sites.items()):
            code = self._code(bounds, last)
            ranges.append(CodeRange(self._image.file_offset(bounds[0]), len(code), hashlib.sha256(code).hexdigest()))
        return tuple(sorted(ranges, key=lambda code_range: (code_range.offset, code_range.size)))

    def _function(self, address: int, own: Range | None) -> Range:
        bounds = self._image.function_bounds(address) or (own if own and own[0] <= address < own[1] else None)
        if bounds is None:
            raise Unplannable(f"nothing in the file confirms a function around its site at {address:#x}")
        if address - bounds[0] > LONGEST:
            raise Unplannable(f"its site at {address:#x} lies too far into its function")
        return bounds

    def _code(self, bounds: Range, last_site: int) -> bytes:
        return self._image.code(bounds[0], min(bounds[1], last_site + _PAST) - bounds[0])
