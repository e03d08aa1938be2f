# SPDX-License-Identifier: Apache-2.0
"""Windows on a server whose every call is known, in simulated time: what is spent, what is watched, what is estimated."""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from statistics import mean, stdev

import pytest
from tests.parameters import slow_except

from ssllatency.engines.budget.spending import OTHERS_BUDGET
from ssllatency.engines.budget.windows import Windows
from ssllatency.engines.cost.spent import Payment, Spent
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.sampling import Function, Interval, Stratum
from ssllatency.model.snapshot import Outcome
from ssllatency.model.windows.estimates import estimates
from ssllatency.stacks.operation import Tier

NAMES = {Tier.DATA: "SSL_read", Tier.BELOW: "rsa_ossl_private_encrypt", Tier.HANDSHAKE: "SSL_do_handshake"}
POLL_S, LEAST_POLL_S, STEP_S = 0.2, 0.01, 0.001  # as tracing/live.py polls
BUDGET = 0.02
TOOK_NS = 5_000


@dataclass
class Server:
    """One processor's work: so many calls a second of each tier, each of which pays 2 us while its probes are set."""

    rates: dict[Tier, float]
    hit_ns: float = 2_000
    setting_s: float = 0.003
    removing_s: float = 0.06
    now_s: float = 1000.0
    poll_s: float = 1000.0
    attached: set[Tier] = field(default_factory=lambda: set(Tier))
    counting: set[Tier] = field(default_factory=lambda: set(Tier))
    calls: dict[Tier, float] = field(default_factory=lambda: dict.fromkeys(Tier, 0.0))
    counted: dict[Tier, float] = field(default_factory=lambda: dict.fromkeys(Tier, 0.0))
    cost_ns: float = 0.0
    other_rate: float = 0.0  # calls a second of a process that isn't traced and hits the probes of reads and writes
    others_ns: float = 0.0
    others_worked_s: float = 0.0
    others_runs_on: bool = False  # and does other work where it calls nothing
    busy: bool = True
    rests: bool = False
    worked_s: float = 0.0
    runs_on: bool = False
    knows_cost: bool = True
    left: list[Tier] = field(default_factory=list)

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.rests:
            return
        self.worked_s += seconds
        self.others_worked_s += seconds if self.other_rate or self.others_runs_on else 0
        if Tier.DATA in self.attached:
            self.others_ns += self.other_rate * seconds * self.hit_ns
        for tier, rate in self.rates.items():
            self.calls[tier] += rate * seconds
            if tier in self.attached:
                self.cost_ns += rate * seconds * self.hit_ns
            if tier in self.counting:
                self.counted[tier] += rate * seconds

    def spent(self) -> Spent | None:
        cpu_ns = self.worked_s * 1e9 if self.busy else 0
        others = {0: Payment(round(self.others_ns), round(self.others_worked_s * 1e9), traced=False)} if self.others_ns else {}
        return Spent(round(self.cost_ns), round(cpu_ns), self.now_s, others) if self.knows_cost else None

    def totals(self) -> dict[Function, ExponentialHistogram]:
        return {
            (NAMES[tier], Outcome.SUCCESS): ExponentialHistogram((round(count),), -200)
            for tier, count in self.counted.items()
            if round(count)
        }

    def set_probes(self, tiers: Collection[Tier]) -> None:
        assert not self.attached & set(tiers)
        self.sleep(self.setting_s)
        self.attached |= set(tiers)

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        assert set(tiers) <= self.attached
        self.counting |= set(tiers)

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        assert set(tiers) <= self.attached
        self.counting -= set(tiers)

    def drop_entries(self, tiers: Collection[Tier]) -> None:
        assert not self.counting & set(tiers)
        self.sleep(0.001)

    def finish(self, tier: Tier) -> int:
        assert tier not in self.counting
        self.attached.discard(tier)
        self.left.append(tier)
        self.sleep(self.removing_s)
        return 1 if self.runs_on else 0

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        assert tiers
        return not self.runs_on


