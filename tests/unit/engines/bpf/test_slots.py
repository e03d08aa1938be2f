# SPDX-License-Identifier: Apache-2.0
"""Running calls in slots, as user space reads them."""

from __future__ import annotations

import ctypes
import random

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.executed import Executed
from ssllatency.engines.bpf.running import CallTable, StartTable
from ssllatency.engines.bpf.slots import Slots, operation_of, process_of
from ssllatency.engines.bpf.words import memory_of


def tag_of(pid: int, operation: int, stack: int) -> int:
    """A tag with the lowest 31 bits of `stack`, of the first way."""
    return 1 << 63 | operation << abi.Tag.OPERATION | pid << abi.Tag.TGID | stack << abi.Tag.STACK


@pytest.mark.parametrize("kind", [StartTable, CallTable])
def test_slots_of_ended_processes_are_freed_and_others_kept(kind: type[ctypes.Structure]) -> None:
    table = kind()
    in_use = {0: (7, 3), 5000: (8, 255), abi.Table.STARTS - 1: (7, 0)}
    for number, (pid, operation) in in_use.items():
        table.slots[number].tag = tag_of(pid, operation, (1 << 31) - 1)
    slots = Slots(table)
    assert {number: (process_of(tag), operation_of(tag)) for number, tag in slots.used()} == in_use
    assert slots.free_ended(lambda pid: pid == 8) == (1, 2)
    assert [number for number, _ in slots.used()] == [5000]
    assert slots.free_ended(lambda pid: pid == 8) == (1, 0)


@pytest.mark.parametrize("kind", [StartTable, CallTable])
def test_a_slot_that_was_used_is_not_in_use_whatever_is_left_in_it(kind: type[ctypes.Structure]) -> None:
    """Each byte of a tag shows by itself that a slot is in use."""
    chance, table = random.Random(3), kind()
    size = ctypes.sizeof(table.slots[0])
    memory = memory_of(table).cast("B")
    in_use = {number: 1 << 8 * place for place, number in enumerate(chance.sample(range(abi.Table.STARTS), 8))}
    for number in (*chance.sample(range(abi.Table.STARTS), 3000), *in_use):
        memory[number * size + 8 : (number + 1) * size] = b"\xff" * (size - 8)
    assert Slots(table).used() == []
    for number, tag in in_use.items():
        table.slots[number].tag = tag
    assert Slots(table).used() == sorted(in_use.items())


def test_a_slot_that_is_another_calls_by_now_is_left() -> None:
    table = StartTable()
    table.slots[3].tag = now = tag_of(8, 1, 16)
    Slots(table).free(3, tag_of(7, 1, 16))
    assert table.slots[3].tag == now


def test_a_slot_of_the_program_before_may_be_one_of_the_new_programs_by_now() -> None:
    """Where nothing moves the stack from one program to the next, a call of either has the same tag."""
    table = StartTable()
    table.slots[3].tag, table.slots[3].began_ns = tag_of(7, 1, 16), 101
    assert not Slots(table).free(3, tag_of(7, 1, 16), 100)
    assert Slots(table).free(3, tag_of(7, 1, 16), 102)
    assert table.slots[3].tag == 0


def test_calls_of_the_program_before_are_over_when_they_are_seen_again() -> None:
    """At the first look one may be of a slot that was just taken, with the time of the call that had it before."""
    table, executed = StartTable(), Executed()
    executed.note(7, 100)
    for number, (pid, began_ns) in enumerate([(7, 99), (7, 100), (8, 99), (7, 98), (7, 97), (7, 0)]):
        table.slots[number].tag, table.slots[number].began_ns = tag_of(pid, 1, number), began_ns
    slots = Slots(table)
    assert slots.free_ended(lambda _: True, executed) == (6, 0)
    table.slots[3].began_ns = 101
    table.slots[4].tag = 0
    assert slots.free_ended(lambda _: True, executed) == (4, 1)
    assert [number for number, _ in slots.used()] == [1, 2, 3, 5]
    assert slots.free_ended(lambda _: True, executed) == (4, 0)


def test_the_most_that_a_tag_can_say_is_read_back() -> None:
    tag = tag_of((1 << 22) - 1, 255, (1 << 31) - 1)
    assert (process_of(tag), operation_of(tag), tag >> 63) == ((1 << 22) - 1, 255, 1)
