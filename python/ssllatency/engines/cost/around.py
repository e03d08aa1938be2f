# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing as the processes themselves show it: by their CPU time for each read and write system call while they
were traced, and just before and after.

It holds what the price of a hit doesn't: what hits push out of caches and predictors, and that a server at full speed which is
slowed down has to wake its clients. It is only told where the processes were busy, did the same before as after, and took
clearly more in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ssllatency.data_class import dataclass
from ssllatency.engines.clock import process_clock_ns
from ssllatency.engines.read.io_calls import IoCalls
from ssllatency.model.cost import Moment

AFTER_S = 0.1  # how long the processes are looked at when they aren't traced any more
_LEAST_S = 0.09  # how long they must have been, at any time
_LEAST_CALLS = 500  # that they must have made meanwhile
_LEAST_BUSY = 0.2  # of one processor
_LEAST_EXCESS = 0.1  # of their CPU time: such short times of a server differ by some percent
_SURE = 2.0  # so many times as much as the times before and after differ by
_MOST_PROCESSES = 128  # that are looked at: a look at many takes too long


@dataclass(frozen=True)
class _Pace:
    """The work of processes between two moments."""

    seconds: float
    calls: int
    cpu_ns: int

    @property
    def is_busy(self) -> bool:
        """Whether it was enough to tell what a call takes."""
        enough = self.seconds >= _LEAST_S and self.calls >= _LEAST_CALLS
        return enough and self.cpu_ns >= _LEAST_BUSY * self.seconds * 1e9

    @property
    def call_ns(self) -> float:
        """CPU time for each system call."""
        return self.cpu_ns / self.calls


def look(pids: Collection[int], clock: Callable[[], float] = time.monotonic) -> Moment:
    """The work of these processes by now; those of which it isn't known are left out."""
    calls = IoCalls()
    done = {}
    for pid in pids if len(pids) <= _MOST_PROCESSES else ():
        number, cpu_ns = calls.of(pid), process_clock_ns(pid)
        if number is not None and cpu_ns is not None:
            done[pid] = number, cpu_ns
    return Moment(clock(), done)


class Around:
    """Takes moments: `before_attach` before the first probe is set, `attached` when all are, `before_detach` when they are
    to be removed, `detached` when none is left. `share` says what that comes to.

    Each may be called more than once: the first call of `before_attach` and `before_detach` and the last one of the others
    count, so that several attachments can share one. `before`: what was seen earlier.
    """

    def __init__(
        self,
        pids: Collection[int],
        before: Moment | None = None,
        look_at: Callable[[Collection[int]], Moment] = look,
        sleep: Callable[[float], None] = time.sleep,
        own_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self._own_ns, self._borders_ns = own_ns, [0, 0, 0, 0]
        self._pids, self._look, self._sleep = tuple(pids), look_at, sleep
        self._began = before or self._look(self._pids)
        self._before_attach: Moment | None = None
        self._attached: Moment | None = None
        self._before_detach: Moment | None = None
        self._detached: Moment | None = None
        self._share: float | None = None

    def before_attach(self) -> None:
        """Probes are about to be set."""
        if not self._before_attach:
            self._before_attach, self._borders_ns[0] = self._look(self._pids), self._own_ns()

    def attached(self) -> None:
        """All probes of an attachment are set."""
        self._borders_ns[1] = self._own_ns()
        self._attached = self._look(self._pids)

    def before_detach(self) -> None:
        """Probes are about to be removed."""
        if not self._before_detach:
            self._before_detach, self._borders_ns[2] = self._look(self._pids), self._own_ns()

    def detached(self) -> None:
        """All probes of an attachment are removed."""
        self._borders_ns[3] = self._own_ns()
        self._detached, self._share = self._look(self._pids), None

    @property
    def attach_ns(self) -> int:
        """The tracer's own processor time for setting the probes at first and removing them at last, as far as that is done."""
        before_attach, attached, before_detach, detached = self._borders_ns
        return max(0, attached - before_attach) + max(0, detached - before_detach)

    def share(self) -> float | None:
        """The part of their CPU time that tracing took, None where it can't be told. Once the probes are gone it waits for a
        moment, if the processes were busy before."""
        if self._share is None and self._before_attach and self._attached and self._before_detach and self._detached:
            before = _pace(self._began, self._before_attach)
            traced = _pace(self._attached, self._before_detach)
            if before.is_busy and traced.is_busy:
                self._sleep(max(0.0, self._detached.at_s + AFTER_S - self._look(()).at_s))
                self._share = _excess(before, traced, _pace(self._detached, self._look(self._pids)))
        return self._share


def _pace(begin: Moment, end: Moment) -> _Pace:
    """Of the processes that were there at both."""
    pairs = [(begin.done[pid], now) for pid, now in end.done.items() if pid in begin.done]
    return _Pace(
        end.at_s - begin.at_s,
        sum(now[0] - earlier[0] for earlier, now in pairs),
        sum(now[1] - earlier[1] for earlier, now in pairs),
    )


def _excess(before: _Pace, traced: _Pace, after: _Pace) -> float | None:
    if not after.is_busy:
        return None
    usual_ns = (before.call_ns + after.call_ns) / 2
    unlike = abs(before.call_ns - after.call_ns) / usual_ns
    excess = 1 - usual_ns / traced.call_ns
    return excess if excess > max(_LEAST_EXCESS, _SURE * unlike) else None
