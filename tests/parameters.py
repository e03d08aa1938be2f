# SPDX-License-Identifier: Apache-2.0
"""Parameters of tests: many of them, a few of which are enough for `make test-quick`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

_Value = TypeVar("_Value")


def slow_except(values: Iterable[_Value], *quick: _Value) -> list[object]:
    """The values as parameters of a test, each marked as slow but the `quick` ones. ValueError for one that isn't there."""
    there = list(values)
    if absent := [value for value in quick if value not in there]:
        raise ValueError(f"no such parameter: {absent}")
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in there]
