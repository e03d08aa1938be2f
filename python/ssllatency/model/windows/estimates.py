# SPDX-License-Identifier: Apache-2.0
"""Estimates of all calls from those that were seen in windows.

Time is divided into strata, and in each lies one window at a random place. The calls of all strata are estimated as those of
the windows times the ratio of what the processes did in all to what they did in windows (bases.py); a stratum that was watched
all the time counts as it is. How far the sum may be off is told by the differences between the windows of neighbouring strata,
of what the ratio leaves unexplained (Wolter, Introduction to Variance Estimation, chapter 8): they hold whatever makes windows
differ, bursts and drift as well, so the intervals are rather too wide than too narrow.

Strata follow one another in a chain; measurements of several runs have several, whose sums and variances are added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ssllatency.data_class import dataclass
from ssllatency.model.histogram import OVERFLOW, UNDERFLOW, bucket_bounds
from ssllatency.model.sampling import NONE, Basis, Estimate, Function, Interval, Stratum
from ssllatency.model.windows import bases
from ssllatency.model.windows.student import bound

_LEAST_WINDOWS = 4  # from fewer no interval is told
_OUTSIDE = 0.05  # the part of the intervals that may miss the truth
_UNSURE = 0.005  # of a total: windows begin and end for a call and for its system calls not in the same instant
_DEARER = 1.5  # of what tracing took: by so much more it may have taken, beside caches and clients that have to be woken

Chain = Sequence[Stratum]


def basis_of(chain: Chain) -> Basis:
    """The basis that the calls of these strata are scaled by."""
    return bases.choose([stratum for stratum in with_windows(chain) if stratum.in_part])


def estimates(*chains: Chain) -> tuple[Estimate, ...]:
    """Those of every function and outcome of which a call was seen."""
    chains = tuple(with_windows(chain) for chain in chains)
    seen = sorted({key for chain in chains for stratum in chain for key, calls in stratum.calls.items() if calls})
    return tuple(_estimate(key, chains) for key in seen)


def _estimate(key: Function, chains: Sequence[Chain]) -> Estimate:
    totals = [_total([_calls(stratum, key) for stratum in chain], chain, basis_of(chain)) for chain in chains if chain]
    return Estimate(*key, _sum(totals).interval, _percentile(0.99, key, chains))


def _calls(stratum: Stratum, key: Function) -> float:
    return sum(stratum.calls.get(key, {}).values())


@dataclass(frozen=True)
class _Total:
    """A sum over strata; its variance and the degrees of freedom of that, None with few windows; and how far it may be off
    beyond chance, to both sides and upwards."""

    value: float
    variance: float | None = 0.0
    degrees: float = math.inf
    unsure: float = 0.0
    more: float = 0.0

    @property
    def error(self) -> float | None:
        """The distance by which the sum may be off."""
        if self.variance is None:
            return None
        return self.unsure + (bound(_OUTSIDE, self.degrees) * math.sqrt(self.variance) if self.variance else 0.0)

    @property
    def interval(self) -> Interval:
        if self.error is None or self.more == math.inf:
            return Interval(self.value, None, None)
        return Interval(self.value, max(self.value - self.error, 0.0), self.value + self.error + self.more)


def _sum(totals: Sequence[_Total]) -> _Total:
    """The sum of independent ones; the degrees of freedom as Satterthwaite has them."""
    value, unsure = sum(total.value for total in totals), sum(total.unsure for total in totals)
    more = sum(total.more for total in totals)
    variances = [total.variance for total in totals if total.variance is not None]
    if len(variances) < len(totals):
        return _Total(value, None)
    below = sum(total.variance**2 / total.degrees for total in totals if total.variance)
    return _Total(value, sum(variances), sum(variances) ** 2 / below if below else math.inf, unsure, more)


def _total(values: Sequence[float], chain: Chain, basis: Basis = Basis.TIME) -> _Total:
    """The sum over all strata of what was seen in their windows."""
    pairs = list(zip(values, chain, strict=True))
    whole = sum(value for value, stratum in pairs if not stratum.in_part)
    in_part = [(value, stratum) for value, stratum in pairs if stratum.in_part]
    if not in_part:
        return _Total(whole)
    amounts = [(_amount(stratum, basis), bases.amount(stratum.watched, stratum.watched_s, basis)) for _, stratum in in_part]
    weights = [stratum.length_s / stratum.watched_s for _, stratum in in_part]
    below = sum(weight * watched for weight, (_, watched) in zip(weights, amounts, strict=True))
    if not below:
        return _total(values, chain)
    ratio = sum(weight * value for weight, (value, _) in zip(weights, in_part, strict=True)) / below
    total = ratio * sum(amount for amount, _ in amounts)
    if len(in_part) < _LEAST_WINDOWS:
        return _Total(whole + total, None)
    residuals = [
        (value - ratio * watched) / stratum.watched_s for (value, stratum), (_, watched) in zip(in_part, amounts, strict=True)
    ]
    if basis is Basis.TIME:
        residuals = [value / stratum.watched_s for value, stratum in in_part]
    steps = [(later - earlier) ** 2 / 2 for earlier, later in pairwise(residuals)]
    squares = sum(_unseen(stratum) * stratum.length_s**2 for _, stratum in in_part)
    degrees = max(1.0, 2 / 3 * len(steps))  # of successive differences, which share windows
    unsure = abs(total) * _UNSURE if basis is not Basis.TIME else 0.0
    more = abs(total) * _more([stratum for _, stratum in in_part]) if basis is Basis.CPU_TIME else 0.0
    return _Total(whole + total, sum(steps) / len(steps) * squares, degrees, unsure, more)


def _amount(stratum: Stratum, basis: Basis) -> float:
    return bases.amount(stratum.whole, stratum.length_s, basis)


def _more(in_part: Sequence[Stratum]) -> float:
    """By which part of it a total may be larger, as tracing may have taken more of the processes' CPU time in windows than is
    known, and they less."""
    watched = sum((stratum.watched for stratum in in_part), start=NONE)
    own_ns, unknown_ns = watched.own_ns or 0.0, _DEARER * (watched.cost_ns or 0.0)
    return unknown_ns / (own_ns - unknown_ns) if own_ns > unknown_ns else math.inf


def _unseen(stratum: Stratum) -> float:
    return 1 - stratum.watched_s / stratum.length_s


def _percentile(q: float, key: Function, chains: Sequence[Chain]) -> Interval | None:
    """The quantile's bucket, each window's calls weighted by what it stands for; its bounds by the part that lies beyond it. Of
    processes that are slower in windows only the upper bound is known."""
    weighted: dict[int, float] = {}
    for stratum in itertools.chain.from_iterable(chains):
        for bucket, count in stratum.calls.get(key, {}).items():
            weighted[bucket] = weighted.get(bucket, 0.0) + count * stratum.length_s / stratum.watched_s
    whole = sum(weighted.values())
    if not whole:
        return None
    middle = _bucket_at(weighted, q * whole)
    part = sum(count for bucket, count in weighted.items() if bucket > middle) / whole
    error = _sum([_beyond(middle, part, key, chain) for chain in chains if chain]).error
    value = math.sqrt(math.prod(_bounds(middle)))
    slower = any(bases.is_slower([stratum for stratum in chain if stratum.in_part]) for chain in chains)
    if error is None:
        return Interval(value, None, None)
    low, high = (_bucket_at(weighted, min(max(share, 0.0), 1.0) * whole) for share in (q - error / whole, q + error / whole))
    return Interval(value, 0.0 if slower else _bounds(low)[0], _bounds(high)[1])


def _beyond(middle: int, part: float, key: Function, chain: Chain) -> _Total:
    """Return how many more calls than that part lie beyond the bucket."""
    in_windows = [stratum.calls.get(key, {}) for stratum in chain]
    beyond = [sum(count for bucket, count in calls.items() if bucket > middle) for calls in in_windows]
    return _total([number - part * sum(calls.values()) for number, calls in zip(beyond, in_windows, strict=True)], chain)


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


def with_windows(chain: Chain) -> list[Stratum]:
    """The strata, each that had no window as a part of the one before it, or of the first one that had; none where no stratum
    had one."""
    joined: list[Stratum] = []
    early_s, early = 0.0, NONE
    for stratum in chain:
        if stratum.watched_s:
            joined.append(replace(stratum, length_s=stratum.length_s + early_s, whole=stratum.whole + early))
            early_s, early = 0.0, NONE
        elif joined:
            last = joined[-1]
            joined[-1] = replace(last, length_s=last.length_s + stratum.length_s, whole=last.whole + stratum.whole)
        else:
            early_s, early = early_s + stratum.length_s, early + stratum.whole
    return joined


MOST_STRATA = 256


def fewer(strata: Chain) -> list[Stratum]:
    """The strata, each two neighbours as one: for the estimates nearly as good, with half of the memory."""
    strata = with_windows(strata)
    return [_joined(strata[start : start + 2]) for start in range(0, len(strata), 2)]


def _joined(pair: Sequence[Stratum]) -> Stratum:
    """Neighbours as one, in which a call counts for as much as before: where one was watched for a larger part of its time than
    the other, its calls become parts of calls."""
    length_s, watched_s = sum(stratum.length_s for stratum in pair), sum(stratum.watched_s for stratum in pair)
    whole, watched = NONE, NONE
    calls: dict[Function, dict[int, float]] = {}
    for stratum in pair:
        weight = stratum.length_s / stratum.watched_s * watched_s / length_s
        whole, watched = whole + stratum.whole, watched + stratum.watched * weight
        for key, counts in stratum.calls.items():
            own = calls.setdefault(key, {})
            for bucket, count in counts.items():
                own[bucket] = own.get(bucket, 0.0) + count * weight
    return Stratum(length_s, watched_s, calls, whole, watched)
