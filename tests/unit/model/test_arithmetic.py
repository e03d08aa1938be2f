# SPDX-License-Identifier: Apache-2.0
"""Sums and differences of whole snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import durations_ns, series_of, snapshots

from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.snapshots import ALL_PROCESSES, add_series, by_function, difference, merge
from ssllatency.model.client import ClientReport
from ssllatency.model.histogram import quantile_rank
from ssllatency.model.snapshot import Losses, Outcome, Series, Snapshot, Target, TracedLibrary
from ssllatency.model.timed import quantile_ns

HOSTS = ("web1", "web2")
LISTS = st.lists(durations_ns, min_size=1, max_size=20)


def read(values_ns: list[int], pid: int | None = 17, outcome: Outcome = Outcome.SUCCESS) -> Series:
    return series_of("SSL_read", outcome, pid, values_ns)


def measured(*series: Series, host: str = "web1", duration_s: float = 10.0) -> Snapshot:
    return Snapshot(host, "6.1.0", "libbpf", "2030-01-31T12:00:00Z", duration_s, (), series)


def keyed(snapshot: Snapshot) -> dict[tuple[str, Outcome, int | None], Series]:
    return {(one.function, one.outcome, one.pid): one for one in snapshot.series}


@given(st.lists(LISTS, min_size=1, max_size=4))
def test_added_series_is_the_series_of_all_calls(parts: list[list[int]]) -> None:
    added = add_series([read(values) for values in parts], 17)
    assert replace(added, reasons={}) == read([value for values in parts for value in values])


@given(st.lists(LISTS, min_size=2, max_size=4), st.data())
def test_added_extremes_are_right_or_not_known(parts: list[list[int]], data: st.DataObject) -> None:
    series = [read(values) for values in parts]
    hidden = data.draw(st.integers(0, len(parts) - 1))
    series[hidden] = replace(series[hidden], min_ns=None, max_ns=None)
    added = add_series(series, None)
    everything = [value for values in parts for value in values]
    assert added.min_ns in (None, min(everything))
    assert added.max_ns in (None, max(everything))


def test_an_unknown_minimum_hides_a_known_one_only_where_it_may_be_less() -> None:
    unknown = replace(read([5_000, 9_000]), min_ns=None, max_ns=None)
    assert add_series([read([1_000]), unknown], 17).min_ns == 1_000
    assert add_series([read([1_000]), unknown], 17).max_ns is None
    assert add_series([read([5_001]), unknown], 17).min_ns is None
    assert add_series([read([70_000]), unknown], 17).max_ns == 70_000


def test_by_function_adds_all_processes_and_the_folded_ones() -> None:
    snapshot = measured(read([100], 17), read([200, 300], 18), read([400], None), read([500], 17, Outcome.RETRY))
    success, retry = by_function(snapshot).series
    assert success == replace(read([100, 200, 300, 400]), pid=ALL_PROCESSES)
    assert retry == replace(read([500], 17, Outcome.RETRY), pid=ALL_PROCESSES)


@given(snapshots())
def test_by_function_twice_is_by_function(snapshot: Snapshot) -> None:
    assert by_function(by_function(snapshot)) == by_function(snapshot)


def test_merge_of_one_is_that_one_with_what_the_client_said_of_it() -> None:
    one = replace(measured(read([100])), client=ClientReport("ab"))
    assert merge(one) == one
    assert merge(one, one).client is None


@given(snapshots(HOSTS), snapshots(HOSTS), snapshots(HOSTS))
def test_merge_is_associative(first: Snapshot, second: Snapshot, third: Snapshot) -> None:
    assert merge(merge(first, second), third) == merge(first, merge(second, third)) == merge(first, second, third)


@given(snapshots(), snapshots())
def test_merge_has_the_same_numbers_both_ways(first: Snapshot, second: Snapshot) -> None:
    one, other = merge(first, second), merge(second, first)
    assert keyed(one) == keyed(other)
    assert (one.losses, one.duration_s, one.started, one.in_flight) == (
        other.losses,
        other.duration_s,
        other.started,
        other.in_flight,
    )


@given(snapshots(), snapshots())
def test_difference_undoes_merge(first: Snapshot, second: Snapshot) -> None:
    interval = difference(merge(first, second), first)
    unknown = {"min_ns": None, "max_ns": None}
    assert {key: replace(one, **unknown) for key, one in keyed(interval).items()} == {
        key: replace(one, **unknown) for key, one in keyed(second).items()
    }
    assert interval.losses == second.losses
    assert interval.duration_s == second.duration_s


@given(snapshots(), snapshots())
def test_extremes_of_an_interval_lie_in_its_outer_buckets(first: Snapshot, second: Snapshot) -> None:
    total = merge(first, second)
    true = keyed(second)
    for key, one in keyed(difference(total, first)).items():
        low, high = true[key].min_ns, true[key].max_ns
        assert low is not None
        assert high is not None
        # The trace's own minimum may be an earlier call of the same bucket, so at most a bucket's width off.
        assert one.min_ns is None or one.min_ns <= low <= max(60, one.min_ns * 1.045)
        assert one.max_ns is None or high <= one.max_ns <= max(60, high * 1.045) or high > 64 * 10**9


def test_interval_keeps_the_extremes_that_are_its_own() -> None:
    earlier = measured(read([5_000, 6_000]))
    later = measured(read([5_000, 6_000, 1_000, 5_500]), duration_s=12.5)
    (interval,) = difference(later, earlier).series
    assert (interval.count, interval.total_ns, interval.min_ns, interval.max_ns) == (2, 6_500, 1_000, None)


def test_interval_begins_where_the_earlier_snapshot_ends() -> None:
    interval = difference(measured(duration_s=12.5), measured(duration_s=10.25))
    assert (interval.started, interval.duration_s) == ("2030-01-31T12:00:10.250000Z", 2.25)


def test_interval_leaves_out_series_without_a_call_and_reasons_that_did_not_come() -> None:
    before = (read([100]), replace(read([100, 100], outcome=Outcome.RETRY), reasons={"WANT_READ": 1, "WANT_WRITE": 1}))
    after = (read([100]), replace(read([100, 100, 100], outcome=Outcome.RETRY), reasons={"WANT_READ": 2, "WANT_WRITE": 1}))
    (interval,) = difference(measured(*after), measured(*before)).series
    assert (interval.outcome, interval.reasons) == (Outcome.RETRY, {"WANT_READ": 1})


def test_losses_of_an_interval_are_never_below_zero() -> None:
    earlier = replace(measured(), losses=Losses(unmatched_entries=3, map_full=1))
    later = replace(measured(), losses=Losses(unmatched_entries=2, map_full=5))
    assert difference(later, earlier).losses == Losses(map_full=4)


@pytest.mark.parametrize("later", [measured(read([100])), measured(), measured(read([100, 900]))])
def test_difference_of_unrelated_snapshots_is_refused(later: Snapshot) -> None:
    with pytest.raises(SsllatencyError, match="fewer calls of SSL_read"):
        difference(later, measured(read([100, 100])))


def test_merge_of_one_host_keeps_processes_and_of_two_does_not() -> None:
    first, second = measured(read([100], 17), read([200], None)), measured(read([300], 17), read([400], None))
    assert merge(first, second).series == (read([100, 300], 17), read([200, 400], None))
    (both,) = merge(first, replace(second, host="web2")).series
    assert both == replace(read([100, 200, 300, 400]), pid=ALL_PROCESSES)
    assert merge(first, replace(second, host="web2")).host == "web1, web2"


def test_merge_takes_the_earliest_start_and_adds_the_time() -> None:
    first = replace(measured(duration_s=0.1), started="2030-01-31T12:00:00+01:00")
    merged = merge(measured(duration_s=0.2), first)
    assert (merged.started, merged.duration_s) == ("2030-01-31T12:00:00+01:00", 0.3)


def test_merge_keeps_each_process_once_with_all_its_libraries() -> None:
    ssl, crypto = TracedLibrary("libssl.so.3", "aa", ""), TracedLibrary("libcrypto.so.3", "bb", "")
    first = replace(measured(), targets=(Target(17, "nginx", (ssl,)),))
    second = replace(measured(), targets=(Target(17, "nginx", (ssl, crypto)), Target(18, "nginx", ())))
    assert merge(first, second).targets == (Target(17, "nginx", (ssl, crypto)), Target(18, "nginx", ()))


@given(st.lists(durations_ns, min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99, 0.999]), st.booleans())
def test_quantile_of_a_series_is_near_the_true_one(values: list[int], q: float, extremes: bool) -> None:
    series = read(values) if extremes else replace(read(values), min_ns=None, max_ns=None)
    true = sorted(values)[quantile_rank(q, len(values)) - 1]
    estimate = quantile_ns(series, q)
    assert estimate is not None or not 60 <= true <= 64 * 10**9
    assert estimate is None or abs(estimate - true) <= 0.022 * true


def test_quantile_that_is_an_extreme_is_exact() -> None:
    series = read([3, 1_234_567, 99_000_000_001])
    assert quantile_ns(series, 0.999) == 99_000_000_001
    assert quantile_ns(series, 0.1) == 3
    assert quantile_ns(replace(series, max_ns=None), 0.999) is None
    assert quantile_ns(read([]), 0.5) is None


def test_quantile_never_passes_the_known_extremes() -> None:
    # All three lie in bucket (16384, 17109.6]; its middle, 16739.1, is less than the least of them.
    series = read([17_100, 17_101, 17_102])
    assert quantile_ns(series, 0.5) == 17_100
