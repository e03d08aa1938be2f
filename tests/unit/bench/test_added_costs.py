# SPDX-License-Identifier: Apache-2.0
"""The pages of what commands add to the work of Go programs and of Java servers, of measurements that are known."""

from __future__ import annotations

from bench.defaults import jfr_cost
from bench.defaults.added import in_ns, table_of_added
from bench.defaults.go_cost import FULL, KEPT, make_page, tracers
from bench.measuring.intervals import Pair


def test_libraries_stand_beside_each_other() -> None:
    cheap, dear = {"trace": [Pair(10_000.0, 11_000.0)] * 2}, {"trace": [Pair(20_000.0, 25_000.0)] * 2}
    heading, _, without, trace = table_of_added(KEPT, {"OpenSSL": cheap, "Go": dear}).splitlines()
    assert heading == f"| {KEPT} | OpenSSL | Go |"
    assert without == "| without tracing | 10.0 us | 20.0 us |"
    assert trace == "| trace | +1.0 us (+1.0 to +1.0), 1.100 times | +5.0 us (+5.0 to +5.0), 1.250 times |"


def test_the_page_says_how_many_turns_there_were() -> None:
    pairs = {tracer.name: [Pair(10.0, 10.0)] * 3 for tracer in tracers()}
    text = make_page({load: {"OpenSSL": pairs, "Go": pairs} for load in (KEPT, FULL)}, "A hit takes 1 ns.", 1.0, 3)
    assert "3 times in turn" in text
    assert text.count("| handshakes --exact |") == 2


def test_costs_by_a_twins_are_nanoseconds_again() -> None:
    assert in_ns({"trace": [Pair(0.5, 0.75)]}, 2000.0) == {"trace": [Pair(1000.0, 1500.0)]}


def test_the_page_of_java_has_a_column_for_each_server() -> None:
    pairs = {name: [Pair(10.0, 10.0)] * 2 for name in (jfr_cost.AGAIN, "handshakes")}
    text = jfr_cost.make_page({"OpenSSL": pairs, "JSSE of JDK 25": pairs}, 4.0, 2)
    assert f"| {jfr_cost.WHAT} | OpenSSL | JSSE of JDK 25 |" in text
    assert "4 s, between two times as long without it,\n2 times in turn" in text
