# SPDX-License-Identifier: Apache-2.0
"""Running calls of Go functions: reads the kernel side's table of goroutines, and removes the records of processes that have
ended. No program reads a record while another thread writes to it, but user space may: what it reads is checked."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Collection, Iterator

from ssllatency import abi
from ssllatency.data_class import dataclass
from ssllatency.engines.bpf.executed import NOT_KNOWN, Executed
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.process_slots import SlotCounts, slot_of

# A panic that is recovered within a call has it return soon; one that isn't leaves it for good.
LEFT_AFTER_NS = 1_000_000_000


@dataclass(frozen=True)
class RunningCount:
    """`running` calls; `lost`: those that were found to have lost their process, or its program."""

    running: int
    lost: int


class Goroutines:
    """The goroutines with calls that run. `left` counts the calls that a panic has left, as count() found them: they stay in
    the table until their goroutine, or a later one with the same g, makes another call. `left_now` are those of processes that
    run, `left_for_good` those of others."""

    def __init__(self, loaded: Loadable, counters: ctypes.Structure) -> None:
        self._table = loaded.map("goroutines", ctypes.sizeof(abi.GoroutineKey), ctypes.sizeof(abi.Goroutine))
        self._taken = loaded.live_section("goroutines_taken", SlotCounts)
        self.left_now = self.left_for_good = 0
        self._counters = counters

    @property
    def left(self) -> int:
        """See above."""
        return self.left_for_good + self.left_now

    def count(self, alive: Callable[[int], bool], executed: Executed = NOT_KNOWN) -> RunningCount:
        """Count the calls that run now; the records of processes that aren't alive, or run another program now, are taken
        out."""
        running = lost = left_now = 0
        now_ns = time.monotonic_ns()
        lives: dict[int, bool] = {}
        for raw, pid, goroutine in self._records():
            calls = [call for call in _calls(goroutine) if not self._is_dropped(call)]
            lives[pid] = lives[pid] if pid in lives else alive(pid)
            program_ns = executed.at_ns(pid)
            goes_on = lives[pid] and not _is_before(goroutine, program_ns)
            if goes_on:
                calls = [call for call in calls if call.began_ns >= program_ns]  # the kernel tells when the others are over
            since_ns = now_ns - LEFT_AFTER_NS if goes_on else now_ns
            left = sum(0 < call.began_ns <= goroutine.left_ns <= since_ns for call in calls)
            if goes_on:
                left_now, running = left_now + left, running + len(calls) - left
            elif self._take_out(raw, program_ns, is_alone=not lives[pid]):
                self._taken.of[slot_of(pid)] += 1
                self.left_for_good, lost = self.left_for_good + left, lost + len(calls) - left
        self.left_now = left_now
        return RunningCount(running, lost)

    def _take_out(self, key: bytes, program_ns: int, *, is_alone: bool) -> bool:
        """Whether the record was there. Before a process is gone its new program may have a goroutine at the same address: what
        that has begun meanwhile stays."""
        value = None if is_alone else self._table.lookup(key)
        if value and not _is_before(abi.Goroutine.from_buffer_copy(value), program_ns):
            return False
        return self._table.delete(key)

    def calls_of(self, operations: Collection[int]) -> int:
        """Return how many calls of these operations run."""
        calls = (call for _, _, goroutine in self._records() for call in _calls(goroutine))
        return sum(call.operation in operations and not self._is_dropped(call) for call in calls)

    def _is_dropped(self, call: abi.Frame) -> bool:
        """Whether it no longer counts, as in the kernel: its record stays until its goroutine makes another call."""
        dropped_ns = self._counters.dropped_ns
        return bool(call.tier < len(dropped_ns) and call.began_ns < dropped_ns[call.tier])

    def _records(self) -> Iterator[tuple[bytes, int, abi.Goroutine]]:
        for raw, value in list(self._table.items()):
            yield bytes(raw), abi.GoroutineKey.from_buffer_copy(raw).tgid, abi.Goroutine.from_buffer_copy(value)


def _calls(goroutine: abi.Goroutine) -> list[abi.Frame]:
    return list(goroutine.frames[: min(goroutine.count, abi.GoroutineTable.FRAMES)])


def _is_before(goroutine: abi.Goroutine, program_ns: int) -> bool:
    """Whether all of its calls are of a program that its process ran before that time."""
    calls = _calls(goroutine)
    return bool(calls) and all(call.began_ns < program_ns for call in calls)
