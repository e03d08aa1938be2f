# SPDX-License-Identifier: Apache-2.0
"""The fields that every row of durations has in the JSON document, and the histogram read again."""

from __future__ import annotations

from ssllatency.model.histogram import SCALE, ExponentialHistogram, Grid
from ssllatency.model.timed import Timed, quantile_ns
from ssllatency.reports.documents.fields import DocumentField

_PERCENTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}


def timed_fields(timed: Timed) -> dict[str, object]:
    """count, total_ns, the extremes, the mean and the percentiles; null where they are not known."""
    count = timed.exponential.count
    estimates = {name: quantile_ns(timed, q) for name, q in _PERCENTILES.items()}
    return {
        "count": count,
        "total_ns": timed.total_ns,
        "min_ns": timed.min_ns,
        "max_ns": timed.max_ns,
        "mean_ns": round(timed.total_ns / count, 2) if count else None,
        # Two decimals keep an estimate near 60 ns within its 2.2 %.
        **{name: None if value is None else round(value, 2) for name, value in estimates.items()},
    }


def exponential_fields(histogram: ExponentialHistogram) -> dict[str, object]:
    """The histogram under "exponential"."""
    return {
        "scale": histogram.scale,
        "grid": histogram.grid.value,
        "offset": histogram.offset,
        "counts": list(histogram.counts),
        "underflow": histogram.underflow,
        "overflow": histogram.overflow,
    }


def _read_exponential(histogram: DocumentField) -> ExponentialHistogram:
    """The histogram that exponential_fields() wrote."""
    scale = histogram.get("scale")
    if scale.whole() != SCALE:
        scale.refuse(f"{SCALE}")
    grid = _read_grid(histogram.optional("grid"))
    counts, offset = histogram.get("counts").wholes(), histogram.get("offset").integer()
    underflow, overflow = histogram.get("underflow").whole(), histogram.get("overflow").whole()
    try:
        return ExponentialHistogram(counts, offset, underflow, overflow, grid)
    except ValueError as error:
        histogram.refuse(f"an exponential histogram ({error})")


def _read_grid(grid: DocumentField | None) -> Grid:
    """The grid by its name; until version 0.2 there was one only, that of nanoseconds, which wasn't named."""
    if grid is None:
        return Grid.NANOSECONDS
    names = [known.value for known in Grid]
    if grid.text() not in names:
        grid.refuse(" or ".join(f'"{name}"' for name in names))
    return Grid(grid.text())


def read_timed(row: DocumentField) -> tuple[int, int | None, int | None, ExponentialHistogram]:
    """The sum, the extremes and the histogram of a row of durations, whose "count" must be the histogram's."""
    extremes = row.get("min_ns").whole_or_null(), row.get("max_ns").whole_or_null()
    exponential = _read_exponential(row.get("exponential"))
    check_count(row, exponential.count)
    return row.get("total_ns").whole(), *extremes, exponential


def check_count(row: DocumentField, counted: int) -> None:
    """Refuse a row whose "count" isn't its histogram's."""
    count = row.get("count")
    if count.whole() != counted:
        count.refuse(f"the sum of its exponential histogram, {counted}")
