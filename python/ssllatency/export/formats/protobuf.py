# SPDX-License-Identifier: Apache-2.0
"""Readings as Prometheus' protobuf, with native histograms: messages MetricFamily of io.prometheus.client, each after its
length. The few fields that are used are encoded here; tests decode them with the protobuf library.

The native histogram's schema is the scale of what was counted, its index one more than OpenTelemetry's. What is shorter than
the first bucket is in the zero bucket, whose threshold is that bucket's lower bound. What is longer than the last is in the
one after it: that bucket means "64 s or longer".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import groupby

from ssllatency.export.metrics.families import BY_NAME, Family, Kind
from ssllatency.export.metrics.points import Distribution, Labels, Point, Reading, nanoseconds
from ssllatency.model.histogram import FIRST_BUCKET, OVERFLOW, SCALE, ExponentialHistogram

CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

ZERO_THRESHOLD_S = 2.0 ** (FIRST_BUCKET / (1 << SCALE))
_TYPES = {Kind.COUNTER: 0, Kind.GAUGE: 1, Kind.HISTOGRAM: 4}
_VALUE_FIELDS = {Kind.COUNTER: 3, Kind.GAUGE: 2, Kind.HISTOGRAM: 7}
_LONGEST_GAP = 2  # empty buckets are written as such rather than as a gap, which takes more


def render(reading: Reading) -> bytes:
    """The whole exposition."""
    families = groupby(reading.points, key=lambda point: point.family)
    return b"".join(_delimited(_family(BY_NAME[name], points)) for name, points in families)


def _family(family: Family, points: Iterable[Point]) -> bytes:
    head = _text(1, family.prometheus_name) + _text(2, family.help) + _integer(3, _TYPES[family.kind])
    unit = _text(5, "seconds") if family.unit == "s" else b""
    return head + b"".join(_message(4, _metric(family.kind, point)) for point in points) + unit


def _metric(kind: Kind, point: Point) -> bytes:
    value = point.value
    created = _created(point.since_s)
    if isinstance(value, Distribution):
        inner = _histogram(value) + _message(15, created)
    else:
        inner = _double(1, value) + (_message(3, created) if kind is Kind.COUNTER else b"")
    return _labels(point.labels) + _message(_VALUE_FIELDS[kind], inner)


def _labels(pairs: Labels) -> bytes:
    return b"".join(_message(1, _text(1, name.replace(".", "_")) + _text(2, value)) for name, value in pairs)


def _histogram(value: Distribution) -> bytes:
    buckets = value.buckets
    spans, deltas = _spans_and_deltas(buckets)
    return b"".join(
        (
            _integer(1, buckets.count),
            _double(2, value.total_ns / 1e9),
            _integer(5, _zigzag(SCALE)),
            _double(6, ZERO_THRESHOLD_S),
            _integer(7, buckets.underflow),
            # Without a span it would pass for a classic histogram.
            *(_message(12, _integer(1, _zigzag(offset)) + _integer(2, length)) for offset, length in spans or [(0, 0)]),
            _message(13, b"".join(_varint(_zigzag(delta)) for delta in deltas)) if deltas else b"",
        )
    )


def _spans_and_deltas(buckets: ExponentialHistogram) -> tuple[list[tuple[int, int]], list[int]]:
    """Runs of buckets, each by its distance from the one before and its length, and each bucket's difference to the last."""
    spans: list[list[int]] = []
    deltas: list[int] = []
    end = before = 0
    for index, count in _indices(buckets):
        gap = index - end
        if not spans or gap > _LONGEST_GAP:
            spans.append([gap, 0])
            gap = 0
        spans[-1][1] += gap + 1
        for filled in (*[0] * gap, count):
            deltas.append(filled - before)
            before = filled
        end = index + 1
    return [(offset, length) for offset, length in spans], deltas


def _indices(buckets: ExponentialHistogram) -> Iterator[tuple[int, int]]:
    """The buckets that aren't empty, by Prometheus' index."""
    for number, count in enumerate(buckets.counts, buckets.offset + 1):
        if count:
            yield number, count
    if buckets.overflow:
        yield OVERFLOW + 1, buckets.overflow


def _created(since_s: float) -> bytes:
    seconds, rest_ns = divmod(nanoseconds(since_s), 10**9)
    return _integer(1, seconds) + _integer(2, rest_ns)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _delimited(content: bytes) -> bytes:
    return _varint(len(content)) + content
