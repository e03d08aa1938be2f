# SPDX-License-Identifier: Apache-2.0
"""What accounts of windows estimate, wherever they end, and what watching all would cost."""

from __future__ import annotations

import math
import random
from statistics import mean, stdev

import pytest
from tests.unit.engines.budget.server import (
    STEP_S,
    Server,
    begin,
    holds,
    run,
    watch,
)

from ssllatency.engines.budget.windows import Windows
from ssllatency.model.sampling import Stratum
from ssllatency.model.windows.estimates import estimates
from ssllatency.stacks.operation import Tier


@pytest.mark.slow
def test_estimates_hold_the_truth_though_the_load_changes() -> None:
    held = 0
    for seed in range(40):
        chance = random.Random(seed)
        server = Server({Tier.DATA: 60_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
        windows = watch(server, seed=seed)
        for _ in range(40):
            server.rates[Tier.DATA] = chance.uniform(20_000, 100_000)
            run(server, windows, chance.uniform(0.5, 2))
        windows.finish()
        [sampling] = windows.sampling()
        held += holds(sampling.estimates[0].count, server.calls[Tier.DATA])
    assert held >= 35


def test_calls_that_run_on_are_told_of_and_delay_nothing_for_long() -> None:
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, runs_on=True)
    windows = watch(server)
    run(server, windows, 20)
    windows.finish()
    [sampling] = windows.sampling()
    assert sampling.windows >= 3
    assert sampling.unfinished == sampling.windows + 1  # and when the first tier went into windows


@pytest.mark.parametrize("phase_s", [0.05, 0.4, 1.3, 2.7])
def test_a_run_may_end_at_any_time(phase_s: float) -> None:
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, phase_s)
    windows.finish()
    windows.finish()
    windows.tick()
    for sampling in windows.sampling():
        assert sampling.watched_s <= sampling.duration_s
        assert sampling.duration_s == pytest.approx(server.now_s - 1000, abs=0.35)


def test_an_account_of_its_own_for_each_interval() -> None:
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 10)
    assert windows.sampling(anew=True)
    counted = server.calls[Tier.DATA]
    [sampling] = windows.sampling()
    assert (sampling.functions, sampling.duration_s, sampling.estimates) == (("SSL_read",), 0, ())
    run(server, windows, 20)
    [sampling] = windows.sampling()
    assert sampling.estimates[0].count.value == pytest.approx(server.calls[Tier.DATA] - counted, rel=0.25)


@pytest.mark.parametrize("interval_s", [0.7, 1.0, 3.0])
@pytest.mark.parametrize("run_s", [1.1, 1.9, 3.3, 5.8, 12.4])
def test_the_accounts_of_a_run_leave_out_no_time(run_s: float, interval_s: float) -> None:
    """Wherever it ends, and though no window may lie between the last account and that."""
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    chain: list[Stratum] = []
    while (left_s := 1000 + run_s - server.now_s) > 1e-9:
        run(server, windows, min(interval_s, left_s))
        if server.now_s < 1000 + run_s:
            chain += [stratum for part in windows.sampling(anew=True) for own in part.chains for stratum in own]
    windows.finish()
    chain += [stratum for part in windows.sampling(anew=True) for own in part.chains for stratum in own]
    assert sum(stratum.length_s for stratum in chain) == pytest.approx(server.now_s - 1000, abs=0.01)
    [estimate] = estimates(chain)
    assert estimate.count.value == pytest.approx(server.calls[Tier.DATA], rel=0.03)


def test_what_watching_all_would_cost_is_told_of_one_that_is_not_traced_as_of_any() -> None:
    server = Server({Tier.DATA: 1_000, Tier.BELOW: 10, Tier.HANDSHAKE: 10}, other_rate=150_000)  # 30 %
    windows = watch(server, budget=0.1)
    run(server, windows, 20)
    [sampling] = windows.sampling()
    assert sampling.exact_share == pytest.approx(0.3, rel=0.2)


def test_it_is_told_what_watching_all_would_cost() -> None:
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 1_000, Tier.HANDSHAKE: 200})  # 40 %, and a little
    windows = watch(server)
    run(server, windows, 20)
    [sampling] = windows.sampling()
    assert sampling.exact_share == pytest.approx(0.4, rel=0.2)


class Uneven(Server):
    """It has now more and now less to do."""

    def sleep(self, seconds: float) -> None:
        usual, left_s = self.rates, seconds
        while left_s > 1e-9:
            step_s = min(left_s, 10 * STEP_S)
            many = 1 + 0.6 * math.sin(4 * math.pi * self.now_s)
            self.rates = {tier: many * rate for tier, rate in usual.items()}
            super().sleep(step_s)
            left_s -= step_s
        self.rates = usual


def test_what_watching_all_would_cost_is_no_guess_where_little_is_watched() -> None:
    """What is paid beside windows, and differs from one second to the next, isn't taken for theirs."""
    told = []
    for seed in range(20):
        server = Uneven({Tier.DATA: 0, Tier.BELOW: 40_000, Tier.HANDSHAKE: 24_000})  # 8 and 4.8 %
        chance = random.Random(seed)
        windows = Windows(0.05, server, server.spent, server.totals, server.clock, server.sleep, chance, tiers=(Tier.BELOW,))
        begin(server, windows)
        run(server, windows, 14)
        [sampling] = windows.sampling()
        assert sampling.exact_share
        told.append(sampling.exact_share)
    assert mean(told) == pytest.approx(0.128, rel=0.15)
    assert stdev(told) < 0.04