def watch(server: Server, budget: float = BUDGET, seed: int = 1) -> Windows:
    windows = Windows(budget, server, server.spent, server.totals, server.clock, server.sleep, random.Random(seed))
    windows.start()
    return windows


def run(server: Server, windows: Windows, seconds: float) -> None:
    until_s = server.now_s + seconds
    while server.now_s < until_s - 1e-9:
        server.sleep(STEP_S)
        if server.now_s >= server.poll_s - 1e-9:
            windows.tick()
            server.poll_s = server.now_s + min(POLL_S, max(LEAST_POLL_S, windows.due_s - server.now_s))


def share(server: Server) -> float:
    return server.cost_ns / ((server.now_s - 1000) * 1e9)


def holds(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low - 1 <= truth <= interval.high + 1


def test_what_costs_little_is_watched_all_the_time() -> None:
    server = Server({Tier.DATA: 5_000, Tier.BELOW: 500, Tier.HANDSHAKE: 500})  # 1.2 %
    windows = watch(server)
    run(server, windows, 30)
    windows.finish()
    assert server.counting == set(Tier)
    assert server.counted == server.calls
    assert windows.sampling() == ()


@pytest.mark.parametrize("rate", [15_000, 50_000, 200_000], ids=["3 %", "10 %", "40 %"])
@pytest.mark.parametrize("setting_s", [0.002, 0.02])
def test_the_budget_is_kept_and_the_rest_is_estimated(rate: int, setting_s: float) -> None:
    server = Server({Tier.DATA: rate, Tier.BELOW: 1_000, Tier.HANDSHAKE: 200}, setting_s=setting_s)
    windows = watch(server)
    run(server, windows, 60)
    windows.finish()
    assert 0.3 * BUDGET < share(server) <= 1.05 * BUDGET
    assert server.counted[Tier.HANDSHAKE] == server.calls[Tier.HANDSHAKE]
    assert server.counted[Tier.BELOW] == server.calls[Tier.BELOW]
    [sampling] = windows.sampling()
    assert sampling.functions == ("SSL_read",)
    assert sampling.duration_s == pytest.approx(server.now_s - 1000, abs=0.3)
    assert sampling.watched_s == pytest.approx(server.counted[Tier.DATA] / rate, rel=0.01)
    [estimate] = sampling.estimates
    assert estimate.count.value == pytest.approx(server.calls[Tier.DATA], rel=0.02)


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


@pytest.mark.parametrize("hits", [0, 20_000])
def test_others_work_where_they_hit_probes_and_not_where_they_only_run(hits: int) -> None:
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, busy=False, other_rate=100_000)
    windows = watch(server)
    run(server, windows, 10)
    assert windows.due_s < math.inf
    server.other_rate = hits
    server.others_runs_on = True
    run(server, windows, 5)
    assert windows.rests is (hits == 0)


@pytest.mark.parametrize("times_s", slow_except([(0.7, 0.1), (2.1, 0.4), (5.0, 0.3), (15.0, 0.3)], (15.0, 0.3)))
def test_who_works_for_a_moment_now_and_then_is_seen_as_often_as_others(times_s: tuple[float, float]) -> None:
    rests_s, works_s = times_s
    ratios = []
    for seed in range(12):
        server = Server({Tier.DATA: 20_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
        windows = watch(server, seed=seed)
        run(server, windows, 5)
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


def test_a_load_at_the_border_does_not_flap() -> None:
    server = Server({Tier.DATA: 10_500, Tier.BELOW: 0, Tier.HANDSHAKE: 0})  # 2.1 %
    windows = watch(server)
    run(server, windows, 60)
    assert server.attached != set(Tier) or server.counting != set(Tier) or server.left.count(Tier.DATA) < 90
    assert share(server) <= 1.05 * BUDGET


def test_what_is_below_handshakes_goes_next_and_handshakes_last() -> None:
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 4_000})
    windows = watch(server)
    run(server, windows, 60)
    windows.finish()
    assert server.counted[Tier.HANDSHAKE] == server.calls[Tier.HANDSHAKE]
    assert server.counted[Tier.BELOW] < server.calls[Tier.BELOW] / 2
    assert share(server) <= 1.1 * BUDGET
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 40_000})
    windows = watch(server)
    run(server, windows, 120)
    windows.finish()
    assert server.counted[Tier.HANDSHAKE] < server.calls[Tier.HANDSHAKE] / 2
    assert share(server) <= 1.15 * BUDGET
    assert len(windows.sampling()) == 3


