# SPDX-License-Identifier: Apache-2.0
"""How much dearer hits are in a server than they were measured at, by its CPU time for each system call."""

from __future__ import annotations

import pytest

from ssllatency.engines.budget.overhead_factor import OverheadFactor
from ssllatency.model.sampling import Work

BETWEEN = Work(10e6, 100e9, 0.0)  # 10 us a system call


def factor(*windows: Work, between: Work = BETWEEN) -> float:
    heard = OverheadFactor()
    for watched in windows:
        heard.heard(between, watched)
    return heard.factor


def test_the_excess_is_what_hits_take() -> None:
    """20 us a system call, of which 4 are known to be tracing's: it took 10, less the margin."""
    assert factor(Work(1e6, 16e9, 4e9)) == pytest.approx(2.5, rel=0.05)


def test_few_system_calls_tell_little() -> None:
    """Of a hundred, twice their usual time is as likely chance."""
    assert factor(Work(100, 1.6e6, 0.4e6)) == pytest.approx(1.14, abs=0.01)


def test_hits_are_not_cheaper_than_measured() -> None:
    assert factor(Work(1e6, 8e9, 4e9)) == 1.0


def test_what_is_out_of_all_proportion_is_bounded() -> None:
    assert factor(Work(1e6, 900e9, 4e9)) == 4.0


@pytest.mark.parametrize("between", [Work(), Work(0.0, 100e6, 0.0), Work(10_000, None, None)])
def test_without_system_calls_nothing_is_known(between: Work) -> None:
    assert factor(Work(1e6, 16e9, 4e9), between=between) == 1.0


def test_what_was_long_ago_counts_little() -> None:
    assert factor(*[Work(1e6, 16e9, 4e9)] * 5, *[Work(1e6, 6.5e9, 4e9)] * 60) == 1.0


def test_caution_is_what_is_usual_until_the_factor_is_known() -> None:
    unknown = OverheadFactor()
    assert (unknown.factor, unknown.caution) == (1.0, 1.4)
    for _ in range(5):
        unknown.heard(BETWEEN, Work(1e6, 16e9, 4e9))
    assert unknown.caution == pytest.approx(1.0, abs=0.01)
