# SPDX-License-Identifier: Apache-2.0
"""What was seen in windows only, and what is estimated from that: plain data. model/statistics/windows.py makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % bounds, both None where there were too few windows. They are those of a server that does in
    windows what it does between them."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """What is estimated of a function's calls with one outcome: how many there were, and the 99th percentile of their times in
    nanoseconds, None where none was seen."""

    function: str
    outcome: str
    count: Interval
    p99_ns: Interval | None


@dataclass(frozen=True)
class Sampling:
    """What was seen in windows only: these functions were watched for `watched_s` of `duration_s` seconds, in `windows`.

    `unfinished`: calls that began in a window and hadn't ended a while after it: they aren't counted.
    """

    functions: tuple[str, ...]
    watched_s: float
    duration_s: float
    windows: int
    unfinished: int
    estimates: tuple[Estimate, ...]
