# SPDX-License-Identifier: Apache-2.0
"""The part of the text report that looks as bpftrace's ssllatency does: linear histograms and stats, in microseconds.

Two sections, as there: @hist and @stat are the calls that succeeded, @histF and @statF those that didn't, retries included. And
@histU and @statU: calls of which nothing tells how they ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.histogram import LinearHistogram, added_linear
from ssllatency.model.snapshot import Outcome, Series
from ssllatency.reports.text.page import PLAIN, Page
from ssllatency.units import printable

_SUFFIXES = ("", "F", "U")
_BAR_COLUMNS = 52
_KIBI = 1024
_MEBI = 1024 * 1024


@dataclass(frozen=True)
class _Calls:
    """The calls of one function in one section."""

    function: str
    linear: LinearHistogram | None
    count: int
    total_ns: int


def paragraphs(series: Sequence[Series], page: Page = PLAIN) -> list[list[str]]:
    """The lines of the histograms, of @stat, of @statF and of @statU; each may be empty. One series a function and outcome."""
    suffixes = {Outcome.SUCCESS: "", Outcome.UNKNOWN: "U"}
    sections = {
        suffix: _by_function(calls for calls in series if suffixes.get(calls.outcome, "F") == suffix) for suffix in _SUFFIXES
    }
    histograms = [line for suffix, calls in sections.items() for line in _histograms(f"@hist{suffix}", calls, page)]
    return [histograms, *(list(_stats(f"@stat{suffix}", calls, page)) for suffix, calls in sections.items())]


def _by_function(series: Iterable[Series]) -> list[_Calls]:
    """Calls by function, retries and failures together."""
    functions: dict[str, list[Series]] = {}
    for calls in series:
        functions.setdefault(calls.function, []).append(calls)
    return [
        _Calls(
            printable(function),
            added_linear([calls.linear for calls in outcomes]),
            sum(calls.count for calls in outcomes),
            sum(calls.total_ns for calls in outcomes),
        )
        for function, outcomes in functions.items()
    ]


def _histograms(label: str, functions: Iterable[_Calls], page: Page) -> Iterator[str]:
    # bpftrace prints a map of histograms by ascending number of calls, and a map of stats by ascending total.
    for calls in sorted(functions, key=lambda calls: (calls.count, calls.function)):
        if calls.linear:
            yield f"{label}[{calls.function}]:"
            yield from _rows(calls.linear, page)


def _rows(linear: LinearHistogram, page: Page) -> Iterator[str]:
    filled = [position for position, count in enumerate(linear.counts) if count]
    if not filled:
        return
    most = max(linear.counts)
    bounds = linear.bounds
    positions = range(filled[0], filled[-1] + 1)
    labels = [f"{_range(*bounds[position], linear.step):<16}{linear.counts[position]:>8}" for position in positions]
    cells = _BAR_COLUMNS if page.most is None else min(_BAR_COLUMNS, page.most - max(map(len, labels)) - len(" ||"))
    for label, position in zip(labels, positions, strict=True):
        bar = "@" * (linear.counts[position] * cells // most)
        yield f"{label} |{bar:<{cells}}|"


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


def _stats(label: str, functions: Iterable[_Calls], page: Page) -> Iterator[str]:
    for calls in sorted(functions, key=lambda calls: (calls.total_ns, calls.function)):
        average_us, total_us = calls.total_ns // calls.count // 1000, calls.total_ns // 1000
        line = f"{label}[{calls.function}]: count {calls.count}, average {average_us}, total {total_us}"
        yield from [line] if page.has_room([line]) else page.wrapped(line, "", "  ")
