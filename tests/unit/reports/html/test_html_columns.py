# SPDX-License-Identifier: Apache-2.0
"""A recording in columns of time: nothing counted is lost or counted twice, and it stands where it belongs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.reports.html.html_samples import at, served
from tests.unit.reports.report_samples import series_of, snapshot_of

from ssllatency.model.handshakes import Part
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.reports.html.plots.columns import MOST_COLUMNS, Pick, PlotColumn, calls_of, side_by_side, successful
from ssllatency.reports.html.plots.heatmap import LEVELS, scale_of

READ = calls_of("SSL_read")


def _interval(second: float, duration_s: float = 1.0, calls: int = 1) -> Snapshot:
    series = [series_of("SSL_read", Outcome.SUCCESS, [1000] * calls)] if calls else []
    return at(snapshot_of(*series), second, duration_s)


def columns(recording: Recording, pick: Pick, most: int = MOST_COLUMNS) -> list[PlotColumn]:
    """Those of one recording by itself."""
    return side_by_side([recording], pick, most)[0]


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=60),
    st.floats(0.01, 100),
    st.floats(0, 0.04),
    st.integers(1, 20),
)
def test_each_call_is_in_one_column_and_columns_follow_one_another(
    counts: list[int], length_s: float, late: float, most: int
) -> None:
    step = length_s * (1 + late)
    intervals = [_interval(number * step, length_s, calls) for number, calls in enumerate(counts)]
    made = columns(Recording.of(intervals), READ, most)
    assert 1 <= len(made) <= most
    assert sum(column.count for column in made) == sum(counts)
    assert sum(column.counted_s for column in made) == pytest.approx(length_s * len(counts))
    assert made[0].start_s == 0
    assert all(one.end_s == pytest.approx(other.start_s) for one, other in pairwise(made))


@given(st.lists(st.tuples(st.integers(1, 60), st.floats(0.01, 100)), min_size=2, max_size=3), st.integers(1, 20))
def test_columns_of_several_recordings_are_of_one_width(shapes: list[tuple[int, float]], most: int) -> None:
    lengths = [[_interval(number * length_s, length_s) for number in range(intervals)] for intervals, length_s in shapes]
    made = side_by_side([Recording.of(intervals) for intervals in lengths], READ, most)
    assert [sum(column.count for column in each) for each in made] == [intervals for intervals, _ in shapes]
    assert max(map(len, made)) <= most
    for beside in zip(*made, strict=False):
        assert len({(column.start_s, column.end_s) for column in beside}) == 1


def test_an_interval_is_a_column_where_there_is_room() -> None:
    # The last was cut short, as Ctrl-C does, and each began a little late.
    intervals = [*(_interval(second * 1.0002, calls=second + 1) for second in range(10)), _interval(10.002, 0.3, calls=11)]
    assert [column.count for column in columns(Recording.of(intervals), READ)] == list(range(1, 12))


def test_an_hour_has_no_gap_and_no_double_column() -> None:
    made = columns(Recording.of([_interval(second * 1.00003, 1.00003) for second in range(3600)]), READ)
    assert len(made) == MOST_COLUMNS
    assert {column.count for column in made} == {18}


def test_time_that_was_not_measured_is_empty() -> None:
    made = columns(Recording.of([_interval(0), _interval(2)]), READ)
    assert [column.measured for column in made] == [True, False, True]
    assert [column.counted_s for column in made] == [1, 0, 1]


def test_a_late_interval_is_no_gap() -> None:
    # The second took three seconds, as a machine under load can have it; the end is a little past a whole column.
    intervals = [_interval(0), _interval(1, 3.0), *(_interval(second, 1.01) for second in (4, 5.01, 6.02))]
    made = columns(Recording.of(intervals), READ)
    assert all(column.measured for column in made)
    assert sum(column.count for column in made) == 5
    assert len(made) == 7


def test_runs_at_the_same_time_lie_over_one_another() -> None:
    runs = [Run(tuple(_interval(start + second) for second in range(4))) for start in (0, 2)]
    made = columns(Recording(tuple(runs)), READ)
    assert [column.count for column in made] == [1, 1, 2, 2, 1, 1]
    assert [column.counted_s for column in made] == [1, 1, 2, 2, 1, 1]


def test_runs_far_apart_each_begin_at_the_beginning() -> None:
    runs = [Run(tuple(_interval(start + second) for second in range(4))) for start in (0, 86_400)]
    assert [column.count for column in columns(Recording(tuple(runs)), READ)] == [2, 2, 2, 2]


def test_no_time_at_all_is_one_column() -> None:
    made = columns(Recording.of([_interval(0, 0.0)]), READ)
    assert [(column.start_s, column.count) for column in made] == [(0.0, 1)]


def test_only_successful_handshakes_are_picked() -> None:
    recording = served(8)
    handshakes = recording.total().handshakes
    assert handshakes
    succeeded = sum(group.count for group in handshakes.groups if group.ending == "success")
    assert 0 < succeeded < sum(group.count for group in handshakes.groups)
    assert sum(column.count for column in columns(recording, successful(Part.WALL))) == succeeded


@given(st.lists(st.lists(st.integers(0, 1 << 38), min_size=1, max_size=30), min_size=1, max_size=4))
@example([[0, 0, 0, 12832, 13400]])  # two buckets that make one row
def test_heatmap_shows_every_duration_in_a_level(values: list[list[int]]) -> None:
    series = [at(snapshot_of(series_of("SSL_read", Outcome.SUCCESS, one)), second) for second, one in enumerate(values)]
    timeline = columns(Recording.of(series), READ)
    scale = scale_of([timeline])
    assert scale
    assert scale.high - scale.low < 64
    for column in timeline:
        assert column.times
        rows: Counter[int] = Counter()
        for bucket, count in column.times.exponential.by_bucket.items():
            rows[bucket // scale.per_row] += count
        assert all(scale.low <= row <= scale.high for row in rows)
        assert all(0 <= scale.level(count) < len(LEVELS) for count in rows.values())
    assert scale.level(scale.greatest) == len(LEVELS) - 1
    assert scale.level(0) == -1


def test_nothing_has_no_scale() -> None:
    assert scale_of([columns(Recording.of([_interval(0, calls=0)]), READ)]) is None
