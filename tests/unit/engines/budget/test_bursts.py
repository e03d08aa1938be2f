# SPDX-License-Identifier: Apache-2.0
"""Loads that come at once: the programs tell of many hits, so that nobody waits for the next look."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from tests.unit.engines.budget.server import BUDGET, STEP_S, Server, Woken

from ssllatency.engines.budget.controller import SHORTEST_WINDOW_S, WINDOW_S
from ssllatency.stacks.operation import Tier


@pytest.mark.parametrize("rested", [True, False])
def test_a_load_that_comes_at_once_costs_little_until_it_is_seen(rested: bool) -> None:
    server = Server({Tier.DATA: 0.0 if rested else 100.0, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    woken = Woken(server, rested=rested)
    woken.run(5.1)
    before_ns = server.cost_ns
    server.rates[Tier.DATA] = 200_000
    woken.run(0.1)  # though looks are half a second apart
    assert Tier.DATA not in server.attached
    assert server.cost_ns - before_ns < 0.4 * 0.09e9
    woken.run(20.4)
    assert server.cost_ns - before_ns < 1.2 * BUDGET * 20.5e9


def test_a_load_that_has_just_come_is_taken_for_what_it_is_at_work() -> None:
    """By the time since the last look it would seem to cost a part of that, and the first window would be as much longer."""
    server = Lengths({Tier.DATA: 100.0, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, hit_ns=400)
    server.lasted_s = []
    woken = Woken(server)
    woken.run(5.3)
    server.other_rate = 1_500_000
    woken.run(2.5)
    [first_s] = server.lasted_s
    assert SHORTEST_WINDOW_S <= first_s <= BUDGET / 0.6  # it takes no more of that second


def test_a_load_that_comes_in_a_window_ends_it() -> None:
    """The window was planned for next to nothing, and would last for seconds."""
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    woken = Woken(server)
    server.rates[Tier.DATA] = 15_000  # a little more than may be watched all the time
    woken.run(60)
    while Tier.DATA not in server.counting:
        woken.run(STEP_S)
    before_ns = server.cost_ns
    server.rates[Tier.DATA] = 200_000
    woken.run(1)
    assert server.cost_ns - before_ns < 0.4 * 0.25e9


@pytest.mark.parametrize("after_s", [0.5, 1.2, 1.9, 2.6, 3.3])
def test_a_load_of_what_is_watched_all_the_time_sends_that_into_windows(after_s: float) -> None:
    """Reads and writes are in windows already, in strata of seconds."""
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    woken = Woken(server)
    woken.run(20 + after_s)
    while woken.windows.due_s - server.now_s < 0.3:  # not just before that would be seen anyway
        woken.run(0.1)
    assert Tier.BELOW in server.counting
    server.rates[Tier.BELOW] = 200_000
    woken.run(0.2)
    assert Tier.BELOW not in server.counting


def test_what_costs_little_is_watched_on_whatever_is_told() -> None:
    server = Server({Tier.DATA: 5_000, Tier.BELOW: 500, Tier.HANDSHAKE: 500})
    woken = Woken(server)
    woken.run(30)
    woken.windows.finish()
    assert server.counted == server.calls


class Lengths(Server):
    """A server that notes how long it was watched each time that probes were set again."""

    begins_s = 0.0
    lasted_s: list[float]

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        super().resume_counting(tiers)
        self.begins_s = self.now_s

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        super().stop_counting(tiers)
        if self.begins_s:
            self.lasted_s.append(self.now_s - self.begins_s)


@pytest.mark.parametrize("below", [3_000, 10_000, 60_000])
def test_a_window_sees_something_where_what_stays_uses_up_the_budget(below: int) -> None:
    """Handshakes are watched all the time, and take ten times the budget: each notice of their hits would end the window that
    phases have just got."""
    server = Lengths({Tier.DATA: 0, Tier.BELOW: below, Tier.HANDSHAKE: 100_000})
    server.lasted_s = []
    woken = Woken(server, tiers=(Tier.BELOW,))
    woken.run(60)
    assert len(server.lasted_s) >= 3
    assert min(server.lasted_s) >= 0.99 * WINDOW_S
    assert server.counted[Tier.BELOW] / below >= 3 * WINDOW_S
