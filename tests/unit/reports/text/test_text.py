# SPDX-License-Identifier: Apache-2.0
"""The text report: golden reports whole, and the rules that no golden report shows alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.reports.handshake_samples import near as snapshot_with_handshakes
from tests.unit.reports.report_samples import GOLDEN, REPORTS, busy, idle, series_of, snapshot_of, spread, troubled

from ssllatency.model.arithmetic.snapshots import by_function
from ssllatency.model.histogram import LinearHistogram
from ssllatency.model.snapshot import Outcome, Series, Target
from ssllatency.reports.text.frame import heading
from ssllatency.reports.text.handshakes.report import render as render_handshakes
from ssllatency.reports.text.trace import render
from ssllatency.units import seconds


@pytest.mark.parametrize("name", REPORTS)
def test_golden(name: str) -> None:
    assert REPORTS[name]() == (GOLDEN / f"{name}.txt").read_text(encoding="ascii")


def test_every_golden_report_is_made() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(REPORTS)


@pytest.mark.parametrize("name", REPORTS)
def test_plain_ascii_without_trailing_blanks(name: str) -> None:
    report = REPORTS[name]()
    assert report.isascii()
    assert report.endswith("\n")
    assert not report.endswith("\n\n")
    assert all(line.isprintable() and line == line.rstrip() for line in report.split("\n"))


def with_linear(linear: LinearHistogram, function: str = "SSL_read", outcome: Outcome = Outcome.SUCCESS) -> Series:
    return replace(series_of(function, outcome, spread(linear.count, 1_000, 2_000)), linear=linear)


def rows_of(linear: LinearHistogram) -> list[str]:
    lines = render(snapshot_of(with_linear(linear))).split("\n")
    start = lines.index("@hist[SSL_read]:") + 1
    return lines[start : lines.index("", start)]


def test_rows_run_from_the_first_to_the_last_that_is_not_empty() -> None:
    assert rows_of(LinearHistogram(100, 400, 100, (3, 0, 52, 1, 2))) == [
        "(..., 100)             3 |@@@                                                 |",
        "[100, 200)             0 |                                                    |",
        "[200, 300)            52 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|",
        "[300, 400)             1 |@                                                   |",
        "[400, ...)             2 |@@                                                  |",
    ]


def test_bounds_that_are_multiples_of_1024_are_written_short() -> None:
    labels = [row.split(")")[0] for row in rows_of(LinearHistogram(0, 2 * 1024 * 1024, 1024 * 1024, (0, 1, 1, 1)))]
    assert labels == ["[0, 1M", "[1M, 2M", "[2M, ..."]
    assert rows_of(LinearHistogram(0, 3072, 1024, (0, 0, 1, 0, 0)))[0].startswith("[1K, 2K)  ")
    assert rows_of(LinearHistogram(0, 1032, 8, (0,) * 128 + (1, 0, 0)))[0].startswith("[1016, 1024)  ")


def test_retries_and_failures_share_the_second_section() -> None:
    report = render(
        snapshot_of(
            series_of("SSL_read", Outcome.RETRY, [1_500, 2_600], reasons={"WANT_READ": 2}),
            series_of("SSL_read", Outcome.FAILURE, [300_900], reasons={"SSL": 1}),
        )
    )
    assert "@hist[" not in report
    assert "@statF[SSL_read]: count 3, average 101, total 305\n" in report
    assert "  SSL_read: 2 retries (WANT_READ 2), 1 failure (SSL 1)\n" in report


def lines_with(report: str, start: str) -> list[str]:
    return [line.split("]")[0].removeprefix(start) for line in report.split("\n") if line.startswith(start)]


def test_order_of_functions() -> None:
    report = render(
        snapshot_of(
            series_of("b", Outcome.SUCCESS, [10_000] * 5),
            series_of("a", Outcome.SUCCESS, [9_000] * 5),
            series_of("c", Outcome.SUCCESS, [1_000_000] * 2),
        )
    )
    assert lines_with(report, "@hist[") == ["c", "a", "b"]
    assert lines_with(report, "@stat[") == ["a", "b", "c"]
    table = [line.split()[0] for line in report.split("FUNCTION")[1].split("\n")[1:] if line]
    assert table == ["c", "b", "a"]


def test_added_up_or_not_the_report_is_the_same() -> None:
    assert render(by_function(busy())) == render(busy())
    assert "--- all processes ---" in render(by_function(busy()), by_process=True)


def test_empty_series_are_no_calls() -> None:
    empty = replace(troubled().series[0], total_ns=0, min_ns=None, max_ns=None)
    empty = replace(empty, exponential=empty.exponential - empty.exponential, linear=empty.linear - empty.linear)
    assert "No TLS call was seen in 10.0 s" in render(snapshot_of(empty))
    assert render(replace(idle(), series=(empty,)), by_process=True) == render(idle())


def test_many_programs_are_cut_short() -> None:
    target = busy().targets[0]
    targets = tuple(replace(target, pid=100 + 2 * number, comm=f"worker{number}") for number in range(11))
    report = render(snapshot_of(targets=targets))
    assert "worker7 (114), and 3 processes more\n" in report
    assert "Traced: no process\n" in render(snapshot_of(targets=()))


def test_an_interval_after_another_has_a_heading_of_one_line() -> None:
    first = busy()
    second = replace(first, started="2030-01-31T12:00:10Z")
    whole, after = render(second).splitlines(), render(second, before=first).splitlines()
    assert after[0] == f"--- {seconds(second.duration_s)} from 2030-01-31T12:00:10Z ---"
    assert after[1:] == whole[len(heading(second)) :]
    other = replace(second, targets=(*second.targets, Target(99_999, "haproxy", ())))
    assert render(other, before=first) == render(other)
    shaken = snapshot_with_handshakes()
    assert render_handshakes(shaken, before=shaken).startswith("--- ")
