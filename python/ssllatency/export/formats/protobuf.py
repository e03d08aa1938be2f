# SPDX-License-Identifier: Apache-2.0
"""Readings as Prometheus' protobuf, with native histograms: messages MetricFamily of io.prometheus.client, each after its
length. The few fields that are used are encoded here; tests decode them with the protobuf library.

The native histogram's schema is the scale of what was counted, its index one more than OpenTelemetry's. What is shorter than
the first bucket is in the zero bucket, whose threshold is that bucket's lower bound. What is longer than the last is in the
one after it: that bucket means "64 s or longer".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, sub

from ssllatency.export.metrics.families import BY_NAME, IN_NANOSECONDS, Family, MetricKind
from ssllatency.export.metrics.points import Distribution, Labels, Point, Reading, nanoseconds
from ssllatency.model.histogram import FIRST_BUCKET, OVERFLOW, SCALE, ExponentialHistogram

CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

ZERO_THRESHOLD_S = 2.0 ** (FIRST_BUCKET / (1 << SCALE))
_TYPES = {MetricKind.COUNTER: 0, MetricKind.GAUGE: 1, MetricKind.HISTOGRAM: 4}
_VALUE_FIELDS = {MetricKind.COUNTER: 3, MetricKind.GAUGE: 2, MetricKind.HISTOGRAM: 7}
_FORMAT = "protobuf"
_MOST_SERVICES = 2048  # whose begin needn't be encoded again
_MOST_REMEMBERED = 8192  # series whose spans needn't be encoded again for each scrape
_ONES = bytes([0, *[1] * 255])  # what each byte becomes
# Buckets that lie together: one or two empty ones between others are written as such, as a gap takes more.
_RUN = re.compile(rb"\x01(?:\x00{0,2}\x01)*")


def pieces(reading: Reading) -> Sequence[bytes]:
    """The exposition in pieces, most of which are those of the reading before."""
    written: list[bytes] = []
    for name, points in groupby(reading.points, key=attrgetter("family")):
        of_family = _family(BY_NAME[name], points)
        written.append(_varint(sum(map(len, of_family))))
        written += of_family
    return written


def _family(family: Family, points: Iterable[Point]) -> Sequence[bytes]:
    head = _text(1, family.prometheus_name) + _text(2, family.help) + _integer(3, _TYPES[family.kind])
    unit = _text(5, family.prometheus_unit) if family.prometheus_unit else b""
    written = [last[1] if (last := point.written)[0] == _FORMAT else _written(family.kind, point) for point in points]
    return [head, *written, unit]


def _written(kind: MetricKind, point: Point) -> bytes:
    value = point.value
    if not isinstance(value, Distribution):
        return point.keep_written(_FORMAT, _number(kind, point, value))
    inner = _histogram(value, _created(15, point.since_s))
    head = b"".join((point.labels_as(_FORMAT) or _kept_labels(point), _HEADS[_VALUE_FIELDS[kind]], _varint(len(inner))))
    return point.keep_written(_FORMAT, b"".join((_HEADS[4], _varint(len(head) + len(inner)), head, inner)))


def _kept_labels(point: Point) -> bytes:
    return point.keep_labels(_FORMAT, _labels(point.labels))


def _number(kind: MetricKind, point: Point, value: float) -> bytes:
    """A counter or gauge. All that is before its value is the same each time: numbers are of one length."""
    created = _created(3, point.since_s) if kind is MetricKind.COUNTER else b""
    begin = point.labels_as(_FORMAT) or _kept_begin(kind, point, created)
    number = value / 1e9 if point.family in IN_NANOSECONDS else value
    return b"".join((begin, _EIGHT_BYTES.pack(number), created))


def _kept_begin(kind: MetricKind, point: Point, created: bytes) -> bytes:
    before, rest = _DOUBLES[1], _EIGHT_BYTES.size + len(created)
    begin = _labels(point.labels) + _HEADS[_VALUE_FIELDS[kind]] + _varint(len(before) + rest) + before
    return point.keep_labels(_FORMAT, _HEADS[4] + _varint(len(begin) + rest) + begin)


def _labels(pairs: Labels) -> bytes:
    return b"".join(_message(1, _text(1, name.replace(".", "_")) + _text(2, value)) for name, value in pairs)


def _histogram(value: Distribution, created: bytes) -> bytes:
    total_ns, buckets = value
    number = _NUMBERS[1] + _varint(buckets.count) + _DOUBLES[2] + _EIGHT_BYTES.pack(total_ns / 1e9)
    zeros = _grid() + _varint(buckets.underflow)
    return b"".join((number, zeros, *_spans_and_deltas(buckets), created))


@lru_cache(1)
def _grid() -> bytes:
    """The schema, the zero bucket's threshold, and what its count follows."""
    return _integer(5, _zigzag(SCALE)) + _double(6, ZERO_THRESHOLD_S) + _NUMBERS[7]


