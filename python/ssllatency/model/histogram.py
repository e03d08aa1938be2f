# SPDX-License-Identifier: Apache-2.0
"""The two histograms of a series, with the kernel's exact bucket rules, exact sums and exact differences.

The exponential one is OpenTelemetry's at scale 4, in seconds: bucket i holds the calls that took base^i s < t <= base^(i+1) s,
where base is 2^(1/16). Buckets -384 to 95 are counted, from 59.6 ns (2^-24 s, not included) to 64 s; what is shorter goes to
`underflow`, what is longer to `overflow`. Prometheus' native histograms of schema 4 have the same buckets, numbered from one
more. Older recordings counted by powers of two of a nanosecond, whose bounds are others: each histogram has its grid.
The linear one is the ssllatency style's: equal steps of whole microseconds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from operator import add, sub
from typing import TYPE_CHECKING, ClassVar

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError

SCALE = 4
BUCKET_COUNT = 480

_PER_OCTAVE = 1 << SCALE
_SECOND_POWER = (10**9) ** _PER_OCTAVE
_SHIFT = 480  # 2^480 is the first such power above it
_WORD_BITS, _WORD_BYTES = 64, 8  # of a count, as the kernel keeps it
_ALL_ONES = (1 << _WORD_BITS) - 1
Numbers = tuple[int, int, int, int]  # a histogram: its counts as one number, the first bucket of these, underflow and overflow


class Grid(Enum):
    """The bounds of exponential buckets: at powers of 2^(1/16) of a unit. The value names the unit in JSON."""

    SECONDS = "s"
    NANOSECONDS = "ns"

    @property
    def unit_ns(self) -> int:
        """The unit in nanoseconds."""
        return 10**9 if self is Grid.SECONDS else 1

    @property
    def first_bucket(self) -> int:
        """The first bucket that is counted; BUCKET_COUNT - 1 others follow."""
        return -384 if self is Grid.SECONDS else 96

    @property
    def underflow(self) -> int:
        """The number that stands for all buckets before the first."""
        return self.first_bucket - 1

    @property
    def overflow(self) -> int:
        """The number that stands for all buckets after the last."""
        return self.first_bucket + BUCKET_COUNT

    def bucket_index(self, value_ns: int) -> int:
        """The exponential bucket that `value_ns` belongs to, exactly; it may lie outside the counted buckets.

        Values of 0 and 1 ns give the same. Raises ValueError for a negative value.
        """
        if value_ns < 0:
            raise ValueError(f"a duration can't be negative: {value_ns} ns")
        # unit 2^(i/16) < v <= unit 2^((i+1)/16) is 2^i < (v/unit)^16 <= 2^(i+1), which whole numbers decide without rounding.
        power: int = max(value_ns, 1) ** _PER_OCTAVE
        if self is Grid.NANOSECONDS:
            return (power - 1).bit_length() - 1
        shifted: int = -(-(power << _SHIFT) // _SECOND_POWER)
        return (shifted - 1).bit_length() - 1 - _SHIFT

    def bucket_bounds(self, index: int) -> tuple[float, float]:
        """The bounds of bucket `index` in nanoseconds: the lower one excluded, the upper one included."""
        return self.unit_ns * 2.0 ** (index / _PER_OCTAVE), self.unit_ns * 2.0 ** ((index + 1) / _PER_OCTAVE)

    def counted_bucket(self, value_ns: int) -> int:
        """Like bucket_index(), with `underflow` and `overflow` for what lies outside the counted buckets."""
        return min(max(self.bucket_index(value_ns), self.underflow), self.overflow)


FIRST_BUCKET = Grid.SECONDS.first_bucket
UNDERFLOW, OVERFLOW = Grid.SECONDS.underflow, Grid.SECONDS.overflow
bucket_index = Grid.SECONDS.bucket_index
bucket_bounds = Grid.SECONDS.bucket_bounds
counted_bucket = Grid.SECONDS.counted_bucket


def octave_bounds(bit: int) -> list[int]:
    """The sixteen bounds in seconds' grid from 2^bit ns on, less than an octave, rounded down to whole nanoseconds.

    A duration of that octave lies above a bound exactly if it is greater than the bound rounded down. The first is that of
    bucket 16 bit - 478. Raises ValueError below bit 30, where rounding would need fractions.
    """
    if bit < 30:
        raise ValueError(f"the bounds from 2^{bit} ns on aren't whole powers of 10^9 ns")
    return [_sixteenth_root(_SECOND_POWER << (_PER_OCTAVE * bit + number - 478)) for number in range(_PER_OCTAVE)]


def _sixteenth_root(number: int) -> int:
    for _ in range(SCALE):
        number = math.isqrt(number)
    return number


def quantile_rank(q: float, count: int) -> int:
    """Return which of `count` calls, ordered from the shortest and numbered from 1, is the q-quantile.

    It is the first that at least a fraction q of all calls do not exceed. Raises ValueError unless 0 <= q <= 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
    from fractions import Fraction  # not before the probes are attached

    # 0.07 as a binary fraction is a little more than 7/100, and would move the rank of 100 calls from 7 to 8.
    return max(1, math.ceil(Fraction(q).limit_denominator(1_000_000) * count))


