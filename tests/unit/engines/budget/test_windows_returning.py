# SPDX-License-Identifier: Apache-2.0
"""Functions that come back once a load has gone or rests, and those that can't be set again."""

from __future__ import annotations

import math
import random
from statistics import mean, stdev

import pytest
from tests.parameters import slow_except
from tests.unit.engines.budget.server import (
    BUDGET,
    Server,
    begin,
    holds,
    run,
    share,
    watch,
)

from ssllatency.engines.budget.windows import Windows
from ssllatency.stacks.operation import Tier


def test_when_the_load_falls_all_is_watched_again() -> None:
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 10)
    assert windows.sampling()
    server.rates[Tier.DATA] = 1_000
    run(server, windows, 30)
    assert server.counting == set(Tier)
    before = server.left.count(Tier.DATA)
    run(server, windows, 30)
    assert server.left.count(Tier.DATA) == before, "it doesn't flap"
    windows.finish()
    [sampling] = windows.sampling()
    assert sampling.estimates[0].count.value == pytest.approx(server.calls[Tier.DATA], rel=0.25)


def test_when_nobody_has_worked_for_a_while_all_is_watched_and_nothing_is_set_or_removed() -> None:
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 20)
    server.rests = True
    run(server, windows, 15)
    assert server.counting == set(Tier)
    removed = len(server.left)
    run(server, windows, 100)
    assert len(server.left) == removed
    server.rests = False
    run(server, windows, 30)
    windows.finish()
    assert server.cost_ns / (server.worked_s * 1e9) <= 1.05 * BUDGET
    [sampling] = windows.sampling()
    assert holds(sampling.estimates[0].count, server.calls[Tier.DATA])


@pytest.mark.parametrize(("rests_s", "works_s"), [(25.0, 0.3), (14.0, 0.3)])
def test_a_load_that_comes_back_after_each_rest_keeps_the_budget(rests_s: float, works_s: float) -> None:
    """A tenth of a processor is taken for granted. Each time that all is watched again, the load pays for a look."""
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, rests=True)
    windows = watch(server)
    for _ in range(40):
        server.rests = True
        run(server, windows, rests_s)
        server.rests = False
        run(server, windows, works_s)
    windows.finish()
    assert share(server) <= 1.1 * BUDGET * 0.1


@pytest.mark.parametrize("times_s", slow_except([(0.7, 0.1), (2.1, 0.4), (5.0, 0.3), (15.0, 0.3)], (15.0, 0.3)))
def test_who_works_for_a_moment_now_and_then_is_seen_as_often_as_others(times_s: tuple[float, float]) -> None:
    rests_s, works_s = times_s
    ratios = []
    for seed in range(12):
        server = Server({Tier.DATA: 20_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
        windows = watch(server, seed=seed)
        run(server, windows, 5 + seed / 4)  # else all would have their moments at one place of a stratum
        before = server.calls[Tier.DATA]
        windows.sampling(anew=True)
        for _ in range(round(200 / (rests_s + works_s))):
            server.rests = True
            run(server, windows, rests_s)
            server.rests = False
            run(server, windows, works_s)
        windows.finish()
        [sampling] = windows.sampling()
        estimated = sum(estimate.count.value for estimate in sampling.estimates)
        ratios.append(estimated / (server.calls[Tier.DATA] - before))
    assert abs(mean(ratios) - 1) < 4 * stdev(ratios) / math.sqrt(len(ratios)), ratios
    assert mean(ratios) == pytest.approx(1, rel=0.25)


def test_a_load_that_has_gone_gives_its_functions_back() -> None:
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 0.5)
    assert Tier.BELOW not in server.attached
    server.rates[Tier.BELOW] = 500
    run(server, windows, 30)
    assert Tier.BELOW in server.counting
    server.rates[Tier.BELOW] = 30_000
    before = server.left.count(Tier.BELOW)
    run(server, windows, 10)
    assert server.left.count(Tier.BELOW) > before


def test_who_fits_the_budget_is_watched_all_the_time_after_a_burst() -> None:
    """Though it takes more than the half of the budget that windows aim at."""
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 0.5)
    assert Tier.DATA not in server.attached
    server.rates[Tier.DATA] = 5_500  # 1.1 %
    run(server, windows, 30)
    before = server.left.count(Tier.DATA)
    run(server, windows, 30)
    assert server.left.count(Tier.DATA) == before, "it stays so"
    assert server.counting == set(Tier)


def test_who_asks_in_vain_whether_functions_may_come_back_asks_less_and_less() -> None:
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 9_000, Tier.HANDSHAKE: 4_000})  # too much by one tenth
    windows = watch(server)
    run(server, windows, 400)
    windows.finish()
    assert share(server) <= 1.05 * BUDGET


def without_return(server: Server) -> Windows:
    windows = Windows(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1), again=False)
    begin(server, windows)
    return windows


def test_what_can_not_be_set_again_is_given_up_tier_by_tier() -> None:
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 20_000, Tier.HANDSHAKE: 200})
    windows = without_return(server)
    assert windows.gave_up
    run(server, windows, 60)
    windows.finish()
    assert server.left == [Tier.DATA, Tier.BELOW]
    assert server.counting == {Tier.HANDSHAKE}
    data, below = windows.sampling()
    assert data.windows == below.windows == 1
    assert data.watched_s < 0.2
    assert data.duration_s == pytest.approx(server.now_s - 1000)
    assert data.exact_share == pytest.approx(0.44, rel=0.1)
    assert below.exact_share == pytest.approx(0.04, rel=0.1)


def test_accounts_after_something_was_given_up() -> None:
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 100, Tier.HANDSHAKE: 200})
    windows = without_return(server)
    run(server, windows, 3)
    [first] = windows.sampling(anew=True)
    run(server, windows, 3)
    windows.finish()
    [later] = windows.sampling()
    assert first.duration_s + later.duration_s == pytest.approx(server.now_s - 1000)
    assert later.watched_s == 0


def test_what_costs_little_is_kept_where_it_can_not_be_set_again() -> None:
    server = Server({Tier.DATA: 5_000, Tier.BELOW: 500, Tier.HANDSHAKE: 500})
    windows = without_return(server)
    run(server, windows, 30)
    windows.finish()
    assert not windows.gave_up
    assert server.counted == server.calls
