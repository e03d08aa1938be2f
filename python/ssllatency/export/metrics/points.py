# SPDX-License-Identifier: Apache-2.0
"""The points of all metrics at one moment: plain values, as one process hands them to another and as the formats write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from ssllatency.export.metrics.planes import from_plane, from_planes, to_planes
from ssllatency.model.histogram import ExponentialHistogram

Labels = tuple[tuple[str, str], ...]  # sorted by name
_UNWRITTEN = "", b""
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


class Distribution(NamedTuple):
    """Durations: their sum, and how many in which bucket."""

    total_ns: int
    buckets: ExponentialHistogram

    def is_same(self, other: object) -> bool:
        """Whether the other has the same durations, both as the kernel counts them or sums of such."""
        if not isinstance(other, Distribution) or self.total_ns != other.total_ns:
            return False
        ours, theirs = self.buckets, other.buckets
        return ours is theirs or (
            (ours.offset, ours.underflow, ours.overflow) == (theirs.offset, theirs.underflow, theirs.overflow)
            and ours.packed == theirs.packed
        )


@dataclass(slots=True)
class Point:
    """One series' value: of a counter that is a time in whole nanoseconds, of a gauge that is one in seconds. `since_s`: since
    when it counts, by the Unix epoch's seconds. `written`: what it is in the format that was asked for last, after the format's
    name, and `written_labels` what is the same of all points of its series in there, as its labels. `is_hidden`: it is known to
    have no place of its own, so that it is handed to nobody; nothing else of any other point changes."""

    family: str
    labels: Labels
    value: Distribution | float
    since_s: float
    written: tuple[str, bytes] = field(default=_UNWRITTEN, init=False, compare=False, repr=False)
    written_labels: tuple[str, bytes] = field(default=_UNWRITTEN, init=False, compare=False, repr=False)
    is_hidden: bool = field(default=False, init=False, compare=False, repr=False)

    def written_as(self, kind: str) -> bytes | None:
        """Return what it is in a format; None where another was asked for last."""
        last, written = self.written
        return written if last == kind else None

    def keep_written(self, kind: str, written: bytes) -> bytes:
        """Keeps what the point is in a format, and hands it back: of one format only, as a scraper asks for one."""
        self.written = kind, written
        return written

    def labels_as(self, kind: str) -> bytes | None:
        """Return what was kept of its series for a format; None where another was asked for last."""
        last, written = self.written_labels
        return written if last == kind else None

    def keep_labels(self, kind: str, written: bytes) -> bytes:
        """Keeps what is the same of all points of its series in a format, and hands it back."""
        self.written_labels = kind, written
        return written

    def with_value(self, value: Distribution | float) -> Point:
        """The series' next point."""
        point = Point(self.family, self.labels, value, self.since_s)
        point.written_labels = self.written_labels
        return point


@dataclass(frozen=True)
class Reading:
    """All points at `at_s`, in the order of the families; `host` is the machine's name. `ended`: series that there are no more,
    since the reading before."""

    host: str
    at_s: float
    points: tuple[Point, ...] = ()
    ended: tuple[tuple[str, Labels], ...] = field(default=())


def nanoseconds(at_s: float) -> int:
    """A time as the Unix epoch's nanoseconds, exact to the microsecond, which is what a float of it is good for."""
    return round(at_s * 1e6) * 1000


class NoReading(Exception):
    """The counts can't be had now; the text says why."""


def labels(values: Mapping[str, str]) -> Labels:
    """Labels in order, without those that are empty: to Prometheus the same as absent."""
    return _in_order(tuple(values.items()))


@lru_cache(maxsize=8192)
def _in_order(values: Labels) -> Labels:
    return tuple(sorted((name, value) for name, value in values if value))


class Frames:
    """Readings as lines, on the side that sends them. A point that was in the line before is sent as its number in there, and
    another one of the same series as that number and its value: most haven't changed, and most series are there again."""

    def __init__(self) -> None:
        self._before: tuple[Point, ...] = ()

    def frame(self, reading: Reading) -> bytes:
        """The next line, for one sending."""
        before = (*self._before, *[None] * (len(reading.points) - len(self._before)))
        numbers: dict[tuple[str, int], int] = {}  # of those before, by family and the identity of the labels
        sent: list[object] = []
        for number, (point, last) in enumerate(zip(reading.points, before, strict=False)):
            if point is last:
                sent.append(number)
            elif last and last.labels is point.labels and last.family == point.family and last.since_s == point.since_s:
                sent.append((number, _encoded(point.value)))  # in the same place, as most are
            else:
                numbers = numbers or self._numbers()
                found = numbers.get((point.family, id(point.labels)))
                sent.append(_whole(point) if found is None else _sent(point, found, self._before[found]))
        self._before = reading.points
        line = _ENCODER.encode([reading.host, reading.at_s, sent, reading.ended])
        line += "\n"  # in place, as a copy of these hundreds of kilobytes takes new memory
        return line.encode()

    def _numbers(self) -> dict[tuple[str, int], int]:
        return {(point.family, id(point.labels)): number for number, point in enumerate(self._before)}


def _sent(point: Point, number: int, before: Point) -> object:
    """A point of the series that had this one before, by its number."""
    if point is before:
        return number
    return [number, _encoded(point.value)] if before.since_s == point.since_s else _whole(point)


def _whole(point: Point) -> object:
    return [point.family, point.labels, _encoded(point.value), point.since_s]


class Readings:
    """The readings on the side that gets them: a point that hasn't changed is the same object again."""

    def __init__(self) -> None:
        self._before: tuple[Point, ...] = ()

    def reading(self, frame: bytes) -> Reading:
        """The reading that the next line was made of. ValueError for anything else."""
        try:
            host, at_s, points, ended = json.loads(frame)
            before = self._before
            self._before = tuple(
                [before[sent] if type(sent) is int and sent >= 0 else self._point(sent) for sent in points]  # most
            )
            return Reading(str(host), float(at_s), self._before, tuple((str(name), _labels(pairs)) for name, pairs in ended))
        except (TypeError, IndexError, RecursionError) as error:
            raise ValueError(f"no reading: {error}") from None

    def _point(self, sent: object) -> Point:
        if not isinstance(sent, list):
            raise TypeError("no point")
        if len(sent) == 2:
            number, value = sent
            if number < 0:
                raise TypeError("no number of a point")
            return self._before[number].with_value(_decoded(value))
        name, pairs, value, since = sent
        return Point(str(name), _labels(pairs), _decoded(value), float(since))


def _labels(pairs: Iterable[Sequence[str]]) -> Labels:
    return tuple([(intern(name), intern(value)) for name, value in pairs])  # most are those of many series


def _encoded(value: Distribution | float) -> object:
    if isinstance(value, Distribution):
        total_ns, buckets = value
        width, digits = to_planes(buckets.packed)
        return total_ns, buckets.offset, buckets.underflow, buckets.overflow, width, digits
    return value


def _decoded(value: object) -> Distribution | float:
    if isinstance(value, list):
        total_ns, offset, underflow, overflow, width, digits = value
        if width == 1:  # as of nearly all
            buckets = ExponentialHistogram.from_bytes(from_plane(digits), offset, underflow, overflow)
        else:
            buckets = ExponentialHistogram.from_packed(from_planes(width, digits), offset, underflow, overflow)
        return Distribution(total_ns, buckets)
    if isinstance(value, int | float):
        return value
    raise TypeError("no value")
