# SPDX-License-Identifier: Apache-2.0
"""The clocks of a run: how long its probes are attached, the offset from the kernel's clock to the time of
day, and the time that processes have run."""

from __future__ import annotations

import time
from datetime import UTC, datetime

_CPUCLOCK_SCHED = 2  # the clock of a process's time on processors (linux/posix-timers.h), in nanoseconds


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
    """The nanoseconds to add to the kernel's monotonic clock for the time of day, as of now: to a microsecond or so."""
    tries = []
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        tries.append((after - before, wall - (before + after) // 2))
    return min(tries)[1]


def process_clock_ns(pid: int) -> int | None:
    """Nanoseconds that the process has run so far, None where there is no such process. As long as they stay the same it has
    done nothing: it was given no processor, or has one since the processor's last tick."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None
