# SPDX-License-Identifier: Apache-2.0
"""Estimates from windows: exact where all was watched, unbiased, and with intervals that hold the truth, on loads whose every
call is known: steady ones, bursts, drift, and calls far longer than a window."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from tests.parameters import slow_except

from ssllatency.model.histogram import ExponentialHistogram, bucket_bounds, counted_bucket
from ssllatency.model.sampling import Estimate, Interval, Stratum
from ssllatency.model.snapshot import Outcome
from ssllatency.model.windows.estimates import estimates, fewer

KEY = ("SSL_read", Outcome.SUCCESS)
LENGTH_S, STRATA, RUNS = 1.0, 40, 100


@dataclass(frozen=True)
class Call:
    at_s: float
    took_ns: int


Load = Callable[[random.Random], list[Call]]


def arrivals(chance: random.Random, rate: Callable[[float], float], most: float) -> list[float]:
    """The times of a Poisson process whose rate changes, by thinning one of the highest rate."""
    at_s, times = 0.0, []
    while (at_s := at_s + chance.expovariate(most)) < STRATA * LENGTH_S:
        if chance.random() * most < rate(at_s):
            times.append(at_s)
    return times


def usual_ns(chance: random.Random) -> int:
    return round(chance.lognormvariate(9, 0.5))


def steady(chance: random.Random) -> list[Call]:
    return [Call(at_s, usual_ns(chance)) for at_s in arrivals(chance, lambda _: 150, 150)]


def bursts(chance: random.Random) -> list[Call]:
    """Every few seconds ten times as many, and slower, for half a second or so."""
    starts = sorted(chance.uniform(0, STRATA * LENGTH_S) for _ in range(12))

    def in_burst(at_s: float) -> bool:
        before = bisect_left(starts, at_s)
        return before > 0 and at_s < starts[before - 1] + 0.6

    times = arrivals(chance, lambda at_s: 400 if in_burst(at_s) else 40, 400)
    return [Call(at_s, usual_ns(chance) * (3 if in_burst(at_s) else 1)) for at_s in times]


def drift(chance: random.Random) -> list[Call]:
    """From few to many, and slower and slower."""
    times = arrivals(chance, lambda at_s: 20 + 5 * at_s, 320)
    return [Call(at_s, round(usual_ns(chance) * (1 + at_s / 30))) for at_s in times]


def long_calls(chance: random.Random) -> list[Call]:
    """One in twenty takes seconds, which is many times as long as a window."""
    times = arrivals(chance, lambda _: 150, 150)
    return [Call(at_s, usual_ns(chance) if chance.random() < 0.95 else round(chance.uniform(0.5e9, 5e9))) for at_s in times]


LOADS: Sequence[Load] = (steady, bursts, drift, long_calls)


def watched(calls: Sequence[Call], chance: random.Random, part: float) -> list[Stratum]:
    """What is seen of the calls that begin in windows; each is followed to its end."""
    strata = []
    times = [call.at_s for call in calls]
    for begins_s, ends_s in pairwise(LENGTH_S * number for number in range(STRATA + 1)):
        opens_s = chance.uniform(begins_s, ends_s - part * LENGTH_S)
        first, last = (bisect_left(times, at_s) for at_s in (opens_s, opens_s + part * LENGTH_S))
        seen = [call.took_ns for call in calls[first:last]]
        strata.append(Stratum(LENGTH_S, part * LENGTH_S, {KEY: ExponentialHistogram.from_values(seen).by_bucket}))
    return strata


def estimate(strata: Sequence[Stratum]) -> Estimate:
    [only] = estimates(strata)
    return only


def holds(interval: Interval | None, truth: float) -> bool:
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= truth <= interval.high


def true_p99_ns(calls: Sequence[Call]) -> float:
    return sorted(call.took_ns for call in calls)[int(0.99 * len(calls))]


@pytest.mark.parametrize("load", slow_except(LOADS, drift))
def test_intervals_hold_the_truth(load: Load) -> None:
    counts, percentiles, relative = 0, 0, 0.0
    for run in range(RUNS):
        chance = random.Random(f"{load.__name__} {run}")
        calls = load(chance)
        found = estimate(watched(calls, chance, 0.1))
        counts += holds(found.count, len(calls))
        percentiles += holds(found.p99_ns, true_p99_ns(calls))
        relative += found.count.value / len(calls) / RUNS
    assert counts >= 90
    assert percentiles >= 90
    assert relative == pytest.approx(1, abs=0.03)


def test_what_was_watched_all_the_time_is_exact() -> None:
    strata = [Stratum(2.0, 2.0, {KEY: {-100: 5, 30: 1}}), Stratum(1.0, 1.0, {KEY: {-100: 4}})]
    found = estimate(strata)
    assert found.count == Interval(10, 10, 10)
    assert found.p99_ns == Interval(pytest.approx(sum(bucket_bounds(30)) / 2, rel=0.01), *bucket_bounds(30))


def test_few_windows_give_no_interval() -> None:
    found = estimate([Stratum(1.0, 0.5, {KEY: {100: 5}}) for _ in range(3)])
    assert found.count == Interval(30, None, None)
    assert found.p99_ns is not None
    assert found.p99_ns.low is None


def test_a_time_without_calls_counts_as_such() -> None:
    strata = [Stratum(1.0, 0.1, {KEY: {100: 7}} if number % 2 else {}) for number in range(40)]
    assert estimate(strata).count.value == pytest.approx(20 * 70)


def test_parts_of_the_time_that_were_watched_closely_weigh_no_more() -> None:
    """1,000 calls a second for 10 s watched wholly, 10 a second for 10 s in windows of a tenth."""
    closely = [Stratum(1.0, 1.0, {KEY: {300: 1000}})] * 10
    hardly = [Stratum(1.0, 0.1, {KEY: {100: 1}})] * 10
    found = estimate([*closely, *hardly])
    assert found.count == Interval(pytest.approx(10_100), pytest.approx(10_100), pytest.approx(10_100))


def test_neighbours_joined_give_the_same_totals() -> None:
    chance = random.Random(7)
    strata = [
        Stratum(chance.uniform(1, 3), chance.uniform(0.05, 0.9), {KEY: {chance.randrange(100, 500): chance.randrange(50)}})
        for _ in range(31)
    ]
    joined = fewer(strata)
    assert len(joined) == 16
    before, after = estimate(strata), estimate(joined)
    assert after.count.value == pytest.approx(before.count.value)
    assert after.p99_ns is not None
    assert before.p99_ns is not None
    assert after.p99_ns.value == before.p99_ns.value


def test_each_function_and_outcome_has_its_own() -> None:
    retry = ("SSL_read", Outcome.RETRY)
    strata = [Stratum(1.0, 1.0, {KEY: {-100: 1}, retry: {counted_bucket(1): 3}})]
    assert [(found.function, found.outcome, found.count.value) for found in estimates(strata)] == [
        ("SSL_read", Outcome.RETRY, 3),
        ("SSL_read", Outcome.SUCCESS, 1),
    ]
    assert estimates([Stratum(1.0, 0.5)]) == ()
