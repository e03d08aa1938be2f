# SPDX-License-Identifier: Apache-2.0
"""Student's t against printed tables."""

from __future__ import annotations

import math

import pytest

from ssllatency.model.windows.student import beyond, bound

# The t beyond which |T| is in 5 % and in 1 % of the cases.
TABLE = {
    1: (12.706, 63.657),
    2: (4.303, 9.925),
    3: (3.182, 5.841),
    4: (2.776, 4.604),
    5: (2.571, 4.032),
    10: (2.228, 3.169),
    29: (2.045, 2.756),
    120: (1.980, 2.617),
    math.inf: (1.960, 2.576),
}


@pytest.mark.parametrize("degrees", TABLE)
def test_bounds_are_those_of_the_tables(degrees: float) -> None:
    found = bound(0.05, degrees), bound(0.01, degrees)
    assert found == pytest.approx(TABLE[degrees], abs=0.0006)
    assert beyond(found[0], degrees) == pytest.approx(0.05)


def test_degrees_are_rounded_down() -> None:
    assert bound(0.05, 4.9) == bound(0.05, 4)
    assert bound(0.05, 999.9) == pytest.approx(bound(0.05, 1000), rel=0.002)


@pytest.mark.parametrize("degrees", [1, 2, 7, 1000, math.inf])
def test_ends(degrees: float) -> None:
    assert beyond(0, degrees) == pytest.approx(1)
    assert beyond(math.inf, degrees) == pytest.approx(0, abs=1e-12)
