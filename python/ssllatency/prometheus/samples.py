# SPDX-License-Identifier: Apache-2.0
"""Series of an answer as numbers: native histograms with the kernel's own buckets, and what was counted between two samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.ledger import Value
from ssllatency.export.metrics.points import Distribution
from ssllatency.model.histogram import OVERFLOW, SCALE, UNDERFLOW, ExponentialHistogram, Grid
from ssllatency.prometheus.client import Answer

Labels = Mapping[str, str]

_PER_OCTAVE = 1 << SCALE
_CLOSED_BOTH = 3  # the zero bucket's
_NEAR = 1e-6


@dataclass(frozen=True)
class Samples:
    """One series: its labels, and its value at each time at which it has one."""

    labels: Labels
    values: Mapping[float, Value] = field(default_factory=dict)

    def counted(self, earlier_s: float, later_s: float) -> Value | None:
        """The count from one time to the other; None where nothing was, or the series isn't there at the end.

        A series that begins in between has counted all of its value since; so has one that was reset, whose counts from the
        first time to the reset are lost.
        """
        later, earlier = self.values.get(later_s), self.values.get(earlier_s)
        if later is None or earlier is None:
            return later
        return _since(later, earlier)


def series_of(answer: Answer) -> list[Samples]:
    """The series of an answer. SsllatencyError where one isn't Prometheus's, or isn't a histogram of these buckets."""
    try:
        return [_samples(one) for one in answer]
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        raise SsllatencyError("a series in Prometheus' answer isn't as Prometheus writes them.") from None


def _samples(series: Mapping[str, object]) -> Samples:
    labels, values, histograms = series["metric"], series.get("values") or [], series.get("histograms") or []
    if not isinstance(labels, dict) or not isinstance(values, list) or not isinstance(histograms, list):
        raise TypeError("no series")
    sampled: dict[float, Value] = {float(at_s): _number(value) for at_s, value in values}
    sampled |= {float(at_s): _distribution(value) for at_s, value in histograms}
    return Samples({str(name): str(value) for name, value in labels.items()}, sampled)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("no number")
    return value


def _distribution(histogram: Mapping[str, object]) -> Distribution:
    buckets = histogram.get("buckets") or []
    if not isinstance(buckets, list):
        raise TypeError("no histogram")
    counts: dict[int, int] = {}
    for rule, lower, upper, count in buckets:
        bucket = _bucket(int(rule), float(lower), float(upper))
        counts[bucket] = counts.get(bucket, 0) + _whole(str(count))
    grid = Grid.SECONDS
    dense = [counts.get(bucket, 0) for bucket in range(grid.first_bucket, grid.overflow)]
    read = ExponentialHistogram.from_dense(dense, counts.get(UNDERFLOW, 0), counts.get(OVERFLOW, 0))
    if read.count != _whole(str(histogram["count"])):
        raise ValueError("the buckets don't add up")
    return Distribution(round(_number(str(histogram["sum"])) * 1e9), read)


def _whole(text: str) -> int:
    value = float(text)
    if value < 0 or value != int(value):
        raise ValueError("no count")
    return int(value)


def _bucket(rule: int, lower_s: float, upper_s: float) -> int:
    """The bucket with these bounds. What is longer than the last is in the one after it."""
    if rule == _CLOSED_BOTH:
        return UNDERFLOW
    width, end = math.log2(upper_s / lower_s) * _PER_OCTAVE, math.log2(upper_s) * _PER_OCTAVE
    if abs(width - 1) > _NEAR or abs(end - round(end)) > _NEAR or not UNDERFLOW < round(end) - 1 <= OVERFLOW:
        raise SsllatencyError(
            "Prometheus keeps these histograms in wider buckets than ssllatency counts in: its native_histogram_bucket_limit or"
            " native_histogram_min_bucket_factor has reduced their resolution."
        )
    return round(end) - 1


def _since(later: Value, earlier: Value) -> Value:
    if isinstance(later, Distribution) and isinstance(earlier, Distribution):
        try:
            return Distribution(later.total_ns - earlier.total_ns, later.buckets - earlier.buckets)
        except ValueError:
            return later
    if isinstance(later, Distribution) or isinstance(earlier, Distribution):
        return later
    return later - earlier if later >= earlier else later
