# SPDX-License-Identifier: Apache-2.0
"""What tracing has cost: shares, differences and sums."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.model.cost import CoreCost, PayingProcess, ProcessCost, TracingCost, difference, merge

EARLIER = TracingCost(
    10, 5_000, 1_000, 100_000, 4, 2_000, 50, (ProcessCost(7, 10, 5_000, 1_000, 100_000),), (CoreCost(0, 6_000),)
)
LATER = TracingCost(
    30,
    15_000,
    4_000,
    500_000,
    9,
    4_500,
    60,
    (ProcessCost(7, 25, 12_500, 3_500, 400_000), ProcessCost(8, 5, 2_500, 500, None)),
    (CoreCost(0, 16_000), CoreCost(1, 3_000)),
)


def test_the_share_is_all_that_was_paid_of_the_processor_time() -> None:
    assert LATER.total_ns == 19_000
    assert LATER.share == 19_000 / 500_000


def test_without_the_programs_run_time_the_share_is_what_is_known_at_least() -> None:
    assert replace(LATER, run_ns=None).share == 15_000 / 500_000


def test_no_share_of_a_time_that_is_not_known_or_nothing() -> None:
    assert replace(LATER, cpu_ns=None).share is None
    assert replace(LATER, cpu_ns=0).share is None


def test_a_difference_is_what_was_paid_in_between() -> None:
    assert difference(LATER, EARLIER) == TracingCost(
        20,
        10_000,
        3_000,
        400_000,
        5,
        2_500,
        10,
        (ProcessCost(7, 15, 7_500, 2_500, 300_000), ProcessCost(8, 5, 2_500, 500, None)),
        (CoreCost(0, 10_000), CoreCost(1, 3_000)),
    )


def test_a_sampled_figure_that_has_fallen_is_none_and_not_less() -> None:
    later = difference(replace(LATER, run_ns=900), EARLIER)
    assert later is not None
    assert later.run_ns == 0


def test_a_difference_with_something_unknown_is_unknown() -> None:
    assert difference(None, EARLIER) is None
    assert difference(LATER, None) == LATER  # nothing had been paid
    later = difference(LATER, replace(EARLIER, cpu_ns=None))
    assert later is not None
    assert later.cpu_ns is None
    later = difference(replace(LATER, run_ns=None), EARLIER)
    assert later is not None
    assert later.run_ns is None


def test_run_time_that_was_not_known_at_first_is_that_of_the_hits_since() -> None:
    """As in a recording, whose first reading comes before anything was measured."""
    later = difference(LATER, replace(EARLIER, run_ns=None))
    assert later is not None
    assert later.run_ns == round(4_000 * (30 - 10) / 30)


def test_a_sum_on_one_host_keeps_processes_and_processors() -> None:
    assert merge([EARLIER, LATER], one_host=True) == TracingCost(
        40,
        20_000,
        5_000,
        600_000,
        13,
        6_500,
        110,
        (ProcessCost(7, 35, 17_500, 4_500, 500_000), ProcessCost(8, 5, 2_500, 500, None)),
        (CoreCost(0, 22_000), CoreCost(1, 3_000)),
    )


def test_others_who_pay_are_each_told_once_and_on_one_host_only() -> None:
    one, two = PayingProcess(300, "curl"), PayingProcess(301, "wget")
    costs = [replace(EARLIER, others=(one,)), replace(LATER, others=(one, two))]
    assert difference(costs[1], costs[0]) == replace(difference(LATER, EARLIER) or LATER, others=(one, two))
    assert [cost.others for one_host in (True, False) if (cost := merge(costs, one_host=one_host))] == [(one, two), ()]


def test_a_sum_over_hosts_has_only_totals() -> None:
    assert merge([EARLIER, LATER], one_host=False) == TracingCost(40, 20_000, 5_000, 600_000, 13, 6_500, 110)


def test_a_sum_of_which_a_part_is_unknown_is_unknown() -> None:
    assert merge([EARLIER, None], one_host=True) is None
    added = merge([EARLIER, replace(LATER, cpu_ns=None)], one_host=True)
    assert added is not None
    assert added.cpu_ns is None
    assert added.hits == 40
