# SPDX-License-Identifier: Apache-2.0
"""Readings as text: OpenMetrics 1.0, and Prometheus' older format. Histograms have classic buckets, whose bounds are bounds of
the buckets that were counted, so that their counts are exact."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from ssllatency.export.metrics.families import BY_NAME, Family, Kind
from ssllatency.export.metrics.points import Distribution, Labels, Point, Reading
from ssllatency.model.histogram import SCALE, ExponentialHistogram

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

# The bounds are these powers of 2 seconds: 61 us to 64 s, the last that is counted.
POWERS = (-14, -12, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 2, 4, 6)
_MOST_REMEMBERED = 8192  # series whose labels needn't be written again for each scrape
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render(reading: Reading, *, open_metrics: bool) -> bytes:
    """The whole exposition."""
    lines: list[str] = []
    for name, points in groupby(reading.points, key=lambda point: point.family):
        lines += _family(BY_NAME[name], list(points), open_metrics=open_metrics)
    if open_metrics:
        lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines).encode()


def _family(family: Family, points: list[Point], *, open_metrics: bool) -> Iterator[str]:
    name = family.prometheus_name
    base = name.removesuffix("_total") if open_metrics else name
    yield f"# HELP {base} {family.help}"
    yield f"# TYPE {base} {family.kind}"
    if open_metrics and family.unit == "s":
        yield f"# UNIT {base} seconds"
    for point in points:
        written = _labels(point.labels)
        if isinstance(point.value, Distribution):
            yield from _histogram(name, written, point.value)
        else:
            yield f"{name}{_in_braces(written)} {_number(point.value)}"
        if open_metrics and family.kind is not Kind.GAUGE:
            yield f"{base}_created{_in_braces(written)} {point.since_s!r}"


def _histogram(name: str, written: str, value: Distribution) -> Iterator[str]:
    comma = "," if written else ""
    for power, count in zip(POWERS, cumulated(value.buckets), strict=True):
        yield f'{name}_bucket{{{written}{comma}le="{2.0**power!r}"}} {count}'
    yield f'{name}_bucket{{{written}{comma}le="+Inf"}} {value.buckets.count}'
    yield f"{name}_count{_in_braces(written)} {value.buckets.count}"
    yield f"{name}_sum{_in_braces(written)} {_number(value.total_ns / 1e9)}"


def cumulated(buckets: ExponentialHistogram) -> list[int]:
    """How many durations aren't longer than each of the bounds."""
    counts, first = buckets.counts, buckets.offset
    return [buckets.underflow + sum(counts[: max(0, (power << SCALE) - first)]) for power in POWERS]


@lru_cache(_MOST_REMEMBERED)
def _labels(pairs: Labels) -> str:
    return ",".join(f'{name.replace(".", "_")}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def _in_braces(written: str) -> str:
    return f"{{{written}}}" if written else ""


def _number(value: float) -> str:
    return repr(value)
