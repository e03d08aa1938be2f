# SPDX-License-Identifier: Apache-2.0
"""What the controller makes of what it hears, without a server."""

from __future__ import annotations

import pytest

from ssllatency.engines.budget.controller import LONGEST_STRATUM_S, SHORTEST_WINDOW_S, STRATUM_S, WINDOW_S, Controller, Schedule
from ssllatency.engines.cost.spent import Share

BUDGET = 0.01


def part(schedule: Schedule) -> float:
    return schedule.window_s / schedule.stratum_s


def test_a_window_without_work_is_not_taken_for_a_sign_that_watching_is_free() -> None:
    """The next window would else last for its whole stratum, at whatever that costs."""
    controller = Controller(BUDGET, 1)
    assert controller.watched_all(0.3)
    before = part(controller.next())
    controller.heard(0.0)
    controller.heard_window(Share(0.0, 0.0), 0.05, Share(0.0, 0.0), 0.1)
    assert part(controller.next()) <= 2.01 * before


@pytest.mark.parametrize("cost", [0.02, 0.2, 0.9])
@pytest.mark.parametrize("outside", [0.0, 0.009, 0.5])
def test_there_is_always_a_window_and_soon_one_of_what_has_not_been_seen(cost: float, outside: float) -> None:
    controller = Controller(BUDGET, 1)
    assert controller.watched_all(cost)
    controller.moved(outside)
    controller.heard_tool(1.0)
    seen, unseen = controller.next(excess_s=100.0), controller.next(excess_s=100.0, unseen=True)
    assert seen.window_s >= SHORTEST_WINDOW_S
    assert seen.stratum_s <= LONGEST_STRATUM_S
    assert unseen.window_s >= SHORTEST_WINDOW_S
    assert unseen.stratum_s == STRATUM_S


@pytest.mark.parametrize(
    ("budget", "cost", "window_s"),
    [(0.05, 0.3, WINDOW_S), (0.05, 0.8, WINDOW_S), (0.05, 1.0, 0.04), (0.02, 0.6, 0.07 / 3), (0.01, 0.9, SHORTEST_WINDOW_S)],
)
def test_the_shortest_window_takes_no_more_than_the_budget_of_a_second(budget: float, cost: float, window_s: float) -> None:
    """And 10 ms of that are taken to be paid beside the first one."""
    controller = Controller(budget, 1)
    assert controller.watched_all(0.06)
    assert controller.least_window_s(seen=cost) == pytest.approx(window_s)
    assert controller.watched_all(cost)
    assert controller.least_window_s() == pytest.approx(window_s)


def test_the_first_window_says_how_much_is_paid_beside_it() -> None:
    """Else the second would last too long by half of that, and the third by a quarter."""
    controller = Controller(0.05, 1)
    assert controller.watched_all(1.0)
    controller.heard_window(Share(1.0, 1.0), 0.04, Share(1.0, 1.0), 0.055)
    assert controller.next(excess_s=100.0).window_s == pytest.approx(0.05 - 0.015)


def test_longer_windows_make_up_for_the_time_that_is_paid_beside_them() -> None:
    """Where 0.2 s of hits are paid to watch for 50 ms, one in 4 s sees more than two such in 2 s each."""
    controller = Controller(BUDGET, 1)
    assert controller.watched_all(0.05)
    for _ in range(20):
        schedule = controller.next()
        window_s = schedule.window_s
        controller.heard_window(Share(0.05, 0.05), window_s, Share(0.05, 0.05), window_s + 0.15)
    paid_s = 0.05 * (schedule.window_s + 0.15)
    assert paid_s == pytest.approx(BUDGET / 2 * schedule.stratum_s, rel=0.05)
