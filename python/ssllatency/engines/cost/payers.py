# SPDX-License-Identifier: Apache-2.0
"""The payers of probes, each process by itself: also those that aren't traced, and hit probes as they map the same library.

Hits are counted by slots of the PID, so that the processes of a slot are taken together: on most machines that is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from ssllatency.engines.bpf.process_slots import slot_of
from ssllatency.engines.clock import process_clock_ns

_LIST_S = 1.0  # how often it is looked who is there while the processes of all slots are known


def all_pids() -> list[int]:
    """The processes of this machine."""
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]


class Payers:
    """The processor time of the processes whose hits fall into a slot, since `begin`, or their start if that was later."""

    def __init__(
        self,
        pids: Callable[[], Iterable[int]] = all_pids,
        clock_of: Callable[[int], int | None] = process_clock_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pids, self._clock_of, self._clock = pids, clock_of, clock
        self._had_run: dict[int, int] = {}
        self._by_slot: dict[int, list[int]] = {}
        self._total_ns: dict[int, int] = {}
        self._listed_s = 0.0

    def begin(self) -> None:
        """Counts from now on."""
        self._list()
        self._had_run = {pid: ns for pids in self._by_slot.values() for pid in pids if (ns := self._clock_of(pid)) is not None}

    def see(self, slots: Collection[int]) -> None:
        """Looks at the processes of these slots."""
        if self._clock() >= self._listed_s + _LIST_S or any(slot not in self._by_slot for slot in slots):
            self._list()
        for slot in slots:
            for pid in self._by_slot.get(slot, ()):
                now_ns = self._clock_of(pid)
                if now_ns is not None:
                    self._total_ns[slot] = self._total_ns.get(slot, 0) + max(0, now_ns - self._had_run.get(pid, 0))
                    self._had_run[pid] = now_ns

    def of(self, slot: int) -> int:
        """Nanoseconds that the processes of a slot had run when they were last seen."""
        return self._total_ns.get(slot, 0)

    def _list(self) -> None:
        self._by_slot = {}
        for pid in self._pids():
            self._by_slot.setdefault(slot_of(pid), []).append(pid)
        there = {pid for pids in self._by_slot.values() for pid in pids}
        self._had_run = {pid: ns for pid, ns in self._had_run.items() if pid in there}
        self._listed_s = self._clock()
