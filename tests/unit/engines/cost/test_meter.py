# SPDX-License-Identifier: Apache-2.0
"""When it is measured what a hit costs."""

from __future__ import annotations

from threading import Event, current_thread

import pytest

from ssllatency.engines.cost.meter import CostMeter
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
