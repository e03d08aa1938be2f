# SPDX-License-Identifier: Apache-2.0
"""What repeated pairs of measurements say, with 95 % intervals by Student's t. Pure functions.

A pair is one cost, with a tracer and without, measured one right after the other: a machine that slows down between pairs slows
down both of one, so what differs within pairs isn't the machine's drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from ssllatency.model.windows import student

OUTSIDE = 0.05  # the probability that the true value lies outside an interval


@dataclass(frozen=True)
class Pair:
    """A cost without a tracer and with it, in one unit; both are above 0."""

    without: float
    traced: float

    @property
    def added(self) -> float:
        """What the tracer added, in the unit of the cost."""
        return self.traced - self.without

    @property
    def share(self) -> float:
        """What the tracer added, as a part of the whole cost."""
        return self.added / self.traced


@dataclass(frozen=True)
class Interval:
    """An estimate, and the bounds between which the true value lies with a probability of 95 %."""

    middle: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether the value lies between the bounds."""
        return self.low <= value <= self.high

    @property
    def half_width(self) -> float:
        """Half the distance of the bounds, as a part of the estimate, which isn't 0."""
        return (self.high - self.low) / 2 / abs(self.middle)


def of_mean(values: Sequence[float]) -> Interval:
    """The mean of what the values, at least two, were drawn from."""
    middle, half = fmean(values), _t(len(values)) * stdev(values) / math.sqrt(len(values))
    return Interval(middle, middle - half, middle + half)


def of_ratio(pairs: Sequence[Pair]) -> Interval:
    """The cost with the tracer, divided by that without: the geometric mean over the pairs, of which there are at least two."""
    logarithms = of_mean([math.log(pair.traced / pair.without) for pair in pairs])
    return Interval(math.exp(logarithms.middle), math.exp(logarithms.low), math.exp(logarithms.high))


def of_added(pairs: Sequence[Pair]) -> Interval:
    """What the tracer added, in the unit of the costs: by the ratio, so that it holds 0 where the ratio holds 1."""
    without, ratio = fmean(pair.without for pair in pairs), of_ratio(pairs)
    return Interval(*(without * (bound - 1) for bound in (ratio.middle, ratio.low, ratio.high)))


def of_quotient(above: Sequence[float], below: Sequence[float]) -> Interval | None:
    """The mean of one quantity divided by the mean of another that was measured beside it, by Fieller's theorem. None where the
    mean of the latter can't be told from 0: then no quotient can be excluded."""
    count = len(above)
    t_squared = _t(count) ** 2 / count
    mean_above, mean_below = fmean(above), fmean(below)
    square = mean_below**2 - t_squared * variance(below)
    if square <= 0:
        return None
    product = mean_above * mean_below - t_squared * _covariance(above, below)
    constant = mean_above**2 - t_squared * variance(above)
    root = math.sqrt(max(0.0, product**2 - square * constant))
    return Interval(mean_above / mean_below, (product - root) / square, (product + root) / square)


def is_told(pairs: Sequence[Pair]) -> bool:
    """Whether the pairs tell the tracer from no tracing: whether a ratio of 1 is excluded."""
    return not of_ratio(pairs).holds(1.0)


def _covariance(above: Sequence[float], below: Sequence[float]) -> float:
    mean_above, mean_below = fmean(above), fmean(below)
    products = ((x - mean_above) * (y - mean_below) for x, y in zip(above, below, strict=True))
    return sum(products) / (len(above) - 1)


def _t(count: int) -> float:
    return student.bound(OUTSIDE, count - 1)
