# SPDX-License-Identifier: Apache-2.0
"""Durations over time: beside each time of a recording the same time of the one before, and bounds of what was counted."""

from __future__ import annotations

import re

import pytest
from tests.unit.reports.html.html_samples import at
from tests.unit.reports.report_samples import series_of, snapshot_of

from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Outcome
from ssllatency.reports.html.blocks import PageSection, PlotBlock, Sentences
from ssllatency.reports.html.over_time import over_time
from ssllatency.reports.html.tables import HtmlTable

_HEATMAP = "Numbers of the heatmap: durations in each span of time"


def _every(length_s: float, counts: list[int], duration_ns: int = 1000) -> Recording:
    """Intervals of that length, each with so many calls."""
    calls = [series_of("SSL_read", Outcome.SUCCESS, [duration_ns] * count) for count in counts]
    return Recording.of([at(snapshot_of(one), number * length_s, length_s) for number, one in enumerate(calls)])


def _section(recording: Recording, before: Recording | None = None) -> PageSection:
    section = over_time(recording, before, recording.total(), before.total() if before else None)
    assert section
    return section


def _table(section: PageSection, caption: str) -> HtmlTable:
    return next(
        one.numbers for one in section.blocks if isinstance(one, PlotBlock) and one.numbers and one.numbers.caption == caption
    )


def _counts(section: PageSection) -> list[tuple[str, str]]:
    return [(line.cells[0].text, line.cells[0].was) for line in _table(section, "Numbers of the percentiles").lines]


def _captions(section: PageSection) -> list[str]:
    return [block.plot.caption for block in section.blocks if isinstance(block, PlotBlock)]


def _introduction(section: PageSection) -> str:
    first = section.blocks[0]
    assert isinstance(first, Sentences)
    return first.texts[0]


def test_calls_of_unknown_outcome_are_drawn_and_said_to_be() -> None:
    calls = [series_of("agree", Outcome.UNKNOWN, [1000] * count) for count in (3, 4)]
    section = _section(Recording.of([at(snapshot_of(one), number, 1.0) for number, one in enumerate(calls)]))
    assert _counts(section) == [("3", ""), ("4", "")]
    assert "alls (outcome unknown) of agree" in _introduction(section)
    assert all("calls (outcome unknown) of agree" in caption for caption in _captions(section))


@pytest.mark.slow
def test_what_was_stands_beside_the_same_time_though_no_interval_is_exactly_a_second() -> None:
    counts = list(range(1, 131))
    after, before = _every(1.00021, counts), _every(1.00007, [2 * count for count in counts])
    assert _counts(_section(after, before)) == [(str(count), str(2 * count)) for count in counts]
    short = _section(after, _every(1.00007, [3, 4]))
    assert _counts(short)[:3] == [("1", "3"), ("2", "4"), ("3", "-")]


@pytest.mark.slow
def test_columns_are_told_apart_where_the_clock_writes_them_alike() -> None:
    recording = _every(0.7, list(range(1, 191)))  # past two minutes two of them begin within some seconds
    assert _counts(_section(recording, recording)) == [(str(count), str(count)) for count in range(1, 191)]


def test_times_are_those_of_the_clock_where_a_recording_is_alone_on_its_axis() -> None:
    section = _section(_every(1.0, [1] * 12))
    assert [line.row.names for line in _table(section, "Numbers of the percentiles").lines][:2] == [
        ("12:00:00",),
        ("12:00:01",),
    ]
    assert _table(section, _HEATMAP).headings[1:] == tuple(f"from 12:00:{at_s:02}" for at_s in range(0, 12, 2))
    assert ["Times are UTC" in caption for caption in _captions(section)] == [True, True]
    both = _section(_every(1.0, [1] * 12), _every(1.0, [1] * 12))
    assert _table(both, "Numbers of the percentiles").lines[1].row.names == ("1 s",)
    assert ["Times are UTC" in caption for caption in _captions(both)] == [True, True, False, False]


def test_runs_that_each_begin_at_0_have_no_clock() -> None:
    later = tuple(at(interval, 90_000 + number) for number, interval in enumerate(_every(1.0, [1] * 12).intervals))
    section = _section(Recording((*_every(1.0, [1] * 12).runs, Run(later))))
    assert _table(section, "Numbers of the percentiles").lines[1].row.names == ("1 s",)
    assert not any("Times are" in caption for caption in _captions(section))


def test_both_recordings_have_columns_of_the_width_that_is_said() -> None:
    section = _section(_every(1.0, [1] * 20), _every(5.0, [10] * 4))
    assert _introduction(section) == "Successful calls of SSL_read, in columns of 5 s from the beginning on."
    assert _counts(section) == [("5", "10")] * 4


def test_a_recording_of_one_column_stands_beside_one_of_many() -> None:
    section = _section(_every(10.0, [7]), _every(1.0, [1] * 60))
    assert section.title == "Over time"
    assert _introduction(section) == "Successful calls of SSL_read, in columns of 10 s from the beginning on."
    assert _counts(section) == [("7", "10"), *[("-", "10")] * 5]


def test_recordings_of_an_interval_each_are_said_to_be_wholes() -> None:
    section = _section(_every(10.0, [7]), _every(12.0, [8]))
    assert (section.title, _introduction(section)) == (
        "Distribution",
        "Successful calls of SSL_read, each recording as a whole.",
    )
    assert _introduction(_section(_every(10.0, [7]))) == "Successful calls of SSL_read, in one interval of 10 s."


@pytest.mark.slow
def test_what_is_too_short_or_too_long_has_no_bounds_that_are_not_known() -> None:
    values = [0, 40, 59, 60, 119, 64 * 10**9, 64 * 10**9 + 1, 2**40]
    recording = Recording.of([at(snapshot_of(series_of("SSL_read", Outcome.SUCCESS, values)), second) for second in range(2)])
    rows = [("0 ns, to 59.6 ns", "6"), ("59.6 ns, to 119 ns", "4"), ("32.0 s, to 64.0 s", "2"), ("64.0 s", "4")]
    for section, caption in (
        (_section(recording), "Numbers of the heatmap: durations in each span of time"),
        (_section(recording, recording), "Numbers of the distribution"),
    ):
        lines = _table(section, caption).lines
        counts = [sum(int(cell.text) for cell in line.cells[:2] if "%" not in cell.text) for line in lines]
        assert [(line.row.names[0], str(count)) for line, count in zip(lines, counts, strict=True)] == rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([40, 70], "The lowest row: 59.6 ns or less."),
        ([2**34, 2**37], "The highest row: more than 64.0 s."),
        ([40, 2**37], "The lowest row: 59.6 ns or less. The highest row: more than 64.0 s."),
        ([60, 64 * 10**9], ""),
    ],
)
def test_rows_of_what_is_too_short_or_too_long_are_said_to_be(values: list[int], words: str) -> None:
    """And no duration is marked where they are: how short and how long is not known."""
    recording = Recording.of([at(snapshot_of(series_of("SSL_read", Outcome.SUCCESS, values)), second) for second in range(2)])
    figures = {
        one.plot.caption.split(":")[0]: one.plot for one in _section(recording, recording).blocks if isinstance(one, PlotBlock)
    }
    for name in ("Heatmap, after", "Heatmap, before", "Distribution"):
        assert figures[name].caption.endswith(words)
        assert ("row:" in figures[name].caption) == bool(words)
        marks = set(re.findall(r">([\d.]+ (?:ns|s))<", figures[name].drawings))
        assert marks
        assert not marks & {"40 ns", "50 ns", "70 s", "80 s", "90 s", "100 s"}
