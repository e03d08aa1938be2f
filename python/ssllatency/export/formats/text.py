# SPDX-License-Identifier: Apache-2.0
"""Readings as text: OpenMetrics 1.0, and Prometheus' older format. Histograms have classic buckets, whose bounds are bounds of
the buckets that were counted, so that their counts are exact."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from ssllatency.data_class import dataclass
from ssllatency.export.metrics.families import BY_NAME, IN_NANOSECONDS, Family, MetricKind
from ssllatency.export.metrics.points import Distribution, Labels, Point, Reading
from ssllatency.model.histogram import SCALE, ExponentialHistogram

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

# The bounds are these powers of 2 seconds: 61 us to 64 s, the last that is counted.
POWERS = (-14, -12, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 2, 4, 6)
_ENDS = [power << SCALE for power in POWERS]  # the buckets that follow them
_MOST_REMEMBERED = 8192  # series whose labels needn't be written again for each scrape
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\"", "%": "%%"})


def pieces(reading: Reading, *, open_metrics: bool) -> Sequence[bytes]:
    """The exposition in pieces, most of which are those of the reading before."""
    kind, written = "OpenMetrics" if open_metrics else "text", []
    for name, points in groupby(reading.points, key=attrgetter("family")):
        family = BY_NAME[name]
        words = _words(family, open_metrics=open_metrics)
        written.append(words.head)
        written += [last[1] if (last := point.written)[0] == kind else _written(kind, words, point) for point in points]
    return [*written, b"# EOF\n"] if open_metrics else written


@dataclass(frozen=True)
class _Words:
    """The words of a family and of its points, which are most of the text, in pieces between which a point's labels go.

    `number`: of a number, which is `%b`. `bounds`: of a histogram's lines up to the last bucket's, whose counts are `%d`, and
    `sums` of those that follow. `created`: of the line that says since when a point counts; none where no line does.
    """

    head: bytes
    number: Sequence[bytes]
    bounds: Sequence[bytes]
    sums: Sequence[bytes]
    created: Sequence[bytes]


@lru_cache(2 * len(BY_NAME))
def _words(family: Family, *, open_metrics: bool) -> _Words:
    name = family.prometheus_name
    base = name.removesuffix("_total") if open_metrics else name
    head = f"# HELP {base} {family.help}\n# TYPE {base} {family.kind}\n"
    if open_metrics and family.prometheus_unit:
        head += f"# UNIT {base} {family.prometheus_unit}\n"
    bounds = [f'le="{2.0**power!r}"}} %d\n{name}_bucket{{' for power in POWERS]
    return _Words(
        head.encode(),
        _pieces(name, " %b\n"),
        _pieces(f"{name}_bucket{{", *bounds, 'le="+Inf"} %d\n'),
        _pieces(f"{name}_count", f" %d\n{name}_sum", " %b\n"),
        _pieces(f"{base}_created", " %b\n") if open_metrics and family.kind is not MetricKind.GAUGE else (),
    )


def _pieces(*pieces: str) -> Sequence[bytes]:
    return [piece.encode() for piece in pieces]


def _written(kind: str, words: _Words, point: Point) -> bytes:
    labels, value = _labels(point.labels), point.value
    if isinstance(value, Distribution):
        total_ns, buckets = value
        count = buckets.count
        text = labels.before_bound.join(words.bounds) + labels.alone.join(words.sums)
        numbers = (*cumulated(buckets), count, count, repr(total_ns / 1e9).encode())
    else:
        number = value / 1e9 if point.family in IN_NANOSECONDS else value
        text, numbers = labels.alone.join(words.number), (repr(number).encode(),)
    if words.created:
        text += labels.alone.join(words.created)
        numbers = (*numbers, _time(point.since_s))
    return point.keep_written(kind, text % numbers)


def cumulated(buckets: ExponentialHistogram) -> list[int]:
    """Return how many durations aren't longer than each of the bounds."""
    counts, first, so_far = buckets.as_bytes or buckets.counts, buckets.offset, buckets.underflow
    if not counts:
        return [so_far] * len(_ENDS)
    begin, stop = bisect_right(_ENDS, first), bisect_left(_ENDS, first + len(counts))
    found, seen = [so_far] * begin, 0
    for end in _ENDS[begin:stop]:
        so_far += sum(counts[seen : end - first])
        seen = end - first
        found.append(so_far)
    return found + [so_far + sum(counts[seen:])] * (len(_ENDS) - stop)


class _Labels(NamedTuple):
    """The labels of a series, as they stand before the bound of a bucket, and alone; in what is formatted with `%`."""

    before_bound: bytes
    alone: bytes


@lru_cache(_MOST_REMEMBERED)
def _labels(pairs: Labels) -> _Labels:
    written = ",".join(f'{name.replace(".", "_")}="{value.translate(_ESCAPES)}"' for name, value in pairs).encode()
    return _Labels(written + b"," if written else b"", b"{%b}" % written if written else b"")


@lru_cache(_MOST_REMEMBERED)
def _time(at_s: float) -> bytes:
    return repr(at_s).encode()
