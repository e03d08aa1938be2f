# SPDX-License-Identifier: Apache-2.0
"""What was paid up to a moment."""

from __future__ import annotations

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
