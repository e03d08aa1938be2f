# SPDX-License-Identifier: Apache-2.0
"""The moment at which a series of numbers changed, if it did: a stretch whose level differs from the level before it, found by
least squares.

Whether there is one at all is tested against the same numbers in random order, by how far the cumulative sum of deviations from
the mean gets: between its least and its greatest value, which shows a stretch anywhere, and at a single place, which shows a
change that lasts. So a single number far from all others is no change, wherever it is, and no distribution is assumed;
neighbours are taken to be no more alike than any others. The draws are the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import comb, log, sqrt
from random import Random
from statistics import fmean

from ssllatency.data_class import dataclass

_SHORTEST = 2  # numbers of a level: one is an outlier
_DRAWS = 999
_FALSE = 0.005  # the probability under which an order is no chance
_SEED = 1


@dataclass(frozen=True)
class Stretch:
    """The numbers from `start` up to `end`, which isn't one of them, are at another level than those before."""

    start: int
    end: int


def shortest_told(number: int) -> int | None:
    """The shortest stretch among so many numbers that is told from chance, wherever it is; None where none is."""
    lengths = range(_SHORTEST, number // 2 + 1)
    return next((length for length in lengths if number <= _FALSE * comb(number, length)), None)


def stretch_of(values: Sequence[float]) -> Stretch | None:
    """The stretch that differs most from what was before; None where nothing changed, or there are too few numbers to tell."""
    if shortest_told(len(values)) is None or not _is_ordered(values):
        return None
    number, sums = len(values), [0.0, *accumulate(values)]

    def explained(start: int, end: int) -> float:
        """By how much two levels, one of the stretch and one of all others, lessen the squared deviations from 0."""
        within = sums[end] - sums[start]
        return within**2 / (end - start) + (sums[-1] - within) ** 2 / (number - end + start)

    starts = range(_SHORTEST, number - _SHORTEST + 1)
    lasting = max(((start, number) for start in starts), key=lambda stretch: explained(*stretch))
    passing = max(
        ((start, end) for start in starts for end in range(start + _SHORTEST, number - _SHORTEST + 1)),
        key=lambda stretch: explained(*stretch),
    )
    squares = sum(value * value for value in values)
    one, two = squares - explained(*lasting), squares - explained(*passing)
    # With an end of its own a stretch fits better in most cases: here by more than that number is worth.
    return Stretch(*(passing if one - two > 2 * log(number) * max(two, 1e-12) / number else lasting))


def _is_ordered(values: Sequence[float]) -> bool:
    """Whether the order of the numbers is no chance."""
    mean = fmean(values)
    deviations = [value - mean for value in values]
    scales = [sqrt(len(values) / (place * (len(values) - place))) for place in range(1, len(values))]
    least = [reach * (1 - 1e-9) for reach in _reaches(deviations, scales)]
    if max(least) < 1e-9:
        return False
    random, reached = Random(_SEED), [0, 0]
    most = int(_FALSE * (_DRAWS + 1)) - 1
    for _ in range(_DRAWS):
        random.shuffle(deviations)
        for kind, reach in enumerate(_reaches(deviations, scales)):
            reached[kind] += reach >= least[kind]
        if min(reached) > most:
            return False
    return True


def _reaches(deviations: Sequence[float], scales: Sequence[float]) -> tuple[float, float]:
    """Return how far the cumulative sum gets: in all, and at one place by the scale of what chance does there."""
    sums = list(accumulate(deviations))
    return max(0.0, *sums) - min(0.0, *sums), max(abs(reached) * scale for reached, scale in zip(sums, scales, strict=False))
