# SPDX-License-Identifier: Apache-2.0
"""From the kernel's rows to series: outcomes, reasons, extremes over intervals."""

from __future__ import annotations

import pytest

from ssllatency import abi
from ssllatency.engines.base import LinearRange
from ssllatency.engines.read.collect import Extremes, SeriesRow, exponential, series
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.snapshot import Outcome

BITS = int(abi.Geometry.EXTREME_BITS)
MASK = (1 << BITS) - 1
KEY = (1, 2, 0)


def extreme_row(*words: tuple[int, int, int] | None) -> abi.Times:
    """A row whose odd and even words hold (interval, least, greatest)."""
    row = abi.Times()
    for slot, word in enumerate(words):
        if word:
            interval, least, greatest = word
            row.minimum[slot] = interval << BITS | MASK - least
            row.maximum[slot] = interval << BITS | greatest
    return row


def test_a_row_becomes_a_series() -> None:
    row = abi.Series(times=abi.Times(underflow=1, overflow=2, total_ns=12345))
    row.times.exponential[10] = 3
    row.linear[0], row.linear[6] = 4, 5
    row.reasons[abi.Reason.WANT_READ], row.reasons[abi.Reason.UNKNOWN] = 5, 1
    made = series(abi.SeriesKey(77, 1, abi.Outcome.RETRY), row, ["SSL_write", "SSL_read"], LinearRange(), (70, 80))
    assert (made.function, made.outcome, made.pid, made.count) == ("SSL_read", Outcome.RETRY, 77, 6)
    assert (made.total_ns, made.min_ns, made.max_ns) == (12345, 70, 80)
    assert (made.exponential.offset, made.exponential.counts) == (abi.Geometry.FIRST_BUCKET + 10, (3,))
    assert made.linear.counts == (4, 0, 0, 0, 0, 0, 5)
    assert made.reasons == {"WANT_READ": 5, "unknown": 1}


def test_folded_processes_have_no_pid() -> None:
    assert series(abi.SeriesKey(0, 0, abi.Outcome.SUCCESS), abi.Series(), ["RSA_sign"], LinearRange(), (None, None)).pid is None


def test_extremes_add_up_over_intervals() -> None:
    kept = Extremes()
    assert kept.take(KEY, extreme_row(None, (1, 100, 900)), 1) == (100, 900)
    assert kept.take(KEY, extreme_row((2, 50, 300), (1, 100, 900)), 2) == (50, 900)
    assert kept.take(KEY, extreme_row((2, 50, 300), (1, 100, 900)), 3) == (50, 900)


def test_extremes_of_an_older_interval_are_not_those_of_this_one() -> None:
    assert Extremes().take(KEY, extreme_row((2, 50, 300), (1, 100, 900)), 2) == (50, 300)
    assert Extremes().take(KEY, extreme_row((2, 50, 300), (1, 100, 900)), 3) == (None, None)


def test_a_call_counted_just_after_the_border_brings_its_extreme() -> None:
    assert Extremes().take(KEY, extreme_row((2, 5, 5), (1, 100, 900)), 1) == (5, 900)


@pytest.mark.parametrize(
    "filled", [{}, {0: 1}, {479: 1}, {0: 1 << 40, 479: 256}, {7: 256, 9: 1 << 56}, {100: 1, 101: 0, 102: 3}]
)
def test_only_the_filled_buckets_are_read_and_all_of_them(filled: dict[int, int]) -> None:
    row = abi.Times(underflow=4, overflow=5)
    for number, count in filled.items():
        row.exponential[number] = count
    assert exponential(row) == ExponentialHistogram.from_dense(list(row.exponential), 4, 5)


def test_a_row_of_the_series_is_the_same_object_until_its_extremes_are_others() -> None:
    row = SeriesRow(abi.SeriesKey(77, 0, abi.Outcome.SUCCESS), abi.Series(), ["SSL_read"], LinearRange())
    first = row.series((None, None))
    assert row.series((None, None)) is first
    second = row.series((3, 9))
    assert (second.min_ns, second.max_ns, second.exponential) == (3, 9, first.exponential)
    assert row.series((3, 9)) is second
    assert row.series((None, None)) == first