def _no_negative(counts: tuple[int, ...]) -> None:
    if min(counts) < 0:
        raise ValueError("a histogram can't count fewer than no calls")


@dataclass
class ExponentialHistogram:
    """Calls by duration. `counts` is dense from bucket `offset`; `underflow` counts what is shorter than the grid's first
    bucket (up to 59.6 ns), `overflow` what is longer than its last (past 64 s).

    Buckets that are zero at either end are left out, so equal histograms compare equal. Raises ValueError for negative
    counts and for buckets outside the BUCKET_COUNT from the grid's first on.

    The kernel's counts, and sums of such, are kept as one number, `packed`, of which each count is a word: as one they are
    read, added and handed on in a fraction of the time, and `counts` is made when it is asked for, which it is of few.

    It doesn't change. That isn't enforced: thousands are made in a reading, and take three times as long where it is.
    """

    counts: tuple[int, ...]
    offset: int
    underflow: int = 0
    overflow: int = 0
    grid: Grid = Grid.SECONDS
    scale: ClassVar[int] = SCALE
    _packed: ClassVar[int | None] = None  # of one that is kept as a number
    _bytes: ClassVar[bytes | None] = None  # of one that is kept as bytes, a count each
    _counted: ClassVar[int | None] = None  # the number of calls, once it was asked for

    def __post_init__(self) -> None:
        _no_negative((*self.counts, self.underflow, self.overflow))
        counts, offset = self.counts, self.offset
        if not counts or not counts[0] or not counts[-1]:
            counts, offset = self._without_ends()
        if offset < self.grid.first_bucket or offset + len(counts) > self.grid.overflow:
            raise ValueError(f"the buckets of a histogram are {self.grid.first_bucket} to {self.grid.overflow - 1}")
        self.counts, self.offset = counts, offset

    def __hash__(self) -> int:
        return hash((self.counts, self.offset, self.underflow, self.overflow, self.grid))

    def _without_ends(self) -> tuple[tuple[int, ...], int]:
        """The buckets without those at the ends that are empty, and where they begin."""
        first = next((position for position, count in enumerate(self.counts) if count), len(self.counts))
        last = len(self.counts) - next((position for position, count in enumerate(reversed(self.counts)) if count), 0)
        counts = self.counts[first:last]
        return counts, self.offset + first if counts else self.grid.first_bucket

    @classmethod
    def _of_counts(cls, counts: tuple[int, ...], offset: int, outside: tuple[int, int], grid: Grid) -> ExponentialHistogram:
        """A histogram without a check, for sums of histograms: half the time of making one."""
        made = cls.__new__(cls)
        underflow, overflow = outside
        made.__dict__.update(counts=counts, offset=offset, underflow=underflow, overflow=overflow, grid=grid)
        return made

    @classmethod
    def from_words(cls, words: bytes, first: int, underflow: int, overflow: int) -> ExponentialHistogram:
        """From the memory of the kernel's counts from its bucket number `first` on, of which neither the first nor the last is
        0."""
        return cls.from_packed(
            int.from_bytes(words, "little"), FIRST_BUCKET + first if words else FIRST_BUCKET, underflow, overflow
        )

    @classmethod
    def from_packed(cls, packed: int, offset: int, underflow: int, overflow: int) -> ExponentialHistogram:
        """From the kernel's counts as one number, the first of which is that of bucket `offset`. Made without a check."""
        made = cls.__new__(cls)
        made._packed = packed  # type: ignore[misc]
        made.offset, made.underflow, made.overflow = offset, underflow, overflow
        return made

    @classmethod
    def from_bytes(cls, counts: bytes, offset: int, underflow: int, overflow: int) -> ExponentialHistogram:
        """From counts below 256, a byte of which is one, else alike: it needn't become a number to be written."""
        made = cls.__new__(cls)
        made._bytes = counts  # type: ignore[misc]
        made.offset, made.underflow, made.overflow = offset, underflow, overflow
        return made

    @property
    def as_bytes(self) -> bytes | None:
        """The counts, a byte each; None where one is 256 or more."""
        if self._bytes is not None:
            return self._bytes
        lowest = self.words[::_WORD_BYTES]
        return lowest if sum(lowest) == self.count - self.underflow - self.overflow else None

    @property
    def packed(self) -> int:
        """The counts as one number, that of the first bucket lowest; each has to be less than 2^64."""
        if self._packed is not None:
            return self._packed
        return int.from_bytes(struct.pack(f"<{len(self.counts)}Q", *self.counts), "little")

    @property
    def words(self) -> bytes:
        """The counts as the kernel keeps them, a word each."""
        return self.packed.to_bytes(-(-self.packed.bit_length() // _WORD_BITS) * _WORD_BYTES, "little")

    @classmethod
    def from_dense(cls, counts: Sequence[int], underflow: int = 0, overflow: int = 0) -> ExponentialHistogram:
        """From all BUCKET_COUNT buckets, as the kernel keeps them."""
        if len(counts) != BUCKET_COUNT:
            raise ValueError(f"a dense histogram has {BUCKET_COUNT} buckets, not {len(counts)}")
        return cls(tuple(counts), FIRST_BUCKET, underflow, overflow)

    @classmethod
    def from_values(cls, values_ns: Iterable[int]) -> ExponentialHistogram:
        """From durations in nanoseconds, by the exact rule that the kernel follows."""
        slots = [0] * (BUCKET_COUNT + 2)
        for value in values_ns:
            slots[counted_bucket(value) - UNDERFLOW] += 1
        return cls.from_dense(slots[1:-1], slots[0], slots[-1])

    @classmethod
    def added(cls, parts: Sequence[ExponentialHistogram]) -> ExponentialHistogram:
        """The calls of all, at least one. Raises SsllatencyError where their grids differ."""
        if len(parts) == 1:
            return parts[0]
        if packed := cls._of_packed(parts):
            return packed
        parts = _of_one_grid(parts)
        if len(parts) == 1:
            return parts[0]
        if len(parts) == 2:
            return parts[0]._and(parts[1])
        filled = [part for part in parts if part.counts] or parts[:1]
        start = min([part.offset for part in filled])
        counts = [0] * (max([part.offset + len(part.counts) for part in filled]) - start)
        underflow = overflow = 0
        for part in parts:
            first = part.offset - start
            if part.counts:
                counts[first : first + len(part.counts)] = map(add, counts[first : first + len(part.counts)], part.counts)
            underflow += part.underflow
            overflow += part.overflow
        return cls._of_counts(tuple(counts), start, (underflow, overflow), parts[0].grid)

    @classmethod
    def _of_packed(cls, parts: Sequence[ExponentialHistogram]) -> ExponentialHistogram | None:
        """The calls of all, if all are kept as numbers."""
        numbers = []
        for part in parts:
            packed = part._packed
            if packed is None:
                return None
            numbers.append((packed, part.offset, part.underflow, part.overflow))
        return cls.of_numbers(numbers)

    @classmethod
    def of_numbers(cls, several: Iterable[Numbers]) -> ExponentialHistogram:
        """The calls of all, each as for from_packed(). No word overflows, as a kernel that counts a call each nanosecond would
        take five centuries to."""
        packed = start = underflow = overflow = 0
        for number, offset, shorter, longer in several:
            if offset == start or not number:
                packed += number
            elif not packed:
                packed, start = number, offset
            elif offset > start:
                packed += number << (offset - start) * _WORD_BITS
            else:
                packed, start = (packed << (start - offset) * _WORD_BITS) + number, offset
            underflow += shorter
            overflow += longer
        return cls.from_packed(packed, start if packed else FIRST_BUCKET, underflow, overflow)

    def _and(self, other: ExponentialHistogram) -> ExponentialHistogram:
        """The calls of both, whose grids are the same: in a third of the time that it takes for any number of histograms."""
        first, second = (self, other) if self.offset <= other.offset else (other, self)
        if not (first.counts and second.counts):
            filled = self if self.counts else other
            counts, offset = filled.counts, filled.offset
        else:
            offset, longer, shorter = first.offset, first.counts, (0,) * (second.offset - first.offset) + second.counts
            if len(longer) < len(shorter):
                longer, shorter = shorter, longer
            counts = tuple(map(add, longer, shorter + (0,) * (len(longer) - len(shorter))))
        outside = self.underflow + other.underflow, self.overflow + other.overflow
        return self._of_counts(counts, offset, outside, self.grid)

    @property
    def dense(self) -> tuple[int, ...]:
        """All BUCKET_COUNT buckets."""
        return self._between(self.grid.first_bucket, self.grid.overflow)

    @property
    def count(self) -> int:
        """Number of calls."""
        count = self._counted
        if count is None:
            # Of the words of a number the sum is what is left of it beside multiples of 2^64 - 1, as of digits beside nines.
            inner = sum(self._bytes or self.counts) if self._packed is None else self._packed % _ALL_ONES
            count = self.underflow + inner + self.overflow
            self._counted = count  # type: ignore[misc]
        return count

    @property
    def by_bucket(self) -> dict[int, int]:
        """The buckets that aren't empty with their counts, ascending; `grid` numbers the underflow and the overflow."""
        inner = enumerate(self.counts, self.offset)
        dense = ((self.grid.underflow, self.underflow), *inner, (self.grid.overflow, self.overflow))
        return {bucket: count for bucket, count in dense if count}

    def bucket_at(self, rank: int) -> int:
        """The bucket of the rank-th shortest call: the grid's underflow and overflow for what lies outside.

        Raises ValueError where there is no such call.
        """
        if not 1 <= rank <= self.count:
            raise ValueError(f"there is no call number {rank} of {self.count}")
        cumulated = self.underflow
        if rank <= cumulated:
            return self.grid.underflow
        for index, count in enumerate(self.counts, self.offset):
            cumulated += count
            if rank <= cumulated:
                return index
        return self.grid.overflow

    def quantile_range(self, q: float) -> tuple[float, float] | None:
        """Bounds in nanoseconds, lower excluded and upper included, that the q-quantile surely lies between.

        Of the underflow they begin at -1, so that 0 ns is inside; of the overflow they end at infinity. None when empty.
        """
        if not self.count:
            return None
        bucket = self.bucket_at(quantile_rank(q, self.count))
        lower, upper = self.grid.bucket_bounds(bucket)
        if bucket == self.grid.underflow:
            return -1.0, upper
        return (lower, upper) if bucket < self.grid.overflow else (lower, math.inf)

    def quantile(self, q: float) -> float | None:
        """The q-quantile in nanoseconds, at most 2.2 % off the quantile of the calls themselves.

        It is the point of its bucket whose relative error is the least at both ends; a point interpolated by rank could be
        a whole bucket, 4.4 %, off. None when empty, and when the quantile lies in the underflow or the overflow: how short
        or how long those calls were is not known. Clamp it to the series' minimum and maximum where these are known.
        """
        bounds = self.quantile_range(q)
        if bounds is None or bounds[0] < 0 or math.isinf(bounds[1]):
            return None
        lower, upper = bounds
        return 2 * lower * upper / (lower + upper)

    def __sub__(self, earlier: ExponentialHistogram) -> ExponentialHistogram:
        """The calls since `earlier`. Raises ValueError where `earlier` holds calls that this one doesn't."""
        if not earlier.count:
            return self
        if self.grid is not earlier.grid:
            raise ValueError("histograms of different grids have no difference")
        start = min(self.offset, earlier.offset)
        end = max(self.offset + len(self.counts), earlier.offset + len(earlier.counts))
        counts = map(sub, self._between(start, end), earlier._between(start, end))
        underflow, overflow = self.underflow - earlier.underflow, self.overflow - earlier.overflow
        return ExponentialHistogram(tuple(counts), start, underflow, overflow, self.grid)

    def _between(self, start: int, end: int) -> tuple[int, ...]:
        before = self.offset - start
        return (0,) * before + self.counts + (0,) * (end - start - before - len(self.counts))


class _CountsOnDemand:
    """The counts of a histogram that is kept as one number or as bytes, made when they are asked for first. Not by
    `__getattr__`, with which every attribute of the class takes several times as long."""

    def __get__(self, histogram: ExponentialHistogram | None, _: object = None) -> tuple[int, ...]:
        if histogram is None:
            raise AttributeError("counts")
        if histogram._bytes is not None:
            counts = tuple(histogram._bytes)
        elif histogram._packed is not None:
            counts = _unpacked(histogram._packed)
        else:
            raise AttributeError("counts")
        histogram.counts = counts
        return counts


if not TYPE_CHECKING:
    ExponentialHistogram.counts = _CountsOnDemand()


def _unpacked(packed: int) -> tuple[int, ...]:
    words = -(-packed.bit_length() // _WORD_BITS)
    return struct.unpack(f"<{words}Q", packed.to_bytes(words * _WORD_BYTES, "little"))


def added_linear(parts: Sequence[LinearHistogram | None]) -> LinearHistogram | None:
    """The calls of all, at least one; None where one isn't known. Raises SsllatencyError when their buckets differ."""
    kept = [part for part in parts if part is not None]
    return LinearHistogram.added(kept) if len(kept) == len(parts) else None


def _of_one_grid(parts: Sequence[ExponentialHistogram]) -> Sequence[ExponentialHistogram]:
    """All parts, or where their grids differ those that count anything, or the first of them all."""
    grid = parts[0].grid
    for part in parts:
        if part.grid is not grid:
            break
    else:
        return parts
    filled = [part for part in parts if part.count] or parts[:1]
    if any(part.grid is not filled[0].grid for part in filled):
        raise SsllatencyError(
            "The recordings are of different versions of ssllatency, whose histograms have different bucket bounds (powers of"
            " two of a nanosecond and of a second), so they can't be added up exactly: report each by itself."
        )
    return filled


@dataclass(frozen=True)
class LinearHistogram:
    """Calls by duration in equal steps. `minimum`, `maximum` and `step` are whole microseconds.

    The first of `counts` is what took less than `minimum`, the last what took `maximum` or more; between them are
    ceil((maximum - minimum) / step) buckets that each include their lower bound. Raises ValueError when that isn't so.
    """

    minimum: int
    maximum: int
    step: int
    counts: tuple[int, ...]
    unit: ClassVar[str] = "us"

    def __post_init__(self) -> None:
        if not 0 <= self.minimum < self.maximum or self.step < 1:
            raise ValueError("a linear histogram needs 0 <= minimum < maximum and a step of at least 1")
        if len(self.counts) != self.size(self.minimum, self.maximum, self.step):
            raise ValueError(f"{self.minimum} to {self.maximum} by {self.step} doesn't make {len(self.counts)} buckets")
        _no_negative(self.counts)

    @staticmethod
    def size(minimum: int, maximum: int, step: int) -> int:
        """Return how many counts such a histogram has, the two outer ones included."""
        return -(-(maximum - minimum) // step) + 2

    @classmethod
    def from_values(cls, minimum: int, maximum: int, step: int, values_ns: Iterable[int]) -> LinearHistogram:
        """From durations in nanoseconds, by the exact rule that the kernel follows: whole microseconds, rounded down."""
        counts = [0] * cls.size(minimum, maximum, step)
        for value in values_ns:
            value_us = value // 1000
            inner = (value_us - minimum) // step + 1
            counts[0 if value_us < minimum else -1 if value_us >= maximum else inner] += 1
        return cls(minimum, maximum, step, tuple(counts))

    @classmethod
    def added(cls, parts: Sequence[LinearHistogram]) -> LinearHistogram:
        """The calls of all, at least one. Raises SsllatencyError when their buckets differ."""
        parts[0]._check_like(parts[1:])
        return replace(parts[0], counts=tuple(map(sum, zip(*(part.counts for part in parts), strict=True))))

    @property
    def bounds(self) -> tuple[tuple[int | None, int | None], ...]:
        """The bounds of each of `counts` in microseconds, lower included and upper excluded; None where it is open."""
        edges = (None, *range(self.minimum, self.maximum, self.step), self.maximum, None)
        return tuple(pairwise(edges))

    @property
    def count(self) -> int:
        """Number of calls."""
        return sum(self.counts)

    def __sub__(self, earlier: LinearHistogram) -> LinearHistogram:
        """The calls since `earlier`. Raises SsllatencyError when the buckets differ, ValueError when `earlier` holds more."""
        self._check_like((earlier,))
        return replace(self, counts=tuple(map(sub, self.counts, earlier.counts)))

    def _check_like(self, others: Iterable[LinearHistogram]) -> None:
        ranges = ((histogram.minimum, histogram.maximum, histogram.step) for histogram in (self, *others))
        described = [f"{minimum} to {maximum} us by {step}" for minimum, maximum, step in dict.fromkeys(ranges)]
        if len(described) > 1:
            raise SsllatencyError(
                f"The linear histograms have different buckets ({' and '.join(described)}):"
                " measure both with the same range and step."
            )
