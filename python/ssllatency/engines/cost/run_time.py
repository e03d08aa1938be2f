# SPDX-License-Identifier: Apache-2.0
"""The run time of BPF programs, which the kernel measures while it is asked to: in short windows, as that costs each run some
50 ns.

The windows lie at random moments, so that work which comes at a beat isn't always met or always missed.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence

from ssllatency.engines.bpf import kernel
from ssllatency.host.kernel_text import kernel_fields

_BPF_ENABLE_STATS = 32
_RUN_TIME = struct.pack("<I", 0)  # BPF_STATS_RUN_TIME
ENOUGH_RUNS = 1000  # until so many were measured the kernel goes on measuring
_RUNS_OF_BLOCK, _BLOCKS, _SETTLED_BLOCKS = (
    32,
    33,
    3,
)  # of runs whose mean is taken: at least so many, and so many blocks of them
_LONGEST_LOOK_S = 1.0  # of a host where little runs it is seldom seen whether that is enough
_PERIOD_S, _WINDOW_S = 1.0, 0.02  # after that one window in each period

Statistics = tuple[int, int]  # the run time in nanoseconds, and the runs


def enable_statistics() -> int:
    """A descriptor as long as which the kernel measures all programs; below 0 where it refuses."""
    return kernel.bpf(_BPF_ENABLE_STATS, _RUN_TIME)


def statistics_of(program: int) -> Statistics:
    """The kernel's own statistics of a program; zeros where it says nothing."""
    fields = kernel_fields(f"/proc/self/fdinfo/{program}")
    return int(fields.get("run_time_ns", 0)), int(fields.get("run_cnt", 0))


class _RandomWindows:
    """Windows, one in each period at a random moment of it, from `now` on."""

    def __init__(self, now: float) -> None:
        self._chance = random.Random()
        self._opens_s = self._closes_s = self._next_s = now

    def is_open(self, now: float) -> bool:
        """Whether one is open; to be asked many times in a period."""
        if now >= self._next_s:
            self._next_s = now + _PERIOD_S
            self._opens_s = now + self._chance.uniform(0, _PERIOD_S - _WINDOW_S)
            self._closes_s = self._opens_s + _WINDOW_S
        return self._opens_s <= now < self._closes_s


class TypicalRun:
    """The time of a typical run, in nanoseconds: the median of the means of blocks of runs.

    A run that was interrupted, above all by a hypervisor that gave the processor to somebody else, took as long as thousands of
    others: it would be most of the mean of all.
    """

    def __init__(self) -> None:
        self.runs = 0
        self._means: deque[float] = deque(maxlen=_BLOCKS)
        self._block_ns = self._block_runs = 0

    def add(self, time_ns: int, runs: int) -> None:
        """Takes in so many runs, which took so long together."""
        self.runs += runs
        self._block_ns += time_ns
        self._block_runs += runs
        if self._block_runs >= _RUNS_OF_BLOCK:
            self._means.append(self._block_ns / self._block_runs)
            self._block_ns = self._block_runs = 0

    @property
    def ns(self) -> float | None:
        """The mean time of a run by what was measured so far, however little it is; None where nothing was."""
        if self._means:
            return _median(self._means)
        return self._block_ns / self._block_runs if self._block_runs else None

    @property
    def settled_ns(self) -> float | None:
        """The mean time of a run, None as long as one interrupted run could still be most of it."""
        return self.ns if len(self._means) >= _SETTLED_BLOCKS or self.runs >= ENOUGH_RUNS else None


def _median(values: Collection[float]) -> float:
    """Return the median. The module statistics has one, but brings fractions and decimals into each start."""
    ascending, middle = sorted(values), len(values) // 2
    return ascending[middle] if len(values) % 2 else (ascending[middle - 1] + ascending[middle]) / 2


class RunTime:
    """The run time of the programs that `add` names. Call `tick` many times a second."""

    def __init__(
        self,
        enable: Callable[[], int] = enable_statistics,
        read: Callable[[int], Statistics] = statistics_of,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enable, self._read, self._clock = enable, read, clock
        self._programs: dict[int, bool] = {}  # by descriptor: whether it runs at probes
        self._before: dict[int, Statistics] = {}
        self._descriptor = -1
        self._refused = False
        self._typical = TypicalRun()
        self._elsewhere_ns = 0
        self._measured_s = self._since_s = 0.0
        self._enabled_s = self._look_s = 0.0  # since when the kernel measures, and when it is seen what it has measured
        self._windows = _RandomWindows(clock())

    def add(self, programs: Sequence[int], elsewhere: Sequence[int] = ()) -> None:
        """Takes in the programs with these descriptors: those at probes, and those that run elsewhere, as at tracepoints."""
        self._programs |= dict.fromkeys(programs, True) | dict.fromkeys(elsewhere, False)
        self._before |= {program: self._read(program) for program in (*programs, *elsewhere)}

    def leave_out(self, programs: Sequence[int]) -> None:
        """Takes these out again, whose descriptors will be closed. What they took stays counted."""
        self._take()
        for program in programs:
            self._programs.pop(program, None)

    def tick(self) -> None:
        """Begins or ends a window, if it is time to."""
        now = self._clock()
        is_open = self._windows.is_open(now)
        if self._descriptor >= 0 and now >= self._look_s:
            self._look_s = now + min(_LONGEST_LOOK_S, now - self._enabled_s)
            self._take()
            if self._typical.runs >= ENOUGH_RUNS and not is_open:
                self._stop()
        elif self._descriptor < 0 and not self._refused and (self._typical.runs < ENOUGH_RUNS or is_open):
            self._start()

    @property
    def mean_ns(self) -> float | None:
        """The time of a typical run at a probe; None where none was measured."""
        self._take()
        return self._typical.ns

    @property
    def settled_mean_ns(self) -> float | None:
        """The time of a typical run at a probe; None before enough were measured to tell an interrupted one from others."""
        self._take()
        return self._typical.settled_ns

    @property
    def elsewhere(self) -> float:
        """The processors' time that the programs elsewhere take: seconds in a second."""
        self._take()
        return self._elsewhere_ns / 1e9 / self._measured_s if self._measured_s else 0.0

    def _start(self) -> None:
        self._descriptor = self._enable()
        self._refused = self._descriptor < 0  # it asks for CAP_SYS_ADMIN: what the programs take stays unknown
        self._since_s = self._enabled_s = self._look_s = self._clock()
        self._before = {program: self._read(program) for program in self._programs}

    def _take(self) -> None:
        if self._descriptor < 0:
            return
        total_ns = total_runs = 0
        for program, at_probes in self._programs.items():
            (time_ns, runs), (before_ns, runs_before) = self._read(program), self._before[program]
            self._before[program] = time_ns, runs
            if at_probes:
                total_ns += time_ns - before_ns
                total_runs += runs - runs_before
            else:
                self._elsewhere_ns += time_ns - before_ns
        self._typical.add(total_ns, total_runs)
        now = self._clock()
        self._measured_s += now - self._since_s
        self._since_s = now

    def _stop(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1

    def close(self) -> None:
        """Ends a window that is open, and begins no more; may be called twice."""
        self._refused = True
        if self._descriptor >= 0:
            self._take()
            self._stop()
