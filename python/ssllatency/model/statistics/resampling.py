# SPDX-License-Identifier: Apache-2.0
"""The uncertainty of rates, means and percentiles: a bootstrap over the blocks of a recording, or over the counts of one block.

Spreads are those of the logarithm, as what is compared are ratios. The draws are the same each time, and the same for all calls
of a recording.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from operator import mul
from random import Random
from statistics import variance

from ssllatency.data_class import dataclass
from ssllatency.model.histogram import BUCKET_COUNT, SCALE, ExponentialHistogram, Grid
from ssllatency.model.timed import Timed

DRAWS = 1000
_SEED = 1
BUCKET = math.log(2) / (1 << SCALE)  # the width of a bucket, logarithm
_ENOUGH = 30  # blocks of fewer calls in all would mostly be empty


class Quantity(StrEnum):
    """A quantity that is compared of the calls of a function, or of a part of handshakes. RATE is in calls a second."""

    RATE = "rate"
    MEAN = "mean"
    P50 = "p50"
    P90 = "p90"
    P99 = "p99"


QUANTILES = {Quantity.P50: Fraction(1, 2), Quantity.P90: Fraction(9, 10), Quantity.P99: Fraction(99, 100)}
# Required calls: so many that 10 lie beyond a percentile, the fewest that determine its position.
FEWEST = {Quantity.RATE: 0, Quantity.MEAN: _ENOUGH, Quantity.P50: _ENOUGH, Quantity.P90: 100, Quantity.P99: 1000}


@dataclass(frozen=True)
class Spread:
    """The variance of a quantity's logarithm, and the degrees of freedom that it was learned from."""

    variance: float
    degrees: float


@dataclass(frozen=True)
class Block:
    """The calls of one kind in some stretch of time; `times` is None where there were none."""

    duration_s: float
    times: Timed | None


Weights = tuple[int, ...]


def draws(blocks: int) -> list[Weights]:
    """Return how often each of so many blocks is drawn, for each resample."""
    random, drawn_weights = Random(_SEED), []
    for _ in range(DRAWS):
        weights = [0] * blocks
        for drawn in random.choices(range(blocks), k=blocks):
            weights[drawn] += 1
        drawn_weights.append(tuple(weights))
    return drawn_weights


class Sample:
    """The calls of one kind in one recording by its blocks, at least one, and the draws of these."""

    def __init__(self, blocks: Sequence[Block], drawn: Sequence[Weights]) -> None:
        times, self._draws = [block.times for block in blocks], drawn
        self._durations_us = [max(1, round(block.duration_s * 1e6)) for block in blocks]
        self._totals = [timed.total_ns if timed else 0 for timed in times]
        self._slots = [_slots(timed.exponential) if timed else [0] * (BUCKET_COUNT + 2) for timed in times]
        grids = [timed.exponential.grid for timed in times if timed and timed.exponential.count]
        self._middles = _MIDDLES[grids[0] if grids else Grid.SECONDS]
        self._counts = [sum(slots) for slots in self._slots]
        self.count = sum(self._counts)

    def spread(self, quantity: Quantity) -> Spread | None:
        """Return how uncertain the quantity is; None where there are too few calls to tell."""
        if self.count < FEWEST[quantity]:
            return None
        blocks = len(self._counts)
        if blocks < 2 or self.count < _ENOUGH:
            return Spread(self._variance_by_counts(quantity) + _rounding(quantity), math.inf)
        resampled = [self._logarithm(quantity, weights) for weights in self._draws if any(map(mul, weights, self._counts))]
        # A resample varies less than the blocks do, by the one degree of freedom that their mean takes.
        return Spread(variance(resampled) * blocks / (blocks - 1) + _rounding(quantity) / blocks, blocks - 1)

    def _logarithm(self, quantity: Quantity, weights: Weights) -> float:
        """The logarithm of the quantity in a resample that holds calls."""
        count = _weighted(weights, self._counts)
        if quantity is Quantity.RATE:
            return math.log(count / _weighted(weights, self._durations_us))
        if quantity is Quantity.MEAN:
            return math.log(max(1, _weighted(weights, self._totals)) / count)
        rank = _rank(quantity, count)
        slots = self._between[quantity]
        return self._middles[slots[bisect_left(slots, rank, key=lambda slot: _weighted(weights, self._cumulated[slot]))]]

    @cached_property
    def _cumulated(self) -> list[tuple[int, ...]]:
        """By slot, how many calls of each block took that long or less."""
        return list(zip(*(accumulate(slots) for slots in self._slots), strict=True))

    @cached_property
    def _between(self) -> dict[Quantity, range]:
        """The slots in which a percentile of a resample can be: none but those between the blocks' own."""
        ranges = {}
        for quantity in QUANTILES:
            own = [
                bisect_left(list(accumulate(slots)), _rank(quantity, count))
                for slots, count in zip(self._slots, self._counts, strict=True)
                if count
            ]
            ranges[quantity] = range(min(own), max(own) + 1)
        return ranges

    def _variance_by_counts(self, quantity: Quantity) -> float:
        """The bootstrap over single calls. For rate and mean it has a limit that needs no drawing."""
        slots = [sum(column) for column in zip(*self._slots, strict=True)]
        if quantity is Quantity.RATE:
            return 1 / (self.count + 0.5)
        if quantity is Quantity.MEAN:
            return _relative_variance(slots, self._middles) / self.count
        # The k-th shortest of n drawn calls lies where the k-th least of n uniform numbers does, whose law is known.
        random, cumulated = Random(_SEED), list(accumulate(slots))
        rank = _rank(quantity, self.count)
        places = (random.betavariate(rank, self.count - rank + 1) * self.count for _ in range(DRAWS))
        return variance(self._middles[bisect_left(cumulated, place)] for place in places)


def _rank(quantity: Quantity, count: int) -> int:
    """Return which of so many calls, from the shortest and from 1, is the percentile."""
    percentile = QUANTILES[quantity]
    return -(-percentile.numerator * count // percentile.denominator)


def _rounding(quantity: Quantity) -> float:
    """The variance of where in its bucket a percentile lies, which no resample shows."""
    return BUCKET**2 / 12 if quantity in QUANTILES else 0.0


def _relative_variance(slots: Sequence[int], middles: Sequence[float]) -> float:
    """The variance of single calls, their mean being 1."""
    count = sum(slots)
    values = [math.exp(middle) for middle in middles]
    mean: float = sum(map(mul, slots, values)) / count
    return sum(slot * (value - mean) ** 2 for slot, value in zip(slots, values, strict=True)) / count / mean**2


def _weighted(weights: Weights, values: Sequence[int]) -> int:
    return sum(map(mul, weights, values))


def _slots(histogram: ExponentialHistogram) -> list[int]:
    return [histogram.underflow, *histogram.dense, histogram.overflow]


def _middles(grid: Grid) -> list[float]:
    """The logarithm of each slot's middle in nanoseconds; of the bound where a slot is open."""
    edges = [math.log(grid.bucket_bounds(bucket)[0]) for bucket in range(grid.first_bucket, grid.overflow + 1)]
    return [edges[0], *((low + high) / 2 for low, high in pairwise(edges)), edges[-1]]


_MIDDLES = {grid: _middles(grid) for grid in Grid}
