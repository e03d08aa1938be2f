# SPDX-License-Identifier: Apache-2.0
"""The benchmark's tables: figures where the measurements tell something, and words where they don't."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from bench import figures
from bench.measuring import hits, stated
from bench.measuring.rounds import COST, Measured, Visit
from bench.measuring.tracers import AGAIN, FLOOR, SSLLATENCY, STOCK, count_in_bpftrace_output, count_in_document
from bench.measuring.works import BUSY, RATE
from bench.processes import DEFAULT, EACH, growing, row_name
from ssllatency.probes.costs import HitCosts

ENGINE = "ssllatency --engine bcc"
HIT = HitCosts(400, 500, 9000, 300, 120)
NOISE = (1.01, 0.99, 1.0, 1.005, 0.995, 1.0)


def visits(factor: float, noise: Sequence[float] = NOISE, busy: float = 1.0) -> list[Visit]:
    without = {COST: 1000.0, RATE: 60_000.0, BUSY: busy}
    return [Visit(without, {COST: 1000 * factor * part, RATE: 60_000 / factor / part, BUSY: busy}, without) for part in noise]


def measured(busy: float = 1.0, **factors: float) -> Measured:
    names = {"again": AGAIN, "floor": FLOOR, "trace": SSLLATENCY, "stock": STOCK, "engine": ENGINE}
    return Measured({names[name]: visits(factor, busy=busy) for name, factor in factors.items()})


def rows(table: str) -> dict[str, list[str]]:
    lines = [re.split(r" ?\| ?", line.strip("|")) for line in table.splitlines()]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[2:]}


def test_a_figure_has_its_interval_and_the_cost_of_a_hit_beside_it() -> None:
    row = rows(figures.pump_table(measured(again=1.0, floor=2.0, trace=2.5, stock=7.0), HIT))[SSLLATENCY]
    assert row[0] == "2,500"
    assert re.fullmatch(r"1,500 \(1,4\d\d to 1,5\d\d\)", row[1])
    assert row[2] == "3.0"
    assert re.fullmatch(r"2\.50 \(2\.4\d to 2\.5\d\)", row[3])
    assert re.fullmatch(r"1\.50 \(1\.\d\d to 1\.\d\d\)", row[4])
    assert re.fullmatch(r"0\.25 \(0\.\d\d to 0\.\d\d\)", row[5])


def test_what_is_not_told_from_no_tracing_has_no_figure() -> None:
    table = rows(figures.pump_table(measured(again=1.0, floor=1.002, trace=2.5, stock=7.0), HIT))
    for name in (AGAIN, FLOOR):
        assert re.fullmatch(r"not to be told from no tracing \(0\.9\d\d to 1\.0\d\d\)", table[name][1])
        assert table[name][2:] == ["-"] * 4
    assert table[SSLLATENCY][4] == "-"  # of the floor's, of which nothing is known
    assert table[SSLLATENCY][5] != "-"


def test_no_tracing_is_a_row_of_its_own_and_another() -> None:
    table = rows(figures.pump_table(measured(again=1.0, trace=2.0), HIT))
    assert list(table) == ["no tracing", AGAIN, SSLLATENCY]
    assert table["no tracing"][0] == "1,000"


def test_a_tracer_without_a_base_has_no_quotient() -> None:
    assert rows(figures.pump_table(measured(trace=2.0), HIT))[SSLLATENCY][4:] == ["-", "-"]


def test_without_a_hits_cost_nothing_is_expressed_in_hits() -> None:
    assert rows(figures.pump_table(measured(trace=2.0), None))[SSLLATENCY][2] == "-"
    assert "could not be measured" in hits.sentence(None)
    assert "500 ns at an instruction that the kernel emulates" in hits.sentence(HIT)


def test_hits_are_medians_of_each_kind() -> None:
    costs = [HitCosts(1, 20, 300, 7, 5), HitCosts(3, 10, 100, 9, 4), HitCosts(2, 30, 200, 8, 6)]
    assert hits.median_costs(costs) == HitCosts(2, 20, 200, 8, 5)
    assert hits.median_costs([]) is None


def test_rates_are_compared_where_the_worker_was_saturated() -> None:
    busy, idle = measured(again=1.0, trace=1.25), measured(busy=0.8, again=1.0, trace=1.25)
    row = rows(figures.worker_table(busy, HIT))[SSLLATENCY]
    assert row[:2] == ["1.25", row[1]]
    assert re.fullmatch(r"80\.\d % \(\d\d\.\d % to \d\d\.\d %\)", row[7])
    assert rows(figures.worker_table(idle, HIT))[SSLLATENCY][7] == "-"
    assert "so what it kept of its rate says nothing" in figures.busy_sentence(idle)
    assert rows(figures.worker_table(busy, HIT))[AGAIN][7].startswith("not to be told from no tracing")


@pytest.mark.parametrize(
    ("trace", "stock", "words"),
    [
        (1.3, 7.0, "is met"),
        (4.0, 5.0, "is missed"),
        (1.25, 1.5, "neither met nor missed for certain"),
        (1.0, 5.0, "ssllatency is not to be told from no tracing"),
        (1.3, 1.0, "nothing to compare with: ssllatency.bt is not to be told from no tracing"),
    ],
)
def test_the_aim_is_judged_by_the_whole_interval(trace: float, stock: float, words: str) -> None:
    assert words in figures.verdicts({"work": measured(trace=trace, stock=stock)})


def test_a_comparison_says_which_side_is_not_told() -> None:
    assert figures.against({"work": measured(floor=1.0, trace=2.0)}, SSLLATENCY, FLOOR).startswith(
        f"- work: {FLOOR} is not to be"
    )
    assert figures.against({"work": measured(floor=2.0, trace=1.0)}, SSLLATENCY, FLOOR).startswith(
        f"- work: {SSLLATENCY} is not to"
    )
    assert figures.against({"work": measured(floor=2.0, trace=3.0)}, SSLLATENCY, FLOOR).startswith("- work: 2.00 (")


def test_processes_in_rows_and_ways_of_linking_in_columns() -> None:
    tried = Measured({tracer.name: visits(2.0) for tracer in growing(500) if tracer.command} | {AGAIN: visits(1.0)})
    table = rows(figures.growth_table(tried))
    assert list(table) == [f"none ({AGAIN})", "1", "8", "64", "500"]
    assert table["500"][1] == "-"
    assert table["64"][1].startswith("1,000 (")
    assert [tracer.processes for tracer in growing(8)[1:]] == [1, 1, 8, 8]
    assert row_name(DEFAULT, 8) != row_name(EACH, 8)


def test_an_absent_statement_is_said_to_be_absent() -> None:
    silent = measured(trace=2.0)
    row = ("work", silent, SSLLATENCY, stated.PER_CALL)
    assert "no field `cost`" in figures.stated_table([row])
    for visit, ns in zip(silent.visits[SSLLATENCY], (1010, 990, 1000, 1005, 995, 1000), strict=True):
        visit.traced[stated.PER_CALL] = ns  # type: ignore[index]
    cells = rows(figures.stated_table([row]))[f"work: {SSLLATENCY}"]
    assert re.fullmatch(r"1,000 \([\d,]+ to [\d,]+\) ns", cells[0])
    assert cells[3] == "within 20 %"


def test_starts_have_intervals() -> None:
    table = rows(figures.start_table({"x": [0.4, 0.5, 0.45]}, {"x": [0.2, 0.2, 0.2]}))
    assert re.fullmatch(r"0\.45 \(0\.\d\d to 0\.\d\d\) s", table["x"][0])
    assert table["x"][1] == "0.20 s"


def test_counts_are_read_from_both_outputs() -> None:

    series = [{"function": "SSL_read", "outcome": outcome, "count": count} for outcome, count in (("success", 5), ("retry", 2))]
    assert count_in_document(json.dumps({"functions": series}), "SSL_read") == 5
    output = (
        "@stat[SSL_read]: count 12, average 5\n@statF[SSL_read]: count 3, average 9\n@stat[SSL_write]: count 7, average 1\n"
    )
    assert count_in_bpftrace_output(output, "SSL_read") == 15
