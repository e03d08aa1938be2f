# SPDX-License-Identifier: Apache-2.0
"""What was paid up to a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """What was paid up to a moment, in nanoseconds of processor time: by tracing, and by the traced processes altogether."""

    cost_ns: int = 0
    cpu_ns: int = 0

    def share_since(self, earlier: Spent) -> float | None:
        """The part that tracing took in between; None where the processes did nothing."""
        cpu_ns = self.cpu_ns - earlier.cpu_ns
        return max(0, self.cost_ns - earlier.cost_ns) / cpu_ns if cpu_ns > 0 else None


class Paid:
    """What hits have cost, in nanoseconds, each at the price of when it was counted: the price is measured all the time, and
    what was paid before must not seem to grow while nothing is hit."""

    def __init__(self) -> None:
        self.total_ns = 0
        self._counts: Sequence[int] = ()

    def count(self, counts: Sequence[int], price_ns: Callable[[Sequence[int]], int]) -> None:
        """Adds what came since the last time; `counts` by kind, cumulative."""
        more = [now - before for now, before in zip(counts, self._counts or [0] * len(counts), strict=True)]
        if any(more):
            self.total_ns += max(0, price_ns(more))
        self._counts = counts
