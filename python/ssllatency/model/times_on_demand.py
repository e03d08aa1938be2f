# SPDX-License-Identifier: Apache-2.0
"""Times of parts as the kernel has counted them: what only adds them up needs no object for each, which takes longer to make
than it does to add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ssllatency.model.handshakes import Part, Times
from ssllatency.model.histogram import ExponentialHistogram, Numbers

RawTimes = tuple[int, Numbers]  # the total in nanoseconds, and the counts


class PartsOnDemand(Mapping[Part, Times]):
    """The parts of a group, of which the extremes aren't known. `raw`: what each is made of when it is asked for."""

    def __init__(self, raw: Mapping[Part, RawTimes]) -> None:
        self.raw = raw
        self._made: dict[Part, Times] = {}

    def __getitem__(self, part: Part) -> Times:
        made = self._made.get(part)
        if made is None:
            total_ns, numbers = self.raw[part]
            made = self._made[part] = Times(total_ns, None, None, ExponentialHistogram.from_packed(*numbers))
        return made

    def __iter__(self) -> Iterator[Part]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __contains__(self, part: object) -> bool:
        return part in self.raw


def sum_of(several: Sequence[RawTimes]) -> tuple[int, ExponentialHistogram]:
    """The total of all, at least one, and their counts."""
    if len(several) == 1:
        total_ns, numbers = several[0]
        return total_ns, ExponentialHistogram.from_packed(*numbers)
    total_ns = sum([part_ns for part_ns, _ in several])
    return total_ns, ExponentialHistogram.of_numbers([counts for _, counts in several])
