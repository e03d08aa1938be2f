# SPDX-License-Identifier: Apache-2.0
"""Running calls and handshakes: reads the kernel side's tables, and removes the entries of processes that have ended, or that
run another program now."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Collection

from ssllatency import abi
from ssllatency.engines.bpf.executed import NOT_KNOWN, Executed, Sweeps
from ssllatency.engines.bpf.goroutines import Goroutines
from ssllatency.engines.bpf.loadable import Loadable, LoadedMap
from ssllatency.engines.bpf.process_slots import SLOTS, SlotCounts, slot_of
from ssllatency.engines.bpf.slots import Slots, operation_of
from ssllatency.engines.clock import process_clock_ns

_FOREVER_NS = 1 << 64  # of a process that is gone


class StartTable(ctypes.Structure):
    """The memory of the table of `trace` and `snoop`."""

    _fields_ = (("slots", abi.Start * abi.Table.STARTS),)


class CallTable(ctypes.Structure):
    """The memory of the table of calls in handshakes."""

    _fields_ = (("slots", abi.CallSlot * abi.Table.STARTS),)


def exists(pid: int) -> bool:
    """Whether there is such a process."""
    return process_clock_ns(pid) is not None  # a tenth of what it takes to look into /proc


class HoldingTable(ctypes.Structure):
    """The entries that the processes of each slot hold of the handshakes' tables."""

    _fields_ = (("of", abi.Holding * SLOTS),)


class Running:
    """The calls that run in the traced processes. `lost` counts those that will never end, as their process is gone, or its
    program; `left` those that a panic has left."""

    def __init__(self, loaded: Loadable, counters: ctypes.Structure) -> None:
        self._slots = Slots(loaded.live_section("starts", StartTable))
        self._overflow = loaded.map("overflow", ctypes.sizeof(abi.StartKey), ctypes.sizeof(abi.Start))
        self._shares = loaded.live_section("shares", SlotCounts)
        self._goroutines = Goroutines(loaded, counters) if loaded.has_map("goroutines") else None
        self._refused, self._sweeps = 0, Sweeps()
        self.lost = 0

    def count(self, alive: Callable[[int], bool] = exists, executed: Executed = NOT_KNOWN) -> int:
        """Count the calls that run now; those of processes that aren't alive are taken out and added to `lost`. So are those of
        programs that their processes don't run any more."""
        running, lost = self._slots.free_ended(alive, executed)
        self.lost += lost
        return running + self._count_overflow(alive, executed) + self._count_goroutines(alive, executed)

    @property
    def left(self) -> int:
        """See above; as far as count() has found them."""
        return self._goroutines.left if self._goroutines else 0

    def _count_goroutines(self, alive: Callable[[int], bool], executed: Executed) -> int:
        if not self._goroutines:
            return 0
        counted = self._goroutines.count(alive, executed)
        self.lost += counted.lost
        return counted.running

    def make_room(self, refused: int, executed: Executed = NOT_KNOWN) -> None:
        """To be called several times a second: takes out the calls of processes that have ended where there was no room for
        more calls since it did so last, and where a target, perhaps one of Go, runs another program now: of others few calls
        can be left. `refused` calls found no room so far."""
        anew = self._goroutines and self._sweeps.are_wanted(executed)
        if (refused != self._refused or anew) and self._sweeps.are_rested():
            self._refused = refused
            with self._sweeps.sweep(executed):
                self.count(executed=executed)

    def _drop_from_overflow(self, key: bytes, pid: int) -> bool:
        """Whether the call was still there."""
        if not self._overflow.delete(key):
            return False
        self._shares.of[slot_of(pid)] -= 1
        return True

    def drop(self, operations: Collection[int]) -> int:
        """Takes out the calls of these operations, none of which is seen to end any more; how many there were. Those of Go are
        only counted: `dropped_ns` among the counters leaves them out."""
        dropped = self._goroutines.calls_of(operations) if self._goroutines else 0
        for number, tag in self._slots.used():
            if operation_of(tag) in operations:
                self._slots.free(number, tag)
                dropped += 1
        for key, _ in list(self._overflow.items()):
            call = abi.StartKey.from_buffer_copy(key)
            dropped += call.operation in operations and self._drop_from_overflow(key, call.tgid)
        return dropped

    def any_of(self, operations: Collection[int]) -> bool:
        """Whether a call of these operations runs."""
        if any(operation_of(tag) in operations for _, tag in self._slots.used()):
            return True
        if self._goroutines and self._goroutines.calls_of(operations):
            return True
        return any(abi.StartKey.from_buffer_copy(key).operation in operations for key, _ in self._overflow.items())

    def _count_overflow(self, alive: Callable[[int], bool], executed: Executed) -> int:
        running = 0
        for key, raw in list(self._overflow.items()):
            pid = abi.StartKey.from_buffer_copy(key).tgid
            program_ns = executed.at_ns(pid) if alive(pid) else _FOREVER_NS
            if not _is_before(abi.Start.from_buffer_copy(raw), program_ns):
                running += 1
            elif _is_before_still(self._overflow, key, abi.Start, program_ns):
                self.lost += self._drop_from_overflow(key, pid)
        return running


