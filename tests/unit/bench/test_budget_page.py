# SPDX-License-Identifier: Apache-2.0
"""The page about budgets, of runs whose figures are known; and the percentiles that it is held against."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.budget.own_counts import FUNCTIONS, OwnCounts, Times
from bench.budget.page import render
from bench.budget.runs import BudgetRun, Estimated
from bench.measuring.tracers import BenchError

GOOD = Estimated((1.001, 0.995, 1.007), (20_000, 0.0, 25_000), 15_000)
MISSED = Estimated((0.9, 0.85, 0.95), (20_000, 18_000, 25_000), 15_000)
UNTOLD = Estimated((1.0, None, None), (20_000, None, None), 15_000)


def page(*runs: BudgetRun) -> str:
    return render(runs, "- a machine", "2%", 20, 32)


def run(estimated: Estimated, kept: float = 0.98, *, exact: bool = True) -> BudgetRun:
    return BudgetRun(kept, kept, 0.01, 2.0, exact, dict.fromkeys(FUNCTIONS, estimated))


def test_what_held_is_counted_and_what_was_not_told_did_not() -> None:
    text = page(run(GOOD), run(MISSED, exact=False), run(UNTOLD), run(GOOD))
    assert "| requests kept | 98.0 % (98.0 % to 98.0 %) |" in text
    assert "| handshakes exact | 3 of 4 |" in text
    assert "| SSL_read: the number of calls held by its interval | 2 of 4 |" in text
    assert "| SSL_write: p99 held | 2 of 4 |" in text
    assert "| SSL_write: the estimate by the truth | 0.900 to 1.001 (widest interval 0.100) |" in text


def test_a_run_without_estimates_held_nothing() -> None:
    text = page(BudgetRun(1.0, 1.0, 0.01, 1.0, True, {}))
    assert "| SSL_read: estimated | 0 of 1 |" in text
    assert "| requests kept | 100.0 % |" in text


def test_a_percentile_is_that_of_its_bucket() -> None:
    buckets = [0] * 2560
    buckets[10 << 6], buckets[(12 << 6) + 32] = 98, 2
    assert Times(tuple(buckets)).quantile_ns(0.5) == pytest.approx(1024, rel=0.01)
    assert Times(tuple(buckets)).quantile_ns(0.99) == pytest.approx(4096 * 1.5, rel=0.01)
    with pytest.raises(BenchError, match="the server counted no calls"):
        Times((0,) * 2560).quantile_ns(0.5)


def test_before_the_server_has_run_nothing_is_counted(tmp_path: Path) -> None:
    assert OwnCounts(tmp_path).counted("SSL_read", 1.0, 2.0) == 0
