# SPDX-License-Identifier: Apache-2.0
"""When it is measured what a hit costs."""

from __future__ import annotations

import os
from threading import Event, current_thread

import pytest

from ssllatency.engines.cost import meter as meters
from ssllatency.engines.cost.meter import CostMeter
from ssllatency.engines.cost.run_time import RunTime
from ssllatency.probes.costs import REFERENCE, HitCosts


@pytest.mark.parametrize("when_needed", [False, True])
def test_a_hit_is_measured_at_once_by_a_thread_or_when_it_is_needed_by_this_one(*, when_needed: bool) -> None:
    asked: list[str] = []
    done = Event()

    def measure() -> HitCosts:
        asked.append(current_thread().name)
        done.set()
        return REFERENCE

    meter = CostMeter(measure, lambda: None, when_needed=when_needed)
    assert meter.hit_costs() is None
    meter.begin([])
    assert when_needed or done.wait(20)
    assert bool(asked) != when_needed
    assert meter.hit_costs() is meter.hit_costs() is REFERENCE
    assert len(asked) == 1
    assert (asked[0] == current_thread().name) == when_needed
    meter.close()


class Hits:
    """A table of hits, of many processes."""

    def read(self) -> tuple[tuple[int, int, int, int], ...]:
        return tuple((0, slot, 0, 5) for slot in range(100))


def test_the_kernels_statistics_are_not_read_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def statistics_of(program: int) -> tuple[int, int]:
        reads.append(program)
        return 1000 * len(reads), 10 * len(reads)

    measuring = CostMeter(lambda: REFERENCE, lambda: None, when_needed=True)
    measuring._run_time = RunTime(lambda: os.open(os.devnull, os.O_RDONLY), statistics_of)
    measuring._run_time.add([3])
    measuring._tables.append(Hits())  # type: ignore[arg-type]
    measuring.begin([])
    monkeypatch.setattr(meters, "slot_of", lambda pid: pid)
    reads.clear()
    cost = measuring.read(range(100))
    measuring.close()
    assert cost
    assert len(cost.processes) == 100
    assert len({process.run_ns for process in cost.processes}) == 1
    assert len(reads) <= 3
