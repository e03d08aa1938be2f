# SPDX-License-Identifier: Apache-2.0
"""What a trace states of its own cost, read from its document and judged by what was measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.measuring import stated
from bench.measuring.rounds import COST, Visit
from bench.measuring.stated import PER_CALL, SHARE, StatedCost, stated_cost
from ssllatency.model.cost import TracingCost
from ssllatency.reports.documents.cost import cost_fields

COSTS = (1000.0, 1010.0, 990.0, 1005.0, 995.0)  # without a tracer


def visits(quantity: str, *values: float, traced: float = 2000.0) -> list[Visit]:
    """The tracer stated each of the values in turn, and the cost with it was `traced`."""
    return [
        Visit({COST: cost}, {COST: traced, quantity: value}, {COST: cost}) for cost, value in zip(COSTS, values, strict=True)
    ]


def test_the_cost_of_a_document_is_read() -> None:
    cost = TracingCost(hits=10, kernel_ns=6000, run_ns=1500, cpu_ns=50_000, other_ns=300)
    assert stated_cost(json.dumps({"schema": "ssllatency/1", **cost_fields(cost)})) == StatedCost(7500, 0.15, 300)
    seen = cost_fields(replace(cost, seen_ns=10_000))
    assert stated_cost(json.dumps({"schema": "ssllatency/1", **seen})) == StatedCost(7500, 0.2, 300)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "@stat[SSL_read]: count 5",
        "{}\n{}",
        "[]",
        '{"functions": []}',
        '{"cost": null}',
        '{"cost": {"kernel_ns": 5, "run_ns": null, "share": 1, "other_ns": 0}}',
    ],
)
def test_what_states_nothing_is_not_taken_for_nothing(output: str) -> None:
    assert stated_cost(output) is None


def test_a_right_statement_is_within_the_aim() -> None:
    check = stated.check(visits(PER_CALL, 1000, 1005, 995, 1010, 990), PER_CALL)
    assert check
    assert check.stated.middle == pytest.approx(1000)
    assert check.measured.middle == pytest.approx(1000)
    assert check.quotient
    assert check.quotient.holds(1.0)
    assert check.verdict == "within 20 %"


def test_a_share_is_of_the_cost_with_the_tracer() -> None:
    check = stated.check(visits(SHARE, 0.3, 0.3, 0.3, 0.3, 0.3), SHARE)
    assert check
    assert check.measured.middle == pytest.approx(0.5)
    assert check.quotient
    assert check.quotient.middle == pytest.approx(0.6, abs=0.01)
    assert check.verdict == "not within 20 %"


def test_a_statement_at_the_aims_bound_is_left_open() -> None:
    check = stated.check(visits(PER_CALL, 700, 900, 800, 850, 750), PER_CALL)
    assert check
    assert check.verdict == "not known whether within 20 %"


def test_where_nothing_was_lost_nothing_is_judged() -> None:
    check = stated.check(visits(PER_CALL, 5, 5, 5, 5, 5, traced=1000), PER_CALL)
    assert check
    assert check.quotient is None
    assert check.verdict == "the loss is not to be told from nothing"


def test_without_statements_there_is_no_check() -> None:
    assert stated.check([Visit({COST: 1}, {COST: 2}, {COST: 1})] * 3, PER_CALL) is None
