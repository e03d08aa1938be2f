# SPDX-License-Identifier: Apache-2.0
"""Two recordings compared, in words: a verdict and the bounds beside it never contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from ssllatency.model.statistics.comparison import WALL, Change, Comparison, SubjectComparison, Verdict
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.html.change import part_verdicts
from ssllatency.reports.rows.changes import handshake_words
from ssllatency.reports.rows.compared import change_words

NOBODY: Any = None  # the headline reads neither total


def headline(low: float, high: float, verdict: Verdict, intervals: int = 5) -> str:
    change = Change(2e6, 2.4e6, 1.2, low, high, 0.03, verdict)
    return handshake_words(Comparison(NOBODY, NOBODY, (SubjectComparison(WALL, {Quantity.MEAN: change}),), (), intervals))


def test_bounds_that_leave_no_change_out_are_not_called_noise() -> None:
    assert headline(1.02, 1.4, Verdict.NOISE) == (
        "The mean successful handshake takes 2.00 ms before and 2.40 ms after (+20 %, 95 % confidence interval +2.0..+40 %):"
        " probably slower, but 5 intervals are too few to be sure among so many comparisons; record 10 or more."
    )
    assert "): probably faster, but 1 interval is too few" in headline(0.5, 0.98, Verdict.NOISE, 1)


@pytest.mark.parametrize("verdict", [Verdict.SLOWER, Verdict.UNKNOWN])
def test_other_verdicts_stand(verdict: Verdict) -> None:
    assert headline(1.02, 1.4, verdict).endswith(f"): {verdict}.")


def test_bounds_on_both_sides_are_noise() -> None:
    assert headline(0.9, 1.4, Verdict.NOISE).endswith("): no change beyond noise.")


@pytest.mark.parametrize(
    ("quantity", "low", "high", "word"),
    [
        (Quantity.MEAN, 1.02, 1.4, "slower?"),
        (Quantity.P99, 0.5, 0.98, "faster?"),
        (Quantity.RATE, 1.02, 1.4, "more?"),
        (Quantity.RATE, 0.5, 0.98, "fewer?"),
        (Quantity.MEAN, 0.9, 1.4, "noise"),
    ],
)
def test_a_cell_says_what_its_bounds_do(quantity: Quantity, low: float, high: float, word: str) -> None:
    assert change_words(quantity, Change(2e6, 2.4e6, 1.2, low, high, 0.03, Verdict.NOISE)) == f"+20 % {word}"


def test_so_does_a_cell_of_the_page() -> None:
    change = Change(2e6, 2.4e6, 1.2, 1.02, 1.4, 0.03, Verdict.NOISE)
    comparison = Comparison(NOBODY, NOBODY, (SubjectComparison(WALL, {Quantity.MEAN: change}),), (), 5)
    assert part_verdicts(comparison, WALL.outcome)["wall",] == ("+20 %", "probably slower (+2.0..+40 %)")
