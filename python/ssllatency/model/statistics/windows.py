# SPDX-License-Identifier: Apache-2.0
"""Estimates of all calls from those that were seen in windows.

Time is divided into strata, and in each lies one window at a random place. A stratum's calls are estimated as those of its
window times the ratio of the two lengths; one that was watched all the time is its own window. How far the sum may be off is
told by the differences between the windows of neighbouring strata (Wolter, Introduction to Variance Estimation, chapter 8):
they hold whatever makes windows differ, bursts and drift as well, so the intervals are rather too wide than too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ssllatency.model.histogram import OVERFLOW, UNDERFLOW, bucket_bounds
from ssllatency.model.sampling import Estimate, Interval
from ssllatency.model.statistics.student import bound

_LEAST_WINDOWS = 4  # from fewer no interval is told
_OUTSIDE = 0.05  # the part of the intervals that may miss the truth

Counts = Mapping[int, float]  # calls by bucket of the exponential histogram
Function = tuple[str, str]  # its name, and the outcome of its calls


@dataclass(frozen=True)
class Stratum:
    """A part of the time: how long it was, how long its window was, and the calls that began in that by function and outcome.
    Seconds."""

    length_s: float
    watched_s: float
    calls: Mapping[Function, Counts] = field(default_factory=dict)


def estimates(strata: Sequence[Stratum]) -> tuple[Estimate, ...]:
    """Those of every function and outcome of which a call was seen."""
    seen = sorted({key for stratum in strata for key, calls in stratum.calls.items() if calls})
    return tuple(_estimate(key, strata) for key in seen)


def _estimate(key: Function, strata: Sequence[Stratum]) -> Estimate:
    in_windows = [stratum.calls.get(key, {}) for stratum in strata]
    total, error = _total([sum(calls.values()) for calls in in_windows], strata)
    count = Interval(total, None, None)
    if error is not None:
        count = Interval(total, max(total - error, 0.0), total + error)
    return Estimate(*key, count, _percentile(0.99, in_windows, strata))


def _total(values: Sequence[float], strata: Sequence[Stratum]) -> tuple[float, float | None]:
    """The sum over all strata of what was seen in their windows, and how far it may be off; None for that with few windows."""
    rates = [value / stratum.watched_s for value, stratum in zip(values, strata, strict=True)]
    total = sum(rate * stratum.length_s for rate, stratum in zip(rates, strata, strict=True))
    windowed = [number for number, stratum in enumerate(strata) if stratum.watched_s < stratum.length_s]
    if not windowed:
        return total, 0.0
    if len(windowed) < _LEAST_WINDOWS:
        return total, None
    steps = [(rates[later] - rates[earlier]) ** 2 / 2 for earlier, later in pairwise(windowed)]
    variance_of_rate = sum(steps) / len(steps)
    weights = (_unseen(strata[number]) * strata[number].length_s ** 2 for number in windowed)
    degrees = max(1.0, 2 / 3 * len(steps))  # of successive differences, which share windows
    return total, bound(_OUTSIDE, degrees) * math.sqrt(variance_of_rate * sum(weights))


def _unseen(stratum: Stratum) -> float:
    return 1 - stratum.watched_s / stratum.length_s


def _percentile(q: float, in_windows: Sequence[Counts], strata: Sequence[Stratum]) -> Interval | None:
    """The quantile's bucket, each window's calls weighted by what it stands for; its bounds by the part that lies beyond it."""
    weighted: dict[int, float] = {}
    for calls, stratum in zip(in_windows, strata, strict=True):
        for bucket, count in calls.items():
            weighted[bucket] = weighted.get(bucket, 0.0) + count * stratum.length_s / stratum.watched_s
    whole = sum(weighted.values())
    if not whole:
        return None
    middle = _bucket_at(weighted, q * whole)
    beyond = [sum(count for bucket, count in calls.items() if bucket > middle) for calls in in_windows]
    part = sum(count for bucket, count in weighted.items() if bucket > middle) / whole
    residuals = [number - part * sum(calls.values()) for number, calls in zip(beyond, in_windows, strict=True)]
    _, error = _total(residuals, strata)
    value = math.sqrt(math.prod(_bounds(middle)))
    if error is None:
        return Interval(value, None, None)
    low, high = (_bucket_at(weighted, min(max(share, 0.0), 1.0) * whole) for share in (q - error / whole, q + error / whole))
    return Interval(value, _bounds(low)[0], _bounds(high)[1])


def _bucket_at(weighted: Mapping[int, float], rank: float) -> int:
    """The bucket in which the calls up to its end reach the rank."""
    cumulated = 0.0
    for bucket in sorted(weighted):
        cumulated += weighted[bucket]
        if cumulated >= rank:
            return bucket
    return max(weighted)


def _bounds(bucket: int) -> tuple[float, float]:
    """The bucket's bounds in nanoseconds: of the underflow from 1, of the overflow both where it begins."""
    if bucket == UNDERFLOW:
        return 1.0, bucket_bounds(bucket)[1]
    low, high = bucket_bounds(bucket)
    return (low, low) if bucket == OVERFLOW else (low, high)


MOST_STRATA = 256


def fewer(strata: Sequence[Stratum]) -> list[Stratum]:
    """The same strata, each two neighbours as one: for the estimates nearly as good, with half of the memory."""
    return [_joined(strata[start : start + 2]) for start in range(0, len(strata), 2)]


def _joined(pair: Sequence[Stratum]) -> Stratum:
    """Neighbours as one, in which a call counts for as much as before: where one was watched for a larger part of its time than
    the other, its calls become parts of calls."""
    length_s, watched_s = sum(stratum.length_s for stratum in pair), sum(stratum.watched_s for stratum in pair)
    calls: dict[Function, dict[int, float]] = {}
    for stratum in pair:
        weight = stratum.length_s / stratum.watched_s * watched_s / length_s
        for key, counts in stratum.calls.items():
            own = calls.setdefault(key, {})
            for bucket, count in counts.items():
                own[bucket] = own.get(bucket, 0.0) + count * weight
    return Stratum(length_s, watched_s, calls)
