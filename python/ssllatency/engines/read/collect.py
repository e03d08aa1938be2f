# SPDX-License-Identifier: Apache-2.0
"""From the bytes of kernel maps to series: pure functions of values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from ssllatency import abi
from ssllatency.data_class import dataclass
from ssllatency.engines.base import LinearRange
from ssllatency.engines.read.zeros import stripped
from ssllatency.model.histogram import ExponentialHistogram, LinearHistogram
from ssllatency.model.sampling import Function
from ssllatency.model.snapshot import Outcome, Series

OUTCOMES = {abi.Outcome[outcome.name]: outcome for outcome in Outcome}
REASONS = {reason.value: reason.name for reason in abi.Reason} | {abi.Reason.UNKNOWN.value: "unknown"}
_COUNT = 8  # bytes of a count
_NO_REASONS = bytes(abi.Series.reasons.size)
_MASK = (1 << abi.Geometry.EXTREME_BITS) - 1

Key = tuple[int, int, int]


class Marks(NamedTuple):
    """The extremes of a row as the kernel keeps them: words that hold an interval's number and a duration."""

    minimum: tuple[int, ...]
    maximum: tuple[int, ...]


@dataclass
class Extremes:
    """The least and the greatest duration of each row over all intervals read so far; none unless they are `wanted`."""

    wanted: bool = True
    intervals: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def take(self, key: Hashable, row: abi.Times | Marks, interval: int) -> tuple[int | None, int | None]:
        """Adds what the row holds of `interval` and of the one just begun; the extremes so far."""
        if not self.wanted:
            return None, None
        words = zip(row.minimum, row.maximum, strict=True)
        extremes = [
            (_MASK - (low & _MASK), high & _MASK) for low, high in words if high >> abi.Geometry.EXTREME_BITS >= interval
        ]
        if key in self.intervals:
            extremes.append(self.intervals[key])
        if not extremes:
            return None, None
        self.intervals[key] = min(low for low, _ in extremes), max(high for _, high in extremes)
        return self.intervals[key]


def marks(row: abi.Times) -> Marks:
    """A copy of those of a row."""
    return Marks(tuple(row.minimum), tuple(row.maximum))


def exponential(row: abi.Times) -> ExponentialHistogram:
    """The kernel's exponential counts. Most buckets are empty at both ends, and most rows are read often: those are never made
    numbers of."""
    raw = bytes(row.exponential)
    start, content = stripped(raw)
    first, last = start // _COUNT, -(-(start + len(content)) // _COUNT)
    return ExponentialHistogram.from_words(raw[first * _COUNT : last * _COUNT], first, row.underflow, row.overflow)


def linear_histogram(counts: Sequence[int], wanted: LinearRange) -> LinearHistogram:
    """The used part of the kernel's linear counts."""
    return LinearHistogram(wanted.minimum, wanted.maximum, wanted.step, tuple(counts[: wanted.buckets + 2]))


def series(
    key: abi.SeriesKey, row: abi.Series, operations: Sequence[str], wanted: LinearRange, extremes: tuple[int | None, int | None]
) -> Series:
    """One row of the kernel's series map."""
    reasons = {}
    if bytes(row.reasons) != _NO_REASONS:  # as of most rows
        reasons = {REASONS.get(number, "unknown"): count for number, count in enumerate(row.reasons[:]) if count}
    return Series(
        function=operations[key.operation],
        outcome=OUTCOMES[abi.Outcome(key.outcome)],
        pid=key.tgid or None,
        total_ns=row.times.total_ns,
        min_ns=extremes[0],
        max_ns=extremes[1],
        exponential=exponential(row.times),
        linear=linear_histogram(row.linear[: wanted.buckets + 2], wanted),
        reasons=reasons,
    )


class SeriesRow:
    """A row of the series map as it is kept: its key, what was `called`, its extremes' words, and the series with those
    extremes that were asked for last, so that it is the same object until something changes."""

    def __init__(self, key: abi.SeriesKey, row: abi.Series, operations: Sequence[str], wanted: LinearRange) -> None:
        self.key: Key = key.tgid, key.operation, key.outcome
        self.called: Function = operations[key.operation], OUTCOMES[abi.Outcome(key.outcome)]
        self.marks = marks(row.times)
        self._series = series(key, row, operations, wanted, (None, None))

    @property
    def exponential(self) -> ExponentialHistogram:
        """Its calls by duration."""
        return self._series.exponential

    def series(self, extremes: tuple[int | None, int | None]) -> Series:
        """The row as a series."""
        if (self._series.min_ns, self._series.max_ns) != extremes:
            self._series = replace(self._series, min_ns=extremes[0], max_ns=extremes[1])
        return self._series


def in_order(series: Iterable[Series], operations: Sequence[str]) -> tuple[Series, ...]:
    """Those that counted anything: by operation, outcome and process, those counted together first."""
    functions = {function: number for number, function in enumerate(operations)}
    outcomes = {outcome: number for number, outcome in enumerate(Outcome)}
    counted = (row for row in series if row.count)
    return tuple(sorted(counted, key=lambda row: (functions[row.function], outcomes[row.outcome], row.pid or 0)))
