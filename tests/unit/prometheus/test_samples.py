# SPDX-License-Identifier: Apache-2.0
"""Native histograms as Prometheus' API writes them, and what was counted between two samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import Distribution
from ssllatency.model.histogram import OVERFLOW, UNDERFLOW, ExponentialHistogram, bucket_bounds
from ssllatency.prometheus.samples import Samples, series_of

DURATIONS = st.lists(st.integers(0, 10**12), max_size=50)


def written(values_ns: list[int]) -> dict[str, Any]:
    """The histogram of these durations, as the API has it."""
    buckets = []
    for bucket, count in ExponentialHistogram.from_values(values_ns).by_bucket.items():
        low, high = (bound / 1e9 for bound in bucket_bounds(bucket))
        rule, low = (3, -high) if bucket == UNDERFLOW else (0, low)
        buckets.append([rule, repr(low), repr(high), str(count)])
    return {"count": str(len(values_ns)), "sum": repr(sum(values_ns) / 1e9), "buckets": buckets}


def series(*histograms: tuple[float, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"metric": {"service": "nginx"}, "histograms": [list(one) for one in histograms]}]


def distribution(values_ns: list[int]) -> Distribution:
    return Distribution(sum(values_ns), ExponentialHistogram.from_values(values_ns))


@given(DURATIONS)
def test_a_histogram_comes_back(values_ns: list[int]) -> None:
    [samples] = series_of(series((10.0, written(values_ns))))
    read = samples.values[10.0]
    assert isinstance(read, Distribution)
    assert read.buckets == ExponentialHistogram.from_values(values_ns)
    assert read.total_ns == pytest.approx(sum(values_ns), rel=1e-14, abs=1)


def test_the_ends() -> None:
    [samples] = series_of(series((1.0, written([0, 59, 64 * 10**9 + 1]))))
    read = samples.values[1.0]
    assert isinstance(read, Distribution)
    assert read.buckets.by_bucket == {UNDERFLOW: 2, OVERFLOW: 1}


@given(DURATIONS, DURATIONS)
def test_what_was_counted_in_between(first: list[int], then: list[int]) -> None:
    samples = Samples({}, {1.0: distribution(first), 2.0: distribution(first + then)})
    assert samples.counted(1.0, 2.0) == distribution(then)


def test_a_reset_counts_what_came_after_it() -> None:
    samples = Samples({}, {1.0: distribution([5000, 6000]), 2.0: distribution([7000])})
    assert samples.counted(1.0, 2.0) == distribution([7000])
    assert Samples({}, {1.0: 9.0, 2.0: 4.0}).counted(1.0, 2.0) == 4.0
    assert Samples({}, {1.0: 4.0, 2.0: 9.0}).counted(1.0, 2.0) == 5.0


def test_a_series_that_begins_or_ends() -> None:
    samples = Samples({}, {2.0: distribution([5000])})
    assert samples.counted(1.0, 2.0) == distribution([5000])
    assert samples.counted(2.0, 3.0) is None


def test_wider_buckets_are_refused() -> None:
    low, high = (bound / 1e9 for bound in bucket_bounds(-100))
    wide = {"count": "1", "sum": "1", "buckets": [[0, repr(low), repr(high * 2 ** (1 / 16)), "1"]]}
    with pytest.raises(SsllatencyError, match="wider buckets"):
        series_of(series((1.0, wide)))


@pytest.mark.parametrize(
    "histogram",
    [
        {},
        {"count": "1", "sum": "1"},
        {"count": "1", "sum": "NaN", "buckets": [[0, "0.5", "0.52", "1"]]},
        {"count": "1", "sum": "1", "buckets": [[0, "0", "1", "1"]]},
        {"count": "1", "sum": "1", "buckets": [[0, "-1", "1", "1"]]},
        {"count": "1", "sum": "1", "buckets": [["a", "b"]]},
        {"count": "1", "sum": "1", "buckets": "none"},
        {"count": "-1", "sum": "1", "buckets": []},
        {"count": "0.5", "sum": "1", "buckets": [[3, "-1", "1", "0.5"]]},
        {"count": "1e400", "sum": "1", "buckets": [[3, "-1", "1", "1e400"]]},
    ],
)
def test_what_is_no_histogram_is_refused(histogram: dict[str, Any]) -> None:
    with pytest.raises(SsllatencyError):
        series_of(series((1.0, histogram)))


@pytest.mark.parametrize("answer", [{}, {"metric": []}, {"metric": {}, "values": 3}, {"metric": {}, "values": [[1, "Inf"]]}])
def test_what_is_no_series_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(SsllatencyError, match="isn't as Prometheus writes them"):
        series_of([answer])
