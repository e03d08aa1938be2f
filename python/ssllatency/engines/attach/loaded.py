# SPDX-License-Identifier: Apache-2.0
"""The part of an attachment that there is from when its object is loaded: what all objects count, the calls that run, and the
set of processes that the programs pick."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection, Iterable, Sequence

from ssllatency import abi
from ssllatency.engines.attach.program_choice import TRACEPOINTS_ON_DEMAND
from ssllatency.engines.bpf.loadable import Loadable, LoadedMap
from ssllatency.engines.bpf.running import Running
from ssllatency.engines.cost.meter import CostMeter
from ssllatency.model.snapshot import Losses


class Loaded:
    """Counters and maps of an object that is loaded. `measured` are the programs whose run time the meter knows."""

    def __init__(self, opened: Loadable, measured: Sequence[str]) -> None:
        self._object, self.measured = opened, measured
        self.counters = opened.live_section(".data.counters", abi.Counters)
        self.counters.interval = 1
        self.running = Running(opened, self.counters) if opened.has_map("starts") else None
        self._targets: dict[int, int] = {}  # the words of the set, by their numbers
        self._unmatched_exits: int | None = None  # when the entries began to be removed

    def add_targets(self, pids: Iterable[int]) -> None:
        """Writes to the set of processes, which no program may write to meanwhile."""
        targets: LoadedMap = self._object.map("targets", 4, ctypes.sizeof(abi.Targets))
        for pid in pids:
            self._targets[pid >> 6] = self._targets.get(pid >> 6, 0) | 1 << (pid & 63)
            targets.update(ctypes.c_uint32(pid >> 6), abi.Targets(kin=self._targets[pid >> 6]))

    def drop(self, tier: int, operations: Collection[int]) -> int:
        """Drops the calls of a tier that run, of these operations, as nothing sees them end any more; how many they were."""
        dropped = self.running.drop(operations) if self.running else 0
        self.counters.dropped_ns[tier] = time.monotonic_ns()  # now: one that ended meanwhile is told rather than left out
        return dropped

    def is_quiet(self, operations: Collection[int]) -> bool:
        """Whether no call of these operations runs that has been seen to begin."""
        return not (self.running and self.running.any_of(operations))

    def measure_late(self, meter: CostMeter) -> None:
        """Has the meter know the programs that were loaded after the others, when the first link needed one."""
        if late := [name for name in self._object.late_programs if name not in self.measured]:
            elsewhere = [name for name in late if name in TRACEPOINTS_ON_DEMAND]
            meter.add_programs(self._object, [name for name in late if name not in elsewhere], elsewhere)
            self.measured = [*self.measured, *late]

    def next_interval(self) -> int:
        """Has the programs begin another interval; the number of the one that ends."""
        ending: int = self.counters.interval
        self.counters.interval = ending + 1
        return ending

    def stop(self) -> None:
        """Before the probes are removed: calls that end from now on are no loss."""
        self._unmatched_exits = self.counters.unmatched_exits
        self.counters.stopped = 1

    def losses(self, late_processes: int) -> Losses:
        """Everything that the programs missed so far, beside processes that were late."""
        return Losses(
            unmatched_entries=self.counters.unmatched_entries + (self.running.lost if self.running else 0),
            left=self.counters.left + (self.running.left if self.running else 0),
            unmatched_exits=self.counters.unmatched_exits if self._unmatched_exits is None else self._unmatched_exits,
            map_full=self.counters.map_full,
            events_dropped=self.counters.events_dropped,
            late_processes=late_processes,
        )
