# SPDX-License-Identifier: Apache-2.0
"""The loops by which the cost of a hit is measured: each probes an instruction of the kind that it is named for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ssllatency.code.machine import Cost, Emulation, Flow
from ssllatency.engines import hit_cost
from ssllatency.probes.planner import machine_of

MACHINES = {"x86_64": "x86-64", "aarch64": "aarch64"}
NEWEST = Emulation(multibyte_nops=True, optimised_nop5=True)
CASES = [(name, hit) for name, loops in hit_cost.LOOPS.items() for hit in loops]


def test_every_supported_machine_has_its_loops() -> None:
    assert set(hit_cost.LOOPS) == set(MACHINES)
    assert all({"emulated", "single-stepped", "entry and return"} <= set(loops) for loops in hit_cost.LOOPS.values())


def test_what_comes_after_work_is_the_difference_that_a_probe_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0

    def lasting(ns: int) -> Callable[[int], None]:
        def function(iterations: int) -> None:
            nonlocal now_ns
            now_ns += ns * iterations

        return function

    monkeypatch.setattr(hit_cost.time, "perf_counter_ns", lambda: now_ns)
    assert hit_cost._after_work_ns(lasting(900), lasting(300)) == 600


@pytest.mark.parametrize(("name", "hit"), CASES)
def test_the_site_is_of_its_kind(name: str, hit: hit_cost.Hit) -> None:
    loop = hit_cost.LOOPS[name][hit]
    site = next(each for each in machine_of(MACHINES[name]).decode(loop.code, 0) if each.address == loop.site)
    assert site.cost(NEWEST) is (Cost.EMULATED if loop.at_return else Cost(hit))


@pytest.mark.parametrize(("name", "hit"), CASES)
def test_the_loop_passes_the_site_and_ends(name: str, hit: hit_cost.Hit) -> None:
    """A branch leads back to where the loop begins, and a return follows; a call leads to the site."""
    loop = hit_cost.LOOPS[name][hit]
    code = list(machine_of(MACHINES[name]).decode(loop.code, 0))
    [branch] = [each for each in code if each.flow is Flow.BRANCH]
    after = next(each for each in code if each.address > branch.address and each.flow is not Flow.NEXT)
    assert after.flow is Flow.RETURN
    calls = [each for each in code if each.flow is Flow.CALL]
    assert branch.target == (calls[0].address if calls else 0)
    assert [each.target for each in calls] == ([loop.site] if loop.at_return else [])
    assert loop.at_return or branch.target <= loop.site < branch.address
    assert len(loop.code) <= hit_cost.APART
