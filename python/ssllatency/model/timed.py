# SPDX-License-Identifier: Apache-2.0
"""Common traits of everything timed, calls of a function and parts of handshakes: durations in a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ssllatency.model.histogram import ExponentialHistogram, quantile_rank


class Timed(Protocol):
    """Durations in nanoseconds. The extremes are None where they are not known exactly."""

    @property
    def total_ns(self) -> int: ...
    @property
    def min_ns(self) -> int | None: ...
    @property
    def max_ns(self) -> int | None: ...
    @property
    def exponential(self) -> ExponentialHistogram: ...


def quantile_ns(timed: Timed, q: float) -> float | None:
    """The q-quantile in nanoseconds, at most 2.2 % off; exact where it is the shortest or the longest duration.

    None where it is not known: nothing counted, or a quantile among what is shorter than 59.6 ns or longer than 64 s.
    """
    count = timed.exponential.count
    if not count:
        return None
    rank = quantile_rank(q, count)
    if rank == count and timed.max_ns is not None:
        return timed.max_ns
    if rank == 1 and timed.min_ns is not None:
        return timed.min_ns
    estimate = timed.exponential.quantile(q)
    if estimate is None:
        return None
    if timed.max_ns is not None:
        estimate = min(estimate, timed.max_ns)
    return estimate if timed.min_ns is None else max(estimate, timed.min_ns)


def least_ns(parts: Sequence[Timed]) -> int | None:
    """The minimum of all parts where it is sure: one part's unknown minimum hides the known ones unless it must be larger."""
    extremes = [part.min_ns for part in parts if part.min_ns is not None]
    unsure = [part.exponential for part in parts if part.min_ns is None and part.exponential.count]
    least = min(extremes, default=None)
    sure = least is not None and all(times.bucket_at(1) > times.grid.counted_bucket(least) for times in unsure)
    return least if sure else None


def greatest_ns(parts: Sequence[Timed]) -> int | None:
    """The maximum of all parts where it is sure, as least_ns()."""
    extremes = [part.max_ns for part in parts if part.max_ns is not None]
    unsure = [part.exponential for part in parts if part.max_ns is None and part.exponential.count]
    greatest = max(extremes, default=None)
    sure = greatest is not None and all(times.bucket_at(times.count) < times.grid.counted_bucket(greatest) for times in unsure)
    return greatest if sure else None


def interval_extremes(later: Timed, interval: ExponentialHistogram) -> tuple[int | None, int | None]:
    """Minimum and maximum of an interval: the later snapshot's where they fall into its outer buckets, else None."""
    if not interval.count:
        return None, None
    lowest, highest, counted_bucket = interval.bucket_at(1), interval.bucket_at(interval.count), interval.grid.counted_bucket
    return (
        later.min_ns if later.min_ns is not None and counted_bucket(later.min_ns) == lowest else None,
        later.max_ns if later.max_ns is not None and counted_bucket(later.max_ns) == highest else None,
    )