def test_all_that_has_to_go_goes_at_once() -> None:
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 4_000})
    windows = watch(server)
    run(server, windows, 0.1)
    assert server.attached == {Tier.HANDSHAKE}
    run(server, windows, 9.9)
    windows.finish()
    assert share(server) <= 1.2 * BUDGET
    assert all(sampling.windows >= 1 for sampling in windows.sampling())


def test_what_others_take_leaves_windows_a_part() -> None:
    """Whoever traces for some seconds learns of what is in windows, too, though all the rest takes as much as the aim."""
    server = Server({Tier.DATA: 0, Tier.BELOW: 50_000, Tier.HANDSHAKE: 9_000})
    windows = watch(server)
    run(server, windows, 20)
    windows.finish()
    below = windows.by_tier()[Tier.BELOW]
    assert below.windows >= 2
    assert share(server) <= 1.3 * BUDGET


@pytest.mark.parametrize("seed", range(8))
def test_the_first_window_comes_soon(seed: int) -> None:
    """Whatever a run of seconds would have to wait for by its budget alone, and all that pay for it later keep that budget."""
    server = Server({Tier.DATA: 0, Tier.BELOW: 150_000, Tier.HANDSHAKE: 9_000})
    windows = watch(server, seed=seed)
    run(server, windows, 2.5)
    assert windows.by_tier()[Tier.BELOW].windows == 1
    run(server, windows, 60)
    windows.finish()
    assert share(server) <= 1.2 * BUDGET


def test_a_load_that_has_gone_gives_its_functions_back() -> None:
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 1)
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
    server.rates[Tier.DATA] = 7_000  # 1.4 %
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
    while (left_s := 1000 + run_s - server.now_s) > 0:
        run(server, windows, min(interval_s, left_s))
        if server.now_s < 1000 + run_s:
            chain += [stratum for part in windows.sampling(anew=True) for own in part.chains for stratum in own]
    windows.finish()
    chain += [stratum for part in windows.sampling(anew=True) for own in part.chains for stratum in own]
    assert sum(stratum.length_s for stratum in chain) == pytest.approx(server.now_s - 1000, abs=0.01)
    [estimate] = estimates(chain)
    assert estimate.count.value == pytest.approx(server.calls[Tier.DATA], rel=0.03)


def test_where_the_cost_is_not_known_nothing_goes_into_windows() -> None:
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, knows_cost=False)
    windows = watch(server)
    run(server, windows, 5)
    assert server.counting == set(Tier)


def test_nothing_is_looked_at_while_no_probe_is_hit() -> None:
    server = Server({Tier.DATA: 500_000})
    asked: list[float] = []

    def spent() -> Spent | None:
        asked.append(server.now_s)
        return server.spent()

    def spent_unhit() -> Spent | None:
        return Spent(0, 10**9) if server.now_s < 1005 else None

    windows = Windows(
        BUDGET, server, spent, server.totals, server.clock, server.sleep, random.Random(1), spent_unhit=spent_unhit
    )
    run(server, windows, 4.9)
    assert not asked
    assert windows.rests
    run(server, windows, 5)
    assert asked
    assert windows.due_s < math.inf
    assert not windows.rests


