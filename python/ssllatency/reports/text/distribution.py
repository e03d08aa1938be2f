# SPDX-License-Identifier: Apache-2.0
"""The part of the text report that looks as bpftrace's ssllatency does: linear histograms and stats, in microseconds.

Two sections, as there: @hist and @stat are the calls that succeeded, @histF and @statF all others, retries included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ssllatency.model.histogram import LinearHistogram
from ssllatency.model.snapshot import Outcome, Series
from ssllatency.reports.words.units import printable

_BAR_COLUMNS = 52
_KIBI = 1024
_MEBI = 1024 * 1024


@dataclass(frozen=True)
class _Calls:
    """The calls of one function in one section."""

    function: str
    linear: LinearHistogram
    count: int
    total_ns: int


def paragraphs(series: Sequence[Series]) -> list[list[str]]:
    """The lines of the histograms, of @stat and of @statF; each may be empty. One series a function and outcome."""
    succeeded = _collected(one for one in series if one.outcome is Outcome.SUCCESS)
    others = _collected(one for one in series if one.outcome is not Outcome.SUCCESS)
    histograms = [*_histograms("@hist", succeeded), *_histograms("@histF", others)]
    return [histograms, list(_stats("@stat", succeeded)), list(_stats("@statF", others))]


def _collected(series: Iterable[Series]) -> list[_Calls]:
    """Calls by function, retries and failures together."""
    calls: dict[str, list[Series]] = {}
    for one in series:
        calls.setdefault(one.function, []).append(one)
    return [
        _Calls(
            printable(function),
            LinearHistogram.added([one.linear for one in group]),
            sum(one.count for one in group),
            sum(one.total_ns for one in group),
        )
        for function, group in calls.items()
    ]


def _histograms(label: str, calls: Iterable[_Calls]) -> Iterator[str]:
    # bpftrace prints a map of histograms by ascending number of calls, and a map of stats by ascending total.
    for one in sorted(calls, key=lambda one: (one.count, one.function)):
        yield f"{label}[{one.function}]:"
        yield from _rows(one.linear)


def _rows(linear: LinearHistogram) -> Iterator[str]:
    filled = [position for position, count in enumerate(linear.counts) if count]
    if not filled:
        return
    most = max(linear.counts)
    bounds = linear.bounds
    for position in range(filled[0], filled[-1] + 1):
        count = linear.counts[position]
        bar = "@" * (count * _BAR_COLUMNS // most)
        yield f"{_range(*bounds[position], linear.step):<16}{count:>8} |{bar:<{_BAR_COLUMNS}}|"


def _range(lower: int | None, upper: int | None, step: int) -> str:
    if lower is None:
        return f"(..., {_bound(upper or 0, step)})"
    return f"[{_bound(lower, step)}, {'...' if upper is None else _bound(upper, step)})"


def _bound(value: int, step: int) -> str:
    # As newer bpftrace: K and M only where the step is a multiple of 1024. Older ones write [1000, 1K) for step 8.
    if value == 0 or step % _KIBI:
        return str(value)
    if value % _MEBI == 0:
        return f"{value // _MEBI}M"
    return f"{value // _KIBI}K" if value % _KIBI == 0 else str(value)


def _stats(label: str, calls: Iterable[_Calls]) -> Iterator[str]:
    for one in sorted(calls, key=lambda one: (one.total_ns, one.function)):
        average_us, total_us = one.total_ns // one.count // 1000, one.total_ns // 1000
        yield f"{label}[{one.function}]: count {one.count}, average {average_us}, total {total_us}"
