# SPDX-License-Identifier: Apache-2.0
"""The times at which processes last executed another program. That ends all calls and handshakes that they had; their PIDs
stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager

from ssllatency.engines.clock import process_clock_ns

_FEW = 1024  # processes that are kept before it is looked which of them are there still
_REST = 50  # times as long as a sweep takes, that none is made again


class Executed:
    """The times by CLOCK_MONOTONIC, as far as they are known: filled by whoever is told of them. `replaced` counts the programs
    of `targets` among them, of those that were targets by then: who becomes one later has left nothing of a program before."""

    def __init__(self, targets: Container[int] = ()) -> None:
        self.replaced = 0
        self._targets = targets
        self._at_ns: dict[int, int] = {}
        self._most = _FEW

    def note(self, pid: int, at_ns: int) -> None:
        """The process has executed another program."""
        self._at_ns[pid] = max(at_ns, self.at_ns(pid))
        self.replaced += pid in self._targets
        if len(self._at_ns) > self._most:
            self._at_ns = {pid: at_ns for pid, at_ns in self._at_ns.items() if process_clock_ns(pid) is not None}
            self._most = 2 * len(self._at_ns) + _FEW

    def at_ns(self, pid: int) -> int:
        """The last time that the process did; 0 where it isn't known to have done so."""
        return self._at_ns.get(pid, 0)


NOT_KNOWN = Executed()


class Sweeps:
    """The times to look for what was left by programs that targets have replaced, or by processes that have ended. Each sweep
    is followed by a rest many times as long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._replaced, self._due_s = 0, 0.0

    def are_wanted(self, executed: Executed) -> bool:
        """Whether it has become known since the last sweep began that a target has replaced its program."""
        return executed.replaced != self._replaced

    def are_rested(self) -> bool:
        """Whether the rest is over."""
        return self._clock() >= self._due_s

    @contextmanager
    def sweep(self, executed: Executed) -> Iterator[None]:
        """For the time of one."""
        began_s, self._replaced = self._clock(), executed.replaced
        yield
        ended_s = self._clock()
        self._due_s = ended_s + _REST * (ended_s - began_s)
