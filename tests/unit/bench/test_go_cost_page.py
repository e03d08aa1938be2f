# SPDX-License-Identifier: Apache-2.0
"""The page about Go programs, of measurements that are known."""

from __future__ import annotations

from bench.defaults.go_cost import FULL, KEPT, make_page, tables, tracers
from bench.measuring.intervals import Pair


def test_libraries_stand_beside_each_other() -> None:
    cheap, dear = {"trace": [Pair(10_000.0, 11_000.0)] * 2}, {"trace": [Pair(20_000.0, 25_000.0)] * 2}
    heading, _, without, trace = tables({KEPT: {"OpenSSL": cheap, "Go": dear}}).splitlines()
    assert heading == f"| {KEPT} | OpenSSL | Go |"
    assert without == "| without tracing | 10.0 us | 20.0 us |"
    assert trace == "| trace | +1.0 us (+1.0 to +1.0), 1.100 times | +5.0 us (+5.0 to +5.0), 1.250 times |"


def test_the_page_says_how_many_turns_there_were() -> None:
    pairs = {tracer.name: [Pair(10.0, 10.0)] * 3 for tracer in tracers()}
    text = make_page({load: {"OpenSSL": pairs, "Go": pairs} for load in (KEPT, FULL)}, "A hit takes 1 ns.", 1.0, 3)
    assert "3 times in turn" in text
    assert text.count("| handshakes --exact |") == 2
