# SPDX-License-Identifier: Apache-2.0
"""The programs' table of hits, read: by process, by processor and by kind; and what they cost."""

from __future__ import annotations

import ctypes
from typing import cast

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.process_slots import SLOTS, slot_of
from ssllatency.engines.cost import hits
from ssllatency.engines.cost.hits import Hits, HitTable, added, cost_ns, costs_amid
from ssllatency.probes.costs import HitCosts

PIDS, KINDS = SLOTS, int(abi.Hit.HITS)


class Memory:
    """The memory of a map, as a loaded object gives it."""

    def __init__(self, cores: int) -> None:
        self.words = (ctypes.c_uint64 * (cores * PIDS * KINDS))()

    def live_section(self, name: str, kind: type[ctypes.Structure]) -> ctypes.Structure:
        assert name == "hits"
        assert ctypes.sizeof(kind) == ctypes.sizeof(self.words)
        return kind.from_buffer(self.words)

    def set(self, core: int, pid: int, kind: abi.Hit, count: int) -> None:
        self.words[(core * PIDS + slot_of(pid)) * KINDS + kind] = count


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.setattr(hits, "possible_cores", lambda: 3)
    return Memory(3)


def read(*memories: Memory) -> Hits:
    return Hits.of(HitTable(cast("Loadable", memory)).read() for memory in memories)


def test_hits_are_told_apart_by_process_processor_and_kind(memory: Memory) -> None:
    memory.set(0, 1, abi.Hit.EMULATED, 5)
    memory.set(2, 1, abi.Hit.EMULATED, 7)
    memory.set(2, PIDS - 1, abi.Hit.RETURN, 11)
    found = read(memory)
    assert found.by_slot == {slot_of(1): [12, 0, 0, 0], slot_of(PIDS - 1): [0, 0, 0, 11]}
    assert found.by_core == {0: [5, 0, 0, 0], 2: [7, 0, 0, 11]}
    assert found.of_slots([slot_of(1), slot_of(3)]) == [12, 0, 0, 0]


def test_two_objects_are_added_up(memory: Memory) -> None:
    memory.set(1, 40, abi.Hit.OPTIMISED, 3)
    other = Memory(3)
    other.set(1, 40, abi.Hit.SINGLE_STEPPED, 4)
    assert read(memory, other).by_slot == {slot_of(40): [0, 4, 3, 0]}


def test_each_kind_has_its_cost() -> None:
    costs = HitCosts(optimised=1, emulated=10, single_stepped=100, returning=1000, after_work=0)
    assert cost_ns(added([[1, 2, 3, 4], [1, 0, 0, 0]]), costs) == 2 * 10 + 2 * 100 + 3 * 1 + 4 * 1000


@pytest.mark.parametrize(
    ("work_ns", "more"), [(0, 0), (500, 35), (1_000, 70), (2_000, 140), (50_000, 140)], ids=lambda number: f"{number:,}"
)
def test_hits_take_longer_after_other_work(work_ns: int, more: int) -> None:
    costs = HitCosts(optimised=200, emulated=400, single_stepped=5_000, returning=300, after_work=140)
    counts = [2, 1, 1, 3]  # what returns from a call has hit a site before
    cpu_ns = cost_ns(counts, costs) + 4 * work_ns
    assert costs_amid(counts, costs, cpu_ns) == HitCosts(200 + more, 400 + more, 5_000 + more, 300, 140)


def test_where_nothing_is_known_of_their_work_there_was_enough() -> None:
    costs = HitCosts(200, 400, 5_000, 300, 140)
    assert costs_amid([1, 0, 0, 0], costs, 0).emulated == 540
    assert costs_amid([0, 0, 0, 0], costs, 10**9) == costs


def test_no_hits_cost_nothing(memory: Memory) -> None:
    assert read(memory) == Hits()
    assert cost_ns(added([]), HitCosts(1, 1, 1, 1, 1)) == 0


def test_the_machine_says_how_many_processors_it_may_have() -> None:
    assert hits.possible_cores() >= 1


def test_the_hits_are_the_same_object_until_one_more_was_counted(memory: Memory) -> None:
    table = HitTable(cast("Loadable", memory))
    memory.set(0, 1, abi.Hit.EMULATED, 5)
    first = table.read()
    assert table.read() is first
    memory.set(2, PIDS - 1, abi.Hit.RETURN, 1)
    assert Hits.of([table.read()]).by_core == {0: [5, 0, 0, 0], 2: [0, 0, 0, 1]}
    memory.set(0, 1, abi.Hit.EMULATED, 6)
    assert Hits.of([table.read()]).by_slot[slot_of(1)] == [6, 0, 0, 0]
