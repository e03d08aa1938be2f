# SPDX-License-Identifier: Apache-2.0
"""Calls by function and outcome: a row for each, and why calls were retried or failed."""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency.data_class import dataclass
from ssllatency.model.snapshot import Outcome, Series
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.quantiles import quantile
from ssllatency.units import counted, duration

HEADINGS = ("Function", "Outcome", "Count", "Mean", "p50", "p90", "p99", "p99.9", "Max")
_QUANTILES = (0.5, 0.9, 0.99, 0.999)
_OUTCOMES = (Outcome.SUCCESS, Outcome.UNKNOWN, Outcome.RETRY, Outcome.CLOSED, Outcome.FAILURE)


@dataclass(frozen=True)
class Unsuccessful:
    """The calls of a function that didn't succeed: a phrase for each outcome, how many and why."""

    function: str
    phrases: tuple[str, ...]

    @property
    def words(self) -> str:
        """All of it: "SSL_read: 2 retries (WANT_READ 2), 1 failure"."""
        return f"{self.function}: {', '.join(self.phrases)}"


def function_rows(series: Iterable[Series]) -> list[Row]:
    """A row for each function and outcome under HEADINGS, two of which are over names: the function that took the most time in
    all first, its successes first."""
    return [Row((calls.function, calls.outcome), _cells(calls)) for outcomes in _by_time(series) for calls in outcomes]


def unsuccessful(series: Iterable[Series]) -> list[Unsuccessful]:
    """Return why calls were retried or failed, in the same order; functions of which no call
    is known to have ended so aren't in it."""
    phrases = {
        outcomes[0].function: tuple(_reasons(calls) for calls in outcomes if not calls.outcome.may_be_success)
        for outcomes in _by_time(series)
    }
    return [Unsuccessful(function, reasons) for function, reasons in phrases.items() if reasons]


def _by_time(series: Iterable[Series]) -> list[list[Series]]:
    """The outcomes of each function that was called."""
    functions: dict[str, list[Series]] = {}
    for calls in series:
        if calls.count:
            functions.setdefault(calls.function, []).append(calls)
    ordered = sorted(functions.items(), key=lambda item: (-sum(calls.total_ns for calls in item[1]), item[0]))
    return [sorted(outcomes, key=lambda calls: _OUTCOMES.index(calls.outcome)) for _, outcomes in ordered]


def _cells(series: Series) -> tuple[str, ...]:
    quantiles = (quantile(series, q) for q in _QUANTILES)
    return str(series.count), duration(series.total_ns / series.count), *quantiles, duration(series.max_ns)


def _reasons(series: Series) -> str:
    """Return how many calls ended so, and why."""
    if series.outcome is Outcome.CLOSED:  # close_notify: SSL_read returns 0 at the regular end of a connection
        return f"{series.count} closed by the peer in good order"
    number = counted(series.count, str(series.outcome))
    ordered = sorted(series.reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    named = [f"{name} {count}" for name, count in ordered]
    return f"{number} ({', '.join(named)})" if named else number
