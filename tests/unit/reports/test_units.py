# SPDX-License-Identifier: Apache-2.0
"""Numbers and names as the reports write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssllatency.reports.text.page import WIDTH, table, wrapped
from ssllatency.units import counted, duration, printable, ranges, seconds, size

SIZES = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (2, "2 ns"),
        (0.004, "0 ns"),
        (65.42, "65.4 ns"),
        (999, "999 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 us"),
        (1_000, "1.00 us"),
        (9_996, "10.0 us"),
        (35_500, "35.5 us"),
        (99_960, "100 us"),
        (706_123, "706 us"),
        (999_499, "999 us"),
        (999_500, "1.00 ms"),
        (1_240_000, "1.24 ms"),
        (2_500_000_000, "2.50 s"),
        (3_725_500_000_000, "3726 s"),
        (-1_240_000, "-1.24 ms"),
    ],
)
def test_duration(value_ns: float | None, text: str) -> None:
    assert duration(value_ns) == text


@given(st.integers(1, 999 * 10**9))
def test_duration_keeps_three_significant_digits(value_ns: int) -> None:
    number, unit = duration(value_ns).split(" ")
    assert abs(float(number) * SIZES[unit] - value_ns) <= value_ns * 0.005 + 1e-6
    assert len(number.replace(".", "")) <= 3


def test_seconds() -> None:
    assert seconds(10.0) == "10.0 s"
    assert seconds(0.25) == "250 ms"


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(0, "call", "0 calls"), (1, "retry", "1 retry"), (2, "retry", "2 retries"), (2, "process", "2 processes")],
)
def test_counted(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (536, "536 bytes"),
        (999.6, "1.00 kB"),
        (14_234, "14.2 kB"),
        (999_600, "1.00 MB"),
        (1.05e6, "1.05 MB"),
        (2.5e12, "2500 GB"),
    ],
)
def test_size(number: float, text: str) -> None:
    assert size(number) == text


def test_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([1242, 88, 1240, 1241, 1241]) == "88, 1240-1242"
    assert ranges(range(0, 20, 2), limit=3) == "0, 2, 4 and 7 more"


@given(st.text())
def test_printable_is_ascii_without_control_characters(text: str) -> None:
    shown = printable(text)
    assert shown.isascii()
    assert shown.isprintable()


def test_printable_shows_what_it_replaced() -> None:
    assert printable("ng\x1b[31minx\n\u00e9 \udcff") == "ng\\x1b[31minx\\x0a\\xe9 \\udcff"


def test_wrapped_lines_keep_every_word_and_the_width() -> None:
    names = [f"mbx_nistp{number}_ecdsa_sign_mb8" for number in range(40)]
    lines = wrapped(", ".join(names), "  ", "    ")
    assert max(map(len, lines)) <= WIDTH
    assert [line[: len(line) - len(line.lstrip())] for line in lines] == ["  "] + ["    "] * (len(lines) - 1)
    assert " ".join(line.strip() for line in lines) == ", ".join(names)


def test_table_sets_columns_apart() -> None:
    assert table([("FUNCTION", "COUNT"), ("SSL_do_handshake", "7")], left=1) == [
        "FUNCTION          COUNT",
        "SSL_do_handshake      7",
    ]
