# SPDX-License-Identifier: Apache-2.0
"""The columns of a live table: what stands in a row, how rows are ordered by it, and which columns go first where the terminal
is narrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.live.reading import FUNCTION
from ssllatency.model.live.rows import LiveRow
from ssllatency.model.timed import quantile_ns
from ssllatency.reports.words.quantiles import quantile
from ssllatency.units import duration, rate, share

_NEVER = 0  # columns that stay, however narrow it is
_LEAST_NAME, _MOST_NAME = 13, 32
_LEAST_TREND, _MOST_TREND = 6, 60


@dataclass(frozen=True)
class Column:
    """A column: its key for the options and the state, its heading, how wide it is, what it shows of a row, and by what rows
    are ordered (the greatest first). Columns of the greatest `goes` are left out first."""

    key: str
    heading: str
    width: int
    cell: Callable[[LiveRow], str]
    order: Callable[[LiveRow], float]
    goes: int = _NEVER
    explained: str = ""


def columns(view: str) -> tuple[Column, ...]:
    """The columns beside the name and the trend."""
    return _FUNCTIONS if view == FUNCTION else _HANDSHAKES


@dataclass(frozen=True)
class Layout:
    """The columns that fit, and how wide the name before and the trend after them are."""

    columns: tuple[Column, ...]
    name: int
    trend: int


def layout(view: str, width: int, longest_name: int, *, retries: bool = True) -> Layout:
    """Lay out the columns that fit into so many characters, with a space between columns: the trend is cut first, then the
    name, then columns are left out. `retries`: whether they are known of any row."""
    kept = [column for column in columns(view) if retries or column is not _RETRIES]
    while (left := width - sum(column.width + 1 for column in kept) - 1) < _LEAST_NAME + _LEAST_TREND:
        last = max(kept, key=lambda column: column.goes)
        if last.goes == _NEVER:
            break
        kept.remove(last)
    name = max(_LEAST_NAME, min(longest_name, _MOST_NAME, left - _LEAST_TREND))
    return Layout(tuple(kept), name, max(_LEAST_TREND, min(_MOST_TREND, left - name)))


def _quantile(q: float) -> tuple[Callable[[LiveRow], str], Callable[[LiveRow], float]]:
    def cell(row: LiveRow) -> str:
        return quantile(row.times, q) if row.times else "-"

    def order(row: LiveRow) -> float:
        return (quantile_ns(row.times, q) or 0.0) if row.times else -1.0

    return cell, order


def _percent(part: float | None) -> str:
    return "-" if part is None else share(part, 1.0)


def _count(number: int | None) -> str:
    """A count in at most six characters: "123456", "1.23 M"."""
    if number is None:
        return "-"
    for size, unit in ((10**9, "G"), (10**6, "M")):
        if number >= size:
            return f"{number / size:.{2 if number < 10 * size else 1 if number < 100 * size else 0}f} {unit}"
    return str(number)


def _rate(number: float) -> str:
    return rate(number) if number < 10**6 - 1 else _count(round(number))


def _known(value: float | None) -> float:
    return -1.0 if value is None else value


def _mean_ns(row: LiveRow) -> float | None:
    return row.times.total_ns / row.times.exponential.count if row.times and row.times.exponential.count else None


_P50, _P99 = _quantile(0.5), _quantile(0.99)
_FAILED = Column(
    "failed", "FAIL", 6, lambda row: _count(row.failed), lambda row: _known(row.failed), explained="how many failed"
)
_RETRIES = Column(
    "retries",
    "RETRY",
    6,
    lambda row: _count(row.retries),
    lambda row: _known(row.retries),
    5,
    "calls to be made again",
)
_TIMES = (
    Column("p50", "P50", 7, *_P50, goes=4, explained="the median of the successful ones"),
    Column("p99", "P99", 7, *_P99, explained="99 % of the successful ones took no longer"),
)
_HANDSHAKES = (
    Column("rate", "HS/S", 6, lambda row: _rate(row.rate), lambda row: row.rate, explained="handshakes that ended, a second"),
    Column("resumed", "RES", 6, lambda row: _percent(row.resumed), lambda row: _known(row.resumed), 2,
           "of the successful ones, those that resumed a session"),
    _FAILED,
    *_TIMES,
    Column("own", "OWN", 6, lambda row: _percent(row.own), lambda row: _known(row.own), 1,
           "the part of their time in the library's calls; the rest are waits"),
    Column("key", "KEY", 7, lambda row: duration(row.key_ns), lambda row: _known(row.key_ns), 1,
           "the mean time in the private key of those that used it"),
    Column("queue", "QUEUE", 7, lambda row: duration(row.queue_ns), lambda row: _known(row.queue_ns), 1,
           "the mean time for which clients' bytes lay in the process's queue"),
    _RETRIES,
)  # fmt: skip
_FUNCTIONS = (
    Column("rate", "CALLS/S", 7, lambda row: _rate(row.rate), lambda row: row.rate, explained="calls that returned, a second"),
    _FAILED,
    _RETRIES,
    *_TIMES,
    Column("mean", "MEAN", 7, lambda row: duration(_mean_ns(row)), lambda row: _known(_mean_ns(row)), 2,
           "the mean of the successful ones"),
    Column("time", "BUSY", 7, lambda row: share(row.total_ns, row.duration_s * 1e9), lambda row: row.total_ns, 1,
           "the time in it, in percent of a thread's"),
)  # fmt: skip


def ordered(rows: Sequence[LiveRow], view: str, key: str, *, ascending: bool = False) -> list[LiveRow]:
    """The rows ordered by the column of that key, or by "name"; equal ones by name."""
    if key == "name":
        return sorted(rows, key=lambda row: row.name, reverse=ascending)
    column = next((column for column in columns(view) if column.key == key), columns(view)[0])
    sign = 1 if ascending else -1
    return sorted(rows, key=lambda row: (sign * column.order(row), row.name))
