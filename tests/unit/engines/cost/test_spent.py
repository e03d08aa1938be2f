# SPDX-License-Identifier: Apache-2.0
"""What was paid up to a moment: each hit at its own price."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ssllatency.engines.cost.spent import Paid, Spent


def counted(now: Spent, before: Spent) -> float | None:
    share = now.share_since(before)
    return share.counted if share else None


def test_a_new_price_changes_nothing_of_what_was_paid() -> None:
    paid = Paid()
    paid.count([10, 5], lambda counts: sum(counts) * 100)
    paid.count([10, 5], lambda counts: sum(counts) * 200)
    assert paid.total_ns == 1500
    paid.count([12, 5], lambda counts: sum(counts) * 200)
    assert paid.total_ns == 1900


def test_what_comes_is_priced_by_kind() -> None:
    asked: list[Sequence[int]] = []

    def price_ns(counts: Sequence[int]) -> int:
        asked.append(list(counts))
        return counts[0] + 1000 * counts[1]

    paid = Paid()
    paid.count([3, 0], price_ns)
    paid.count([3, 2], price_ns)
    assert asked == [[3, 0], [0, 2]]
    assert paid.total_ns == 2003


def test_counts_that_fall_give_nothing_back() -> None:
    paid = Paid()
    paid.count([10], lambda counts: counts[0])
    paid.count([4], lambda counts: counts[0])
    assert paid.total_ns == 10


def test_processes_that_did_nothing_have_no_share() -> None:
    assert counted(Spent(10, 5), Spent(0, 5)) is None
    assert counted(Spent(10, 105), Spent(0, 5)) == pytest.approx(0.1)


def test_a_few_handshakes_at_once_are_no_load() -> None:
    """Ten in 30 ms, each of which paid 50 us: a server that does nothing else has time to spare."""
    before, burst = Spent(0, 0, 1.0), Spent(500_000, 6_000_000, 1.03)
    assert counted(burst, before) == pytest.approx(0.02)
    assert counted(Spent(500_000, 30_000_000, 1.03), before) == pytest.approx(1 / 60)  # at full speed it is what it is
    assert counted(Spent(500_000, 6_000_000, 3.0), before) == pytest.approx(0.0025)
