# SPDX-License-Identifier: Apache-2.0
"""Student's t distribution, by the finite series that it has for whole degrees of freedom (Abramowitz and Stegun, 26.7.3-4)."""

from __future__ import annotations

import math
from functools import cache

# From here on the normal distribution is as good.
_MANY = 1000


def beyond(t: float, degrees: float) -> float:
    """The probability that |T| is more than t, which is 0 or more. Degrees, at least 1, are rounded down to a whole number."""
    if degrees >= _MANY or math.isinf(t):
        return math.erfc(t / math.sqrt(2))
    whole = int(degrees)
    angle = math.atan(t / math.sqrt(whole))
    sine, cosine = math.sin(angle), math.cos(angle)
    if whole % 2:
        inside = 2 / math.pi * (angle + sine * cosine * _series(cosine, 2, whole))
    else:
        inside = sine * _series(cosine, 1, whole)
    return max(0.0, 1 - inside)


def _series(cosine: float, first: int, end: int) -> float:
    """1 + first/(first+1) cos² + first(first+2)/((first+1)(first+3)) cos⁴ + …, a term for each step of 2 below `end`."""
    total, term = 0.0, 1.0
    for number in range(first, end, 2):
        total += term
        term *= cosine * cosine * number / (number + 1)
    return total


@cache
def bound(probability: float, degrees: float) -> float:
    """The t that |T| is beyond with this probability."""
    low, high = 0.0, 1.0
    while beyond(high, degrees) > probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, degrees) > probability else (low, middle)
    return high