class InFlight:
    """The handshakes that run. `cut_off` counts those that will never end, as their process is gone, or its program."""

    def __init__(self, loaded: Loadable) -> None:
        sizes = ctypes.sizeof(abi.HandshakeKey), ctypes.sizeof(abi.Handshake)
        self._handshakes, self._excess = loaded.map("handshakes", *sizes), loaded.map("excess_handshakes", *sizes)
        self._holdings = loaded.live_section("holdings", HoldingTable)
        self._calls = Slots(loaded.live_section("call_slots", CallTable))
        self.cut_off = 0

    def give_back(self, pid: int, table: abi.Shared, entries: int = 1) -> None:
        """The process has so many entries less in a table."""
        self._holdings.of[slot_of(pid)].entries[table] -= entries

    def running(self, alive: Callable[[int], bool] = exists, executed: Executed = NOT_KNOWN) -> list[abi.Handshake]:
        """The handshakes in flight; those of processes that aren't alive are closed, and the slots of their calls freed. Those
        that began in a program that their process doesn't run any more are closed, too; the slots of their calls, which don't
        keep when these began, are freed when the process ends or calls at the same place."""
        self._calls.free_ended(alive)
        running: list[abi.Handshake] = []
        over: Counter[int] = Counter()
        for table in (self._handshakes, self._excess):
            for key, raw in list(table.items()):
                handshake, pid = abi.Handshake.from_buffer_copy(raw), abi.HandshakeKey.from_buffer_copy(key).tgid
                ended = bool(handshake.flags & abi.Flag.ENDED)
                program_ns = executed.at_ns(pid) if alive(pid) else _FOREVER_NS
                if not _is_before(handshake, program_ns):
                    running += [] if ended else [handshake]
                elif _is_before_still(table, key, abi.Handshake, program_ns) and table.delete(key):
                    self.cut_off += not ended
                    over[pid] += table is self._handshakes
        for pid, entries in over.items():
            self.give_back(pid, abi.Shared.HANDSHAKES, entries)
        return running


def _is_before(entry: abi.Handshake | abi.Start, program_ns: int) -> bool:
    """Whether it is one of a program that its process ran before that time. One that is just being made has no time yet."""
    return program_ns == _FOREVER_NS or 0 < entry.began_ns < program_ns


def _is_before_still(table: LoadedMap, key: bytes, kind: type[abi.Handshake | abi.Start], program_ns: int) -> bool:
    """Whether the entry is there yet: the new program may have one by now whose connection, or stack, lies at the same
    address."""
    value = table.lookup(key)
    return value is not None and _is_before(kind.from_buffer_copy(value), program_ns)
