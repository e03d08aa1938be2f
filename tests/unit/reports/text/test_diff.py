# SPDX-License-Identifier: Apache-2.0
"""The headline of two recordings: its verdict and its bounds never contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from ssllatency.model.statistics.comparison import WHOLE, Change, Comparison, Row, Verdict
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.rows.changes import handshake_words

NOBODY: Any = None  # the headline reads neither total


def headline(low: float, high: float, verdict: Verdict, intervals: int = 5) -> str:
    change = Change(2e6, 2.4e6, 1.2, low, high, 0.03, verdict)
    return handshake_words(Comparison(NOBODY, NOBODY, (Row(WHOLE, {Quantity.MEAN: change}),), (), intervals))


def test_bounds_that_leave_no_change_out_are_not_called_noise() -> None:
    assert headline(1.02, 1.4, Verdict.NOISE) == (
        "The mean successful handshake takes 2.00 ms before and 2.40 ms after (+20 %, 95 % sure between +2.0..+40 %): probably"
        " slower, but 5 intervals are too few to be sure among so many comparisons; record 10 or more."
    )
    assert "): probably faster, but 1 interval is too few" in headline(0.5, 0.98, Verdict.NOISE, 1)


@pytest.mark.parametrize("verdict", [Verdict.SLOWER, Verdict.UNKNOWN])
def test_other_verdicts_stand(verdict: Verdict) -> None:
    assert headline(1.02, 1.4, verdict).endswith(f"): {verdict}.")


def test_bounds_on_both_sides_are_noise() -> None:
    assert headline(0.9, 1.4, Verdict.NOISE).endswith("): no change beyond noise.")