def _spans_and_deltas(buckets: ExponentialHistogram) -> Iterable[bytes]:
    """The runs of buckets, each by its distance from the one before and its length, and each bucket's difference to the last
    one."""
    small, overflow = buckets.as_bytes, buckets.overflow
    filled = bytes(map(bool, buckets.counts)) if small is None else small.translate(_ONES)
    spans, runs = _runs(buckets.offset + 1, filled, min(overflow, 1))
    counted: Sequence[int] = buckets.counts if small is None else small
    counts = [count for start, stop in runs for count in counted[start:stop]]
    if overflow:
        counts.append(overflow)
    if not counts:
        return (spans,)
    deltas = _packed(map(sub, counts, (0, *counts)))
    return spans, _HEADS[13], _varint(len(deltas)), deltas


@lru_cache(_MOST_REMEMBERED)
def _runs(first: int, filled: bytes, longer: int) -> tuple[bytes, Sequence[tuple[int, int]]]:
    """The spans of the runs, where of the buckets from `first` on, by Prometheus' index, those are `filled` that are 1, and
    that of what is longer where `longer` is 1; and where in `filled` each run begins and ends. Of most series they are what
    they were before."""
    runs = [run.span() for run in _RUN.finditer(filled)]
    spans, end = [], -first
    for start, stop in runs:
        spans.append(_span(start - end, stop - start))
        end = stop
    if longer:
        spans.append(_span(OVERFLOW + 1 - first - end, 1))
    # Without a span it would pass for a classic histogram.
    return b"".join(spans or [_span(0, 0)]), runs


@lru_cache(_MOST_REMEMBERED)
def _span(offset: int, length: int) -> bytes:
    return _message(12, _integer(1, _zigzag(offset)) + _integer(2, length))


def _packed(values: Iterable[int]) -> bytes:
    """Signed numbers as packed varints."""
    values = list(values)
    try:
        return b"".join(map(_SMALL_SIGNED.__getitem__, values))
    except KeyError:
        return b"".join(_varint(_zigzag(value)) for value in values)


@lru_cache(_MOST_SERVICES)
def _created(field: int, since_s: float) -> bytes:
    seconds, rest_ns = divmod(nanoseconds(since_s), 10**9)
    return _message(field, _integer(1, seconds) + _integer(2, rest_ns))


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    return _SMALL[value] if value < _SMALL_ONES else _encoded(value)


def _encoded(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_SMALL_ONES = 1024
_SMALL = [_encoded(value) for value in range(_SMALL_ONES)]
_SMALL_SIGNED = {value: _encoded(_zigzag(value)) for value in range(-_SMALL_ONES, _SMALL_ONES)}
# Of a field that is a number, a double, and a message or text.
_NUMBERS, _DOUBLES, _HEADS = ([_encoded(field << 3 | kind) for field in range(16)] for kind in range(3))
_EIGHT_BYTES = struct.Struct("<d")


def _integer(field: int, value: int) -> bytes:
    return _NUMBERS[field] + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _DOUBLES[field] + _EIGHT_BYTES.pack(value)


def _message(field: int, content: bytes) -> bytes:
    return _HEADS[field] + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())
