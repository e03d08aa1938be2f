# SPDX-License-Identifier: Apache-2.0
"""Quantiles as people read them."""

from __future__ import annotations

from ssllatency.model.timed import Timed, quantile_ns
from ssllatency.units import duration


def quantile(timed: Timed, q: float) -> str:
    """The q-quantile as duration() writes it; where it lies past an end of the histogram, past which."""
    estimate = quantile_ns(timed, q)
    bounds = timed.exponential.quantile_range(q)
    if estimate is not None or bounds is None:
        return duration(estimate)
    return f"<={duration(bounds[1])}" if bounds[0] < 0 else f">{duration(bounds[0])}"
