# SPDX-License-Identifier: Apache-2.0
"""The benchmark's intervals: against textbook values, and whether they hold what they should as often as they should."""

from __future__ import annotations

import math
from random import Random

import pytest

from bench.measuring.intervals import Interval, Pair, is_told, of_added, of_mean, of_quotient, of_ratio

DRAWS = 1500


def noisy(random: Random, value: float, noise: float, count: int) -> list[float]:
    return [value * math.exp(random.gauss(0, noise)) for _ in range(count)]


def pairs(random: Random, ratio: float, *, noise: float = 0.02, count: int = 8) -> list[Pair]:
    """A machine that drifts by a factor of two between the pairs, and has noise within them."""
    drift = [random.uniform(1000, 2000) for _ in range(count)]
    return [Pair(noisy(random, cost, noise, 1)[0], noisy(random, cost * ratio, noise, 1)[0]) for cost in drift]


def test_a_mean_has_students_interval() -> None:
    # Mean 3, standard deviation 1.5811, t(0.975; 4) 2.776.
    assert of_mean([1, 2, 3, 4, 5]).low == pytest.approx(3 - 2.776 * 1.5811 / math.sqrt(5), abs=1e-3)
    assert of_mean([1, 2, 3, 4, 5]).high == pytest.approx(3 + 2.776 * 1.5811 / math.sqrt(5), abs=1e-3)


def test_a_ratio_is_taken_within_pairs() -> None:
    ratio = of_ratio([Pair(100, 200), Pair(1000, 2000), Pair(10, 20)])
    assert (ratio.middle, ratio.low, ratio.high) == pytest.approx((2, 2, 2))


def test_what_is_added_follows_from_the_ratio() -> None:
    drifting = pairs(Random(1), 1.5)
    added, ratio = of_added(drifting), of_ratio(drifting)
    without = sum(pair.without for pair in drifting) / len(drifting)
    assert added.middle == pytest.approx(without * (ratio.middle - 1))
    assert added.low < added.middle < added.high


def test_the_same_is_told_from_itself_as_seldom_as_the_interval_says() -> None:
    random = Random(2)
    told = sum(is_told(pairs(random, 1.0)) for _ in range(DRAWS)) / DRAWS
    assert 0.03 < told < 0.07


def test_more_is_told_from_less() -> None:
    random = Random(3)
    assert all(is_told(pairs(random, 1.5)) for _ in range(50))
    assert not is_told([Pair(100, 90), Pair(100, 111)])


@pytest.mark.parametrize(("above", "below"), [(300.0, 200.0), (50.0, 400.0), (0.0, 100.0)])
def test_a_quotient_is_held_as_often_as_the_interval_says(above: float, below: float) -> None:
    random, held = Random(4), 0
    for _ in range(DRAWS):
        common = [random.gauss(0, 10) for _ in range(8)]  # both are measured against the same
        quotient = of_quotient(
            [above + shared + random.gauss(0, 20) for shared in common],
            [below + shared + random.gauss(0, 20) for shared in common],
        )
        assert quotient
        held += quotient.holds(above / below)
    assert 0.93 < held / DRAWS < 0.97


def test_nothing_is_divided_by_what_may_be_nothing() -> None:
    assert of_quotient([100, 101, 99], [5, -4, 1]) is None
    assert of_quotient([100, 101, 99], [50, 50, 50]) is not None


def test_the_half_width_is_a_part_of_the_estimate() -> None:
    assert Interval(2.0, 1.9, 2.1).half_width == pytest.approx(0.05)
    assert Interval(2.0, 1.9, 2.1).holds(1.9)
    assert not Interval(2.0, 1.9, 2.1).holds(2.2)


def test_the_part_of_a_cost_that_was_added() -> None:
    assert Pair(75, 100).share == 0.25
    assert Pair(75, 100).added == 25
