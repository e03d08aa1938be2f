# SPDX-License-Identifier: Apache-2.0
"""Counts that were seen in windows only, and what is estimated from that: plain data.
model/windows/estimates.py makes the estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from enum import StrEnum

from ssllatency.data_class import dataclass

Counts = Mapping[int, float]  # calls by bucket of the exponential histogram
Function = tuple[str, str]  # its name, and the outcome of its calls


class Basis(StrEnum):
    """The quantity that calls are scaled by."""

    IO_CALLS = "system calls"
    CPU_TIME = "CPU time"
    TIME = "time"


@dataclass(frozen=True)
class Work:
    """The work of the traced processes: their read and write system calls, and their CPU time without what tracing took of it
    and that by itself, in nanoseconds. None where it isn't known."""

    io_calls: float | None = None
    own_ns: float | None = None
    cost_ns: float | None = None

    def __add__(self, other: Work) -> Work:
        return self._by_field(other, lambda one, two: one + two)

    def __sub__(self, earlier: Work) -> Work:
        return self._by_field(earlier, lambda new, old: max(0.0, new - old))

    def __mul__(self, factor: float) -> Work:
        return self._by_field(self, lambda value, _: value * factor)

    def _by_field(self, other: Work, of_both: Callable[[float, float], float]) -> Work:
        pairs = ((getattr(self, name), getattr(other, name)) for name in _FIELDS)
        return Work(*(None if one is None or two is None else of_both(one, two) for one, two in pairs))


_FIELDS = tuple(field.name for field in fields(Work))
UNKNOWN, NONE = Work(), Work(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Stratum:
    """A part of the time: how long it was, how long its window was, 0 where it had none, and the calls that began in that by
    function and outcome. Seconds. `whole` and `watched`: the processes' work in the stratum, and in its window."""

    length_s: float
    watched_s: float
    calls: Mapping[Function, Counts] = field(default_factory=dict)
    whole: Work = UNKNOWN
    watched: Work = UNKNOWN

    @property
    def in_part(self) -> bool:
        """Whether some of it wasn't watched."""
        return self.watched_s < self.length_s


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % bounds, both None where there were too few windows."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """The estimate for a function's calls with one outcome: how many there were, and the 99th percentile of their times in
    nanoseconds, None where none was seen."""

    function: str
    outcome: str
    count: Interval
    p99_ns: Interval | None


@dataclass(frozen=True)
class Sampling:
    """The counts that were seen in windows only: these functions were watched for `watched_s` of `duration_s` seconds, in
    `windows`.

    `unfinished`: calls that began in a window and hadn't ended a while after it: they aren't counted. `scaled_by`: what the
    calls of windows were scaled by. `chains`: what the estimates were made of, each the strata of one run in their order; where
    there are none, several can't be added up. `dearer`: how many times as much hits took in windows as they were measured at.
    `exact_share`: the part of its processor time that watching all the time would take of whoever pays most; None where that
    isn't known.
    """

    functions: tuple[str, ...]
    watched_s: float
    duration_s: float
    windows: int
    unfinished: int
    estimates: tuple[Estimate, ...]
    scaled_by: Basis = Basis.TIME
    chains: tuple[tuple[Stratum, ...], ...] = ()
    dearer: float = 1.0
    exact_share: float | None = None
