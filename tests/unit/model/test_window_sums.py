# SPDX-License-Identifier: Apache-2.0
"""Sums of what was seen in windows: over the intervals of a run, and over runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.unit.reports.report_samples import busy

from ssllatency.model.arithmetic.snapshots import merge
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.sampling import Basis, Sampling, Stratum, Work
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.model.windows.estimates import estimates

KEY = ("SSL_read", Outcome.SUCCESS)
LENGTH_S = 10.0


def stratum(calls: float) -> Stratum:
    work = Work(300.0, 1e6, 0.0)
    return Stratum(2.5, 0.1, {KEY: {30: calls}}, work * 25, work)


def sampling(strata: Sequence[Stratum]) -> Sampling:
    watched_s, length_s = sum(one.watched_s for one in strata), sum(one.length_s for one in strata)
    return Sampling(
        ("SSL_read",), watched_s, length_s, len(strata), 1, estimates(strata), Basis.IO_CALLS, (tuple(strata),), 1.5
    )


def interval(number: int, *parts: Sampling, host: str = "web1") -> Snapshot:
    sample = busy()
    began = datetime.fromisoformat(sample.started) + timedelta(seconds=number * LENGTH_S)
    return replace(sample, started=began.isoformat(), duration_s=LENGTH_S, sampling=parts, host=host, notes=())


CALLS = (100, 120, 90, 105, 130, 80, 110, 100)


def test_intervals_of_a_run_give_what_it_gives_in_one() -> None:
    strata = [stratum(calls) for calls in CALLS]
    [whole] = merge(interval(0, sampling(strata[:4])), interval(1, sampling(strata[4:]))).sampling
    assert whole.estimates == estimates(strata)
    assert whole.chains == (tuple(strata),)
    assert (whole.windows, whole.unfinished, whole.dearer, whole.scaled_by) == (8, 2, 1.5, Basis.IO_CALLS)
    assert whole.duration_s == 20


def test_the_order_makes_no_difference() -> None:
    parts = [interval(0, sampling([stratum(calls) for calls in CALLS[:4]])), interval(1, sampling([stratum(99)] * 4))]
    assert merge(*parts).sampling == merge(*reversed(parts)).sampling


def test_different_hosts_are_added_by_their_variances() -> None:
    strata = [stratum(calls) for calls in CALLS]
    [both] = merge(interval(0, sampling(strata)), interval(0, sampling(strata), host="web2")).sampling
    [alone] = estimates(strata)
    [estimate] = both.estimates
    assert len(both.chains) == 2
    assert estimate.count.value == pytest.approx(2 * alone.count.value)
    assert alone.count.high is not None
    assert estimate.count.high is not None
    assert alone.count.high - alone.count.value < estimate.count.high - estimate.count.value
    assert estimate.count.high - estimate.count.value < 2 * (alone.count.high - alone.count.value)


def test_what_an_interval_watched_all_the_time_counts_as_it_is() -> None:
    calls = ExponentialHistogram((7,), 30)
    watched = interval(1)
    reads = [row for row in watched.series if row.function == "SSL_read" and row.outcome == Outcome.SUCCESS]
    watched = replace(watched, series=(replace(reads[0], exponential=calls),))
    windows = sampling([stratum(count) for count in CALLS[:4]])
    [whole] = merge(interval(0, windows), watched).sampling
    [estimate] = [one for one in whole.estimates if (one.function, one.outcome) == KEY]
    [alone] = windows.estimates
    assert estimate.count.value == pytest.approx(alone.count.value + 7)
    assert whole.duration_s == 20


def test_an_interval_in_which_no_window_ended_adds_nothing() -> None:
    none = Sampling(("SSL_read",), 0.0, 0.0, 0, 0, ())
    windows = sampling([stratum(count) for count in CALLS])
    [whole] = merge(interval(0, none), interval(1, windows)).sampling
    assert whole.estimates == windows.estimates


def test_a_measurement_without_windows_has_none() -> None:
    assert merge(interval(0), interval(1)).sampling == ()
