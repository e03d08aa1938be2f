# SPDX-License-Identifier: Apache-2.0
"""The clocks of a run: how long its probes are attached, and the offset from the kernel's clock to the time of day."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Span:
    """The time from `begin` to `end`. `started` is when it began, RFC 3339, "" before."""

    def __init__(self) -> None:
        self._began = self._ended = 0.0
        self.started = ""

    def begin(self) -> None:
        """The probes are attached."""
        self._began, self.started = time.monotonic(), datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")

    def end(self) -> bool:
        """The probes are being removed; whether it had begun and not ended before."""
        if not self._began or self._ended:
            return False
        self._ended = time.monotonic()
        return True

    @property
    def duration_s(self) -> float:
        """Seconds since it began, or from then to its end; 0 before."""
        return (self._ended or time.monotonic()) - self._began if self._began else 0.0


def wall_clock_ns() -> int:
    """What to add to the kernel's monotonic clock for the time of day, as of now: to a microsecond or so."""
    tries = []
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        tries.append((after - before, wall - (before + after) // 2))
    return min(tries)[1]
