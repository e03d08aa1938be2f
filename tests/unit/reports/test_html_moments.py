# SPDX-License-Identifier: Apache-2.0
"""Clock times along an axis: round ones, none beyond its ends, dates where there are several."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssllatency.reports.html.plots.moments import TimeAxis, fitting_marks
from ssllatency.reports.html.plots.plots import SIZES, Size


def moments(begun: str, end_s: float) -> TimeAxis:
    return TimeAxis.of(end_s, datetime.fromisoformat(begun))


def marked(shown: TimeAxis, most: int = 4) -> list[str]:
    marks, step_s = shown.marks(most)
    return [shown.mark(mark, step_s) for mark in marks]


@pytest.mark.parametrize(
    ("begun", "end_s", "texts"),
    [
        ("2030-01-31T12:00:00Z", 60, ["12:00:00", "12:00:15", "12:00:30", "12:00:45", "12:01:00"]),
        ("2030-01-31T12:00:07.250Z", 60, ["12:00:15", "12:00:30", "12:00:45", "12:01:00"]),
        ("2030-01-31T03:12:50+02:00", 600, ["03:15", "03:20"]),
        ("2030-01-31T23:10:00Z", 7200, ["23:30", "02-01", "00:30", "01:00"]),
        ("2030-01-31T12:00:00.300Z", 1, ["12:00:00.5", "12:00:01.0"]),
        ("2030-01-31T12:00:00Z", 4 * 86400, ["02-01", "02-02", "02-03", "02-04"]),
    ],
)
def test_marks_are_round_times_of_day(begun: str, end_s: float, texts: list[str]) -> None:
    assert marked(moments(begun, end_s)) == texts


@pytest.mark.parametrize("size", SIZES, ids=[size.name for size in SIZES])
@given(end_s=st.floats(0.01, 1e7), microsecond=st.integers(0, 999_999))
def test_texts_at_marks_do_not_touch(size: Size, end_s: float, microsecond: int) -> None:
    shown = TimeAxis(end_s, datetime(2030, 1, 31, 23, 59, 58, microsecond, UTC))
    marks, step_s = fitting_marks(shown, size)
    longest = max(len(shown.mark(mark, step_s)) for mark in marks)
    assert len(marks) == 1 or longest * 0.62 * size.letters < (size.width - 60) * step_s / end_s


def test_rows_have_the_date_where_there_are_several() -> None:
    assert moments("2030-01-31T12:00:00Z", 60).text(7, 1) == "12:00:07"
    assert moments("2030-01-31T23:59:00Z", 120).text(61, 1) == "02-01 00:00:01"


def test_the_zone_is_said() -> None:
    assert moments("2030-01-31T12:00:00Z", 60).zone == " Times are UTC."
    assert moments("2030-01-31T12:00:00-05:30", 60).zone == " Times are UTC-05:30."
    assert TimeAxis(60).zone == ""


def test_a_clock_that_ends_before_the_recording_is_left_out() -> None:
    assert marked(moments("9999-12-31T23:59:30Z", 60)) == ["0 s", "15 s", "30 s", "45 s", "60 s"]
    assert moments("2030-01-31T12:00:00Z", 1e18).text(3, 1) == "3 s"


@given(st.datetimes(), st.floats(1e-5, 1e9), st.integers(3, 9))
def test_marks_are_within_the_axis_and_not_too_many(begun: datetime, end_s: float, most: int) -> None:
    marks, step_s = TimeAxis.of(end_s, begun).marks(most)
    assert 1 <= len(marks) <= most + 1
    assert marks[0] >= 0
    assert marks[-1] <= end_s + 1e-6 * step_s
