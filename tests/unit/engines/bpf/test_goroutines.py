# SPDX-License-Identifier: Apache-2.0
"""Running calls of Go functions: which run, which a panic has left, and what is removed with a process."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

from ssllatency import abi
from ssllatency.engines.bpf.executed import Executed
from ssllatency.engines.bpf.goroutines import LEFT_AFTER_NS, Goroutines, RunningCount
from ssllatency.engines.bpf.process_slots import SlotCounts, slot_of

READ, HANDSHAKE = 1, 2
TIERS = {READ: 1, HANDSHAKE: 0}
NOW = time.monotonic_ns()
LONG_AGO = NOW - 10 * LEFT_AFTER_NS
SOON = NOW + 3600 * LEFT_AFTER_NS  # not long ago, however slow this machine is


class Table:
    """A map of the kernel's."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        yield from self.entries.items()

    def lookup(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def delete(self, key: bytes) -> bool:
        return self.entries.pop(key, None) is not None


class Loaded:
    """An object with the table of goroutines, and how many of a slot's user space has taken out."""

    def __init__(self) -> None:
        self.table, self.taken = Table(), SlotCounts()

    def map(self, name: str, *_sizes: int) -> Table:
        assert name == "goroutines"
        return self.table

    def live_section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        assert (name, kind) == ("goroutines_taken", SlotCounts)
        return self.taken

    def add(self, pid: int, goroutine: int, *calls: tuple[int, int], left_ns: int = 0) -> None:
        """A goroutine with calls, each an operation and when it began."""
        key, value = abi.GoroutineKey(goroutine, pid), abi.Goroutine(left_ns=left_ns, count=len(calls))
        for number, (operation, began_ns) in enumerate(calls):
            value.frames[number] = abi.Frame(began_ns=began_ns, operation=operation, tier=TIERS[operation], depth=100 + number)
        self.table.entries[bytes(key)] = bytes(value)


def opened(counters: abi.Counters | None = None) -> tuple[Loaded, Goroutines]:
    loaded = Loaded()
    return loaded, Goroutines(loaded, counters or abi.Counters())  # type: ignore[arg-type]


def test_calls_within_each_other_run() -> None:
    loaded, goroutines = opened()
    loaded.add(7, 0xC000, (READ, LONG_AGO), (HANDSHAKE, NOW))
    loaded.add(8, 0xC000, (READ, NOW))
    assert goroutines.count(lambda _: True) == RunningCount(3, 0)
    assert goroutines.left == 0
    assert goroutines.calls_of({READ}) == 2
    assert goroutines.calls_of({5}) == 0


def test_a_call_that_a_panic_has_left_long_ago_does_not_run() -> None:
    """One that was left just now may have recovered; one that began later is another."""
    loaded, goroutines = opened()
    loaded.add(7, 0xC000, (HANDSHAKE, LONG_AGO), left_ns=LONG_AGO + 1)
    loaded.add(7, 0xC100, (HANDSHAKE, LONG_AGO), left_ns=SOON)
    loaded.add(7, 0xC200, (HANDSHAKE, LONG_AGO + 2), left_ns=LONG_AGO + 1)
    for _ in range(2):  # it is counted each time, not once more
        assert goroutines.count(lambda _: True) == RunningCount(2, 0)
        assert goroutines.left == 1


def test_calls_whose_probes_were_removed_neither_run_nor_are_lost() -> None:
    """Their records stay, as nothing sees them end."""
    counters = abi.Counters()
    loaded, goroutines = opened(counters)
    loaded.add(7, 0xC000, (READ, LONG_AGO), (HANDSHAKE, LONG_AGO))
    loaded.add(8, 0xC000, (READ, SOON))
    assert goroutines.calls_of({HANDSHAKE}) == 1
    counters.dropped_ns[TIERS[HANDSHAKE]] = NOW
    assert goroutines.calls_of({HANDSHAKE}) == 0
    assert goroutines.calls_of({READ}) == 2
    counters.dropped_ns[TIERS[READ]] = NOW
    assert goroutines.calls_of({READ}) == 1, "one that began later"
    assert goroutines.count(lambda _: True) == RunningCount(1, 0)
    assert goroutines.count(lambda pid: pid == 8) == RunningCount(1, 0)
    assert goroutines.left == 0


def test_a_process_that_has_ended_leaves_nothing_behind() -> None:
    loaded, goroutines = opened()
    loaded.add(7, 0xC000, (READ, LONG_AGO), (HANDSHAKE, LONG_AGO + 5), left_ns=LONG_AGO + 2)
    loaded.add(8, 0xC000, (READ, NOW))
    assert goroutines.count(lambda pid: pid == 8) == RunningCount(1, 1)
    assert goroutines.left == 1
    assert [abi.GoroutineKey.from_buffer_copy(key).tgid for key in loaded.table.entries] == [8]
    assert (loaded.taken.of[slot_of(7)], loaded.taken.of[slot_of(8)]) == (1, 0)
    assert goroutines.count(lambda _: True) == RunningCount(1, 0)
    assert goroutines.left == 1


def test_a_record_that_the_kernel_side_never_writes_is_read_within_its_bounds() -> None:
    loaded, goroutines = opened()
    value = abi.Goroutine(count=1000)
    loaded.table.entries[bytes(abi.GoroutineKey(1, 7))] = bytes(value)
    assert goroutines.count(lambda _: True).running == abi.GoroutineTable.FRAMES


def executed(pid: int, at_ns: int) -> Executed:
    known = Executed()
    known.note(pid, at_ns)
    return known


def test_the_program_before_leaves_nothing_behind() -> None:
    """Of a goroutine at the address of one that is gone the kernel tells itself which of its calls are."""
    loaded, goroutines = opened()
    loaded.add(7, 0xC000, (READ, LONG_AGO), (HANDSHAKE, LONG_AGO + 1), left_ns=LONG_AGO)
    loaded.add(7, 0xC100, (READ, LONG_AGO), (HANDSHAKE, NOW))
    loaded.add(7, 0xC200, (READ, NOW))
    loaded.add(7, 0xC300)
    loaded.add(8, 0xC000, (READ, LONG_AGO))
    assert goroutines.count(lambda _: True, executed(7, NOW)) == RunningCount(3, 1)
    assert goroutines.left == 1
    keys = [abi.GoroutineKey.from_buffer_copy(key) for key in loaded.table.entries]
    assert [(key.tgid, key.goroutine) for key in keys] == [(7, 0xC100), (7, 0xC200), (7, 0xC300), (8, 0xC000)]
    assert loaded.taken.of[slot_of(7)] == 1
    assert goroutines.count(lambda _: True, executed(7, NOW)) == RunningCount(3, 0)


def test_a_call_that_a_panic_left_in_the_program_before_is_not_taken_off_those_of_the_new_one() -> None:
    """The kernel tells when it is over, as its record goes on."""
    loaded, goroutines = opened()
    loaded.add(7, 0xC000, (READ, LONG_AGO), (HANDSHAKE, NOW), left_ns=LONG_AGO)
    loaded.add(7, 0xC100, (READ, LONG_AGO), (READ, LONG_AGO), (HANDSHAKE, NOW), left_ns=LONG_AGO + 1)
    assert goroutines.count(lambda _: True, executed(7, NOW)) == RunningCount(2, 0)
    assert (goroutines.left_now, goroutines.left_for_good) == (0, 0)
    assert goroutines.count(lambda _: True) == RunningCount(2, 0)
    assert goroutines.left_now == 3, "where it isn't known that the process has executed another program"


def test_what_the_new_program_has_begun_meanwhile_stays() -> None:
    """Between the reading of the table and the removal of a record."""
    loaded, goroutines = opened()
    loaded.add(7, 0xC000, (READ, LONG_AGO))
    before = list(loaded.table.items())
    loaded.add(7, 0xC000, (READ, NOW))
    loaded.table.items = lambda: iter(before)  # type: ignore[method-assign]
    assert goroutines.count(lambda _: True, executed(7, NOW)) == RunningCount(0, 0)
    assert len(loaded.table.entries) == 1
    assert loaded.taken.of[slot_of(7)] == 0
