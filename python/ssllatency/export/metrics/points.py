# SPDX-License-Identifier: Apache-2.0
"""The points of all metrics at one moment: plain values, as one process hands them to another and as the formats write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ssllatency.model.histogram import ExponentialHistogram

Labels = tuple[tuple[str, str], ...]  # sorted by name


@dataclass(frozen=True)
class Distribution:
    """Durations: their sum, and how many in which bucket."""

    total_ns: int
    buckets: ExponentialHistogram


@dataclass(frozen=True)
class Point:
    """One series' value: of a counter that is a time, and of a gauge, in seconds. `since_s`: since when it counts, by the Unix
    epoch's seconds."""

    family: str
    labels: Labels
    value: Distribution | float
    since_s: float


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
    return tuple(sorted((name, value) for name, value in values.items() if value))


def to_frame(reading: Reading) -> bytes:
    """The reading in one line."""
    points = [[point.family, point.labels, _encoded(point.value), point.since_s] for point in reading.points]
    return json.dumps([reading.host, reading.at_s, points, reading.ended], separators=(",", ":")).encode() + b"\n"


def from_frame(frame: bytes) -> Reading:
    """The reading that to_frame() made a line of. ValueError for anything else."""
    try:
        host, at_s, points, ended = json.loads(frame)
        return Reading(
            str(host),
            float(at_s),
            tuple(Point(str(name), _labels(pairs), _decoded(value), float(since)) for name, pairs, value, since in points),
            tuple((str(name), _labels(pairs)) for name, pairs in ended),
        )
    except (TypeError, RecursionError) as error:
        raise ValueError(f"no reading: {error}") from None


def _labels(pairs: Iterable[Sequence[str]]) -> Labels:
    return tuple([(name, value) for name, value in pairs])


def _encoded(value: Distribution | float) -> object:
    if isinstance(value, Distribution):
        buckets = value.buckets
        return [value.total_ns, buckets.offset, buckets.underflow, buckets.overflow, *buckets.counts]
    return value


def _decoded(value: object) -> Distribution | float:
    if isinstance(value, list):
        total_ns, offset, underflow, overflow, *counts = value
        return Distribution(total_ns, ExponentialHistogram(tuple(counts), offset, underflow, overflow))
    if isinstance(value, int | float):
        return value
    raise TypeError("no value")
