# SPDX-License-Identifier: Apache-2.0
"""The calls of handshakes that run, in their slots and in the tables behind them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.running import CallTable
from ssllatency.engines.bpf.slots import Slots, process_of
from tests.bpf.compiling import SMALL, compiled, run

STACK = 0x7FFF_1230_0000
FIRST, SECOND = 1001, 1002
TOO_FAR = 1 << 52  # beyond what a tag has room for
_ROOMY_TABLES = ("handshakes", "excess_handshakes")


class SlotsProbe(ctypes.Structure):
    _fields_ = (
        ("stack", ctypes.c_uint64),
        ("calls", ctypes.c_uint32),
        ("tgids", ctypes.c_uint32 * 2),
        ("found", ctypes.c_uint32),
        ("wrong", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


class CallSlots:
    """The tables, and what a program did with some calls."""

    def __init__(self, loaded: BpfObject) -> None:
        self.loaded = loaded
        self.probe = loaded.live_section(".data.probe", SlotsProbe)
        self.table = loaded.live_section("call_slots", CallTable)
        self.slots = Slots(self.table)
        self.counters = loaded.live_section(".data.handshake_counters", abi.HandshakeCounters)
        self.probe.tgids[:] = FIRST, SECOND
        self.at(STACK, 1)

    def at(self, stack: int, calls: int) -> None:
        """From now on there are so many calls of each process from that place on."""
        self.probe.stack, self.probe.calls = stack, calls

    def do(self, program: str) -> tuple[int, int]:
        """How many of the calls were found as they should be, and otherwise."""
        self.probe.found = self.probe.wrong = 0
        run(self.loaded.program_fd(program))
        return self.probe.found, self.probe.wrong

    def spilled(self) -> int:
        """How many calls lie in the table behind the slots."""
        return len(list(self.loaded.map("open_calls", ctypes.sizeof(abi.StartKey), ctypes.sizeof(abi.OpenCall)).items()))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("slots_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@pytest.fixture
def calls(content: bytes) -> Iterator[CallSlots]:
    with BpfObject(content, "slots_probe") as opened:
        for table in _ROOMY_TABLES:
            opened.resize_map(table, SMALL)
        opened.load()
        yield CallSlots(opened)


def test_a_call_is_found_until_it_is_taken_out(calls: CallSlots) -> None:
    assert calls.do("find_of_first") == (0, 0)
    calls.do("keep_of_first")
    assert calls.do("find_of_first") == (1, 0)
    assert calls.do("find_of_second") == (0, 0)
    assert calls.do("take_of_first") == (1, 0)
    assert calls.do("take_of_first") == (0, 0)
    assert calls.slots.used() == []
    assert not calls.counters.calls_spilled


def test_one_takes_the_place_of_what_never_ended_there(calls: CallSlots) -> None:
    calls.do("keep_of_first")
    calls.do("keep_of_first")
    assert len(calls.slots.used()) == 1
    assert calls.do("take_of_first") == (1, 0)
    assert calls.do("take_of_first") == (0, 0)


def test_what_fits_no_slot_lies_behind_them(calls: CallSlots) -> None:
    calls.at(TOO_FAR, 3)
    calls.do("keep_of_first")
    assert (calls.slots.used(), calls.spilled()) == ([], 3)
    assert calls.do("find_of_first") == (3, 0)
    assert calls.do("take_of_first") == (3, 0)
    assert calls.spilled() == 0


def fill(calls: CallSlots) -> None:
    """All slots are those of the second process's calls."""
    calls.at(STACK, abi.Table.STARTS)
    calls.do("keep_of_second")
    assert len(calls.slots.used()) == abi.Table.STARTS
    calls.at(STACK, 5)


def test_where_no_slot_is_free_none_is_lost(calls: CallSlots) -> None:
    fill(calls)
    calls.do("keep_of_first")
    assert calls.spilled() == 5
    assert calls.do("find_of_first") == (5, 0)
    assert calls.do("find_of_second") == (5, 0)


def test_what_was_left_behind_the_slots_is_replaced_too(calls: CallSlots) -> None:
    fill(calls)
    calls.do("keep_of_first")
    for number, tag in calls.slots.used():
        if process_of(tag) == SECOND:
            calls.slots.free(number, tag)
    calls.do("keep_of_first")
    assert (len(calls.slots.used()), calls.spilled()) == (5, 0)
    assert calls.do("take_of_first") == (5, 0)
    assert calls.do("find_of_first") == (0, 0)


def test_two_processors_never_get_the_same_slot(calls: CallSlots) -> None:
    calls.at(STACK, abi.Table.STARTS)
    together = Barrier(2)

    def keep(program: str) -> None:
        descriptor = calls.loaded.program_fd(program)
        together.wait()
        run(descriptor)

    threads = [Thread(target=keep, args=(f"keep_of_{which}",)) for which in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = calls.slots.used()
    assert len(used) > abi.Table.STARTS / 2
    for number, tag in used:
        call = calls.table.slots[number].call
        assert call.outer == process_of(tag)
        assert STACK <= call.ssl < STACK + 8 * abi.Table.STARTS
    owners = [(calls.table.slots[number].call.ssl, process_of(tag)) for number, tag in used]
    assert len(set(owners)) == len(owners)


def test_slots_of_processes_that_have_ended_are_freed(calls: CallSlots) -> None:
    calls.at(STACK, 3)
    calls.do("keep_of_first")
    calls.do("keep_of_second")
    assert calls.slots.free_ended(lambda pid: pid == SECOND) == (3, 3)
    assert calls.do("find_of_first") == (0, 0)
    assert calls.do("take_of_second") == (3, 0)