def test_another_process_that_pays_is_spared_as_well() -> None:
    """Though the traced one could be watched all the time."""
    server = Server({Tier.DATA: 1_000, Tier.BELOW: 10, Tier.HANDSHAKE: 10}, other_rate=150_000)
    windows = watch(server)
    run(server, windows, 60)
    windows.finish()
    assert 0.3 * BUDGET < server.others_ns / 60e9 <= 1.05 * BUDGET
    [sampling] = windows.sampling()
    assert sampling.watched_s < sampling.duration_s / 5


def test_a_process_that_is_not_traced_has_a_smaller_budget_of_its_own() -> None:
    server = Server({Tier.DATA: 150_000, Tier.BELOW: 10, Tier.HANDSHAKE: 10}, other_rate=150_000)
    windows = watch(server, budget=0.1)
    run(server, windows, 60)
    assert 0.3 * OTHERS_BUDGET < server.others_ns / 60e9 <= OTHERS_BUDGET
    server = Server({Tier.DATA: 150_000, Tier.BELOW: 10, Tier.HANDSHAKE: 10}, other_rate=10_000)
    run(server, watch(server, budget=0.1), 60)
    assert share(server) > OTHERS_BUDGET  # as he does who is traced, where others pay little


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
        windows.start()
        run(server, windows, 14)
        [sampling] = windows.sampling()
        assert sampling.exact_share
        told.append(sampling.exact_share)
    assert mean(told) == pytest.approx(0.128, rel=0.15)
    assert stdev(told) < 0.04


def test_what_is_held_back_is_watched_from_the_start_on() -> None:
    server = Server({Tier.DATA: 5_000, Tier.BELOW: 500, Tier.HANDSHAKE: 500})
    server.attached.discard(Tier.DATA)
    server.counting.discard(Tier.DATA)
    windows = Windows(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1))
    server.sleep(1)
    windows.start([Tier.DATA])
    run(server, windows, 30)
    windows.finish()
    assert server.counting == set(Tier)
    assert windows.sampling() == ()


def test_what_is_held_back_costs_only_a_moment_at_full_speed() -> None:
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    server.attached.discard(Tier.DATA)
    server.counting.discard(Tier.DATA)
    windows = Windows(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1))
    windows.start([Tier.DATA])
    assert Tier.DATA not in server.attached
    assert server.cost_ns < 0.4 * 0.04e9  # of less than 40 ms


def without_return(server: Server) -> Windows:
    windows = Windows(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1), again=False)
    windows.start()
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


def test_what_comes_later_is_looked_at_soon() -> None:
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 0.3)
    server.rates[Tier.DATA] = 200_000
    windows.look_soon()
    server.sleep(0.05)
    windows.tick()
    assert Tier.DATA not in server.attached


def test_a_load_that_comes_at_once_is_seen_at_the_next_tick() -> None:
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0})

    def spent_unhit() -> Spent | None:
        return None if server.rates[Tier.DATA] else server.spent()

    windows = Windows(
        BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1), spent_unhit=spent_unhit
    )
    windows.start()
    run(server, windows, 5)
    server.rates[Tier.DATA] = 200_000
    server.sleep(0.01)
    windows.tick()
    assert Tier.DATA not in server.attached
    assert server.cost_ns < 0.4 * 0.06e9


def test_a_burst_that_has_ended_when_it_is_seen_is_counted() -> None:
    """Nothing else would ever be seen of one who works for less than a look takes, again and again."""
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    seen = server.spent()

    def spent() -> Spent:
        nonlocal seen
        seen = server.spent()
        return seen

    def spent_unhit() -> Spent | None:
        now = server.spent()
        return replace(now, cpu_ns=seen.cpu_ns) if now.cost_ns == seen.cost_ns else None

    windows = Windows(
        BUDGET, server, spent, server.totals, server.clock, server.sleep, random.Random(1), spent_unhit=spent_unhit
    )
    server.busy = False
    windows.start()
    run(server, windows, 5)
    server.busy, server.worked_s = True, 0.0
    server.rates[Tier.DATA] = 200_000
    server.sleep(0.01)
    server.rates[Tier.DATA] = 0
    windows.tick()
    assert Tier.DATA not in server.attached
