# SPDX-License-Identifier: Apache-2.0
"""What tracing has cost, as reports say it and documents hold it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.reports.report_samples import busy

from ssllatency.errors import SsllatencyError
from ssllatency.model.cost import CoreCost, PayingProcess, ProcessCost, TracingCost
from ssllatency.reports.documents.document import from_document, from_json, to_document, to_json
from ssllatency.reports.rows.cost import cost_line, cost_sentences
from ssllatency.reports.text.page import WIDTH, Page
from ssllatency.reports.text.trace import render

COST = TracingCost(
    hits=1_000,
    kernel_ns=500_000,
    run_ns=200_000,
    cpu_ns=50_000_000,
    processes=(ProcessCost(1240, 1_000, 500_000, 200_000, 50_000_000),),
    cores=(CoreCost(0, 400_000), CoreCost(1, 300_000)),
)


def test_one_sentence_says_the_share_and_what_a_hit_takes() -> None:
    assert cost_sentences(COST) == [
        "Cost of tracing: 1.4 % of the traced processes' CPU time (1000 probe hits, 700 ns each), excluding cache effects."
    ]


def test_what_is_not_known_is_said_to_be_missing() -> None:
    assert cost_sentences(replace(COST, run_ns=None)) == [
        "Cost of tracing: at least 1.0 % of the traced processes' CPU time (1000 probe hits, 500 ns each without the BPF"
        " programs' own run time, which isn't known), excluding cache effects."
    ]
    assert cost_sentences(replace(COST, cpu_ns=None)) == [
        "Cost of tracing: 700 us of CPU time (1000 probe hits, 700 ns each), excluding cache effects."
    ]
    assert cost_sentences(None) == []


def test_others_who_pay_are_told_of() -> None:
    [_, others] = cost_sentences(replace(COST, other_hits=20, other_ns=14_000))
    assert others == (
        "Processes that aren't traced paid 14.0 us of CPU time for 20 probe hits, as they use the same files: --links process"
        " spares them."
    )


def test_others_are_named_up_to_a_number_of_them() -> None:
    others = tuple(PayingProcess(pid, "curl") for pid in range(1, 19))
    [_, few] = cost_sentences(replace(COST, others=others[:2]))
    [_, many] = cost_sentences(replace(COST, others=others))
    assert few == "Processes that aren't traced and share the probes: curl (PID 1), curl (PID 2)."
    assert many.endswith("curl (PID 16), 2 more.")
    assert cost_line(replace(COST, others=others)) == cost_line(COST)


def test_programs_elsewhere_are_told_of() -> None:
    assert cost_sentences(replace(COST, elsewhere_ns=3_000_000))[1:] == [
        "BPF programs at tracepoints, not probes, took 3.00 ms of CPU time on the whole machine."
    ]


def test_what_the_processes_show_is_told_beside_it() -> None:
    assert cost_sentences(replace(COST, seen_ns=1_000_000)) == [
        "Cost of tracing: 1.4 % of the traced processes' CPU time (1000 probe hits, 700 ns each).",
        "With cache effects it was 2.0 %, estimated from the processes' CPU time per system call before, during and"
        " after tracing.",
    ]


def test_who_hit_no_probe_paid_nothing() -> None:
    assert cost_sentences(TracingCost(0, 0, 0, 50_000_000)) == []
    assert cost_line(TracingCost(0, 0, 0, 50_000_000)) == cost_line(None) == ""


def test_one_line_has_all_that_matters() -> None:
    own = "Cost of tracing: 1.4 % of the traced processes' CPU time"
    assert cost_line(COST) == f"{own} (excluding cache effects)."
    assert cost_line(replace(COST, seen_ns=1_000_000)) == f"{own} (2.0 % with cache effects)."
    others = replace(COST, other_hits=20, other_ns=14_000, elsewhere_ns=5)
    targets = own.replace("traced processes", "targets")
    assert cost_line(others) == f"{targets} (excluding cache effects), 14.0 us of others'."
    assert len(cost_line(others)) <= WIDTH, "one line"
    assert cost_line(replace(others, hits=0)) == "Cost of tracing: 14.0 us of CPU time of other processes."


def test_a_note_is_said_once_in_a_run_of_intervals() -> None:
    first, later = replace(busy(), notes=("One.",)), replace(busy(), notes=("One.", "Two."))
    assert render(first).count("Note: One.") == 1
    text = render(later, before=first)
    assert (text.count("Note: One."), text.count("Note: Two.")) == (0, 1)


def test_the_report_ends_with_it() -> None:
    costly = replace(busy(), cost=replace(COST, other_hits=20, other_ns=14_000, elsewhere_ns=3_000_000))
    lines = [line for line in render(costly).splitlines() if "CPU time" in line or "Programs" in line]
    assert len(lines) == 1
    assert lines[0].startswith("Cost of tracing: 1.4 % of the targets' CPU time")
    verbose = render(costly, Page(verbose=True))
    assert "1000 probe hits, 700 ns each" in verbose
    assert "BPF programs at tracepoints, not probes, took 3.00 ms" in verbose


def test_what_stands_on_the_terminal_already_is_not_said_again() -> None:
    noted = replace(busy(), notes=("One was late.", "Two were later."))
    assert "Note: One was late." in render(noted)
    shown = render(noted, Page(told=frozenset({"One was late."})))
    assert "One was late." not in shown
    assert "Note: Two were later." in shown


@pytest.mark.parametrize(
    "cost",
    [
        COST,
        replace(COST, run_ns=None, cpu_ns=None),
        replace(COST, other_hits=3, other_ns=4, elsewhere_ns=5),
        replace(COST, seen_ns=6),
        replace(COST, attach_ns=30_000_000),
        replace(COST, others=(PayingProcess(300, "curl"), PayingProcess(301, "wget"))),
        TracingCost(0, 0, 0, 0),
    ],
    ids=["usual", "unknown parts", "of others", "seen", "attaching", "others", "nothing"],
)
def test_a_document_holds_all_of_it(cost: TracingCost) -> None:
    snapshot = replace(busy(), cost=cost)
    assert from_json(to_json(snapshot, by_process=True)) == snapshot
    assert json.loads(to_json(snapshot))["cost"]["share"] == cost.share


def test_a_document_without_it_says_nothing() -> None:
    assert "cost" not in to_document(busy())
    assert from_json(to_json(busy(), by_process=True)).cost is None


@pytest.mark.parametrize("name", ["hits", "kernel_ns", "run_ns", "cpu_ns"])
def test_a_figure_that_is_no_count_is_refused_by_its_name(name: str) -> None:
    document = to_document(replace(busy(), cost=COST))
    document["cost"][name] = -1  # type: ignore[index]
    with pytest.raises(SsllatencyError, match=f"cost.{name}"):
        from_document(document)
