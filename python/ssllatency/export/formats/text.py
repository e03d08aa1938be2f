# SPDX-License-Identifier: Apache-2.0
"""Readings as text: OpenMetrics 1.0, and Prometheus' older format. Histograms have classic buckets, whose bounds are bounds of
the buckets that were counted, so that their counts are exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from ssllatency.export.metrics.families import BY_NAME, Family, MetricKind
from ssllatency.export.metrics.points import Distribution, Labels, Point, Reading
from ssllatency.model.histogram import SCALE, ExponentialHistogram

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

# The bounds are these powers of 2 seconds: 61 us to 64 s, the last that is counted.
POWERS = (-14, -12, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 2, 4, 6)
_BOUNDS = [f'{2.0**power!r}"}} ' for power in POWERS]  # as the end of a label, and of all labels
_ENDS = [power << SCALE for power in POWERS]  # the buckets that follow them
_MOST_REMEMBERED = 8192  # series whose labels needn't be written again for each scrape
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render(reading: Reading, *, open_metrics: bool) -> bytes:
    """The whole exposition."""
    written: list[bytes] = []
    for name, points in groupby(reading.points, key=lambda point: point.family):
        family, kind = BY_NAME[name], "OpenMetrics" if open_metrics else "text"
        written.append(_encoded(_head(family, open_metrics=open_metrics)))
        written += (point.written_as(kind) or _written(kind, family, point) for point in points)
    return b"".join((*written, b"# EOF\n" if open_metrics else b""))


def _written(kind: str, family: Family, point: Point) -> bytes:
    return point.keep_written(kind, _encoded(_point(family, point, open_metrics=kind == "OpenMetrics")))


def _encoded(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _base(family: Family, *, open_metrics: bool) -> str:
    name = family.prometheus_name
    return name.removesuffix("_total") if open_metrics else name


def _head(family: Family, *, open_metrics: bool) -> Iterator[str]:
    base = _base(family, open_metrics=open_metrics)
    yield f"# HELP {base} {family.help}"
    yield f"# TYPE {base} {family.kind}"
    if open_metrics and family.prometheus_unit:
        yield f"# UNIT {base} {family.prometheus_unit}"


def _point(family: Family, point: Point, *, open_metrics: bool) -> Iterator[str]:
    written, name = _labels(point.labels), family.prometheus_name
    if isinstance(point.value, Distribution):
        yield from _histogram(name, written, point.value)
    else:
        yield f"{name}{_in_braces(written)} {point.value!r}"
    if open_metrics and family.kind is not MetricKind.GAUGE:
        yield f"{_base(family, open_metrics=True)}_created{_in_braces(written)} {point.since_s!r}"


def _histogram(name: str, written: str, value: Distribution) -> Iterator[str]:
    begin = f'{name}_bucket{{{written}{"," if written else ""}le="'
    for bound, count in zip(_BOUNDS, cumulated(value.buckets), strict=True):
        yield f"{begin}{bound}{count}"
    yield f'{begin}+Inf"}} {value.buckets.count}'
    yield f"{name}_count{_in_braces(written)} {value.buckets.count}"
    yield f"{name}_sum{_in_braces(written)} {value.total_ns / 1e9!r}"


def cumulated(buckets: ExponentialHistogram) -> list[int]:
    """Return how many durations aren't longer than each of the bounds."""
    counts, first, most = buckets.counts, buckets.offset, len(buckets.counts)
    so_far, seen, found = buckets.underflow, 0, []
    for end in _ENDS:
        stop = min(max(0, end - first), most)
        if stop > seen:
            so_far += sum(counts[seen:stop])
            seen = stop
        found.append(so_far)
    return found


@lru_cache(_MOST_REMEMBERED)
def _labels(pairs: Labels) -> str:
    return ",".join(f'{name.replace(".", "_")}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def _in_braces(written: str) -> str:
    return f"{{{written}}}" if written else ""
