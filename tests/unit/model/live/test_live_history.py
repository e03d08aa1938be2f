# SPDX-License-Identifier: Apache-2.0
"""The last minutes of a session: windows are exact differences, intervals have what ended in them, and it stays small."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.measured.live_readings import BY, MS, SERVICES, failed, history_of, readings, shake
from tests.unit.reports.report_samples import series_of, snapshot_of

from ssllatency.model.handshakes import Label
from ssllatency.model.live.history import HISTORY_S, History, tallies
from ssllatency.model.live.reading import FUNCTION, SERVICE, views
from ssllatency.model.live.rows import handshakes_of, rows, whole
from ssllatency.model.snapshot import Outcome

NGINX, OTHER, LB = "nginx(17)", "nginx(18)", "haproxy(40)"


def counts(history: History, seconds: float, view: str = SERVICE) -> dict[str, int]:
    window = history.window(seconds)
    assert window
    return {row.name: row.count for row in rows(window.snapshot, view, SERVICES)}


def test_a_window_has_what_ended_in_it() -> None:
    history = history_of([[shake(NGINX)] * 3, [shake(NGINX)] * 5, [shake(LB)] * 7])
    assert counts(history, 1) == {"docker:lb": 7}
    assert counts(history, 2) == {"nginx.service": 5, "docker:lb": 7}
    assert counts(history, 300) == {"nginx.service": 8, "docker:lb": 7}


def test_of_calls_of_unknown_outcome_none_is_said_to_have_failed() -> None:
    series = (series_of("agree", Outcome.UNKNOWN, [MS] * 3), series_of("SSL_read", Outcome.SUCCESS, [MS]))
    by_name = {row.name: row for row in rows(snapshot_of(*series), FUNCTION, SERVICES)}
    agree, read = by_name["agree"], by_name["SSL_read"]
    assert (agree.count, agree.failed, agree.retries) == (3, None, None)
    assert agree.times
    assert (read.failed, read.retries) == (0, 0)


def test_there_is_no_window_before_two_readings() -> None:
    history = History()
    assert history.window(1) is None
    history.add(readings([])[0])
    assert history.window(1) is None


def test_a_window_longer_than_readings_are_kept_apart_is_still_exact() -> None:
    """Of older readings one in ten seconds is kept: the window begins at one of them, and says how long it is."""
    history = history_of([[shake(NGINX)]] * 100)
    window = history.window(60)
    assert window
    assert whole(window.snapshot).count == window.snapshot.duration_s
    assert 60 <= window.snapshot.duration_s <= 70


def test_what_is_old_is_forgotten() -> None:
    history = history_of([[failed(NGINX)], *[[shake(NGINX)]] * 700])
    assert len(history.intervals) <= HISTORY_S + 1
    assert len(history._kept) < 60
    assert not history.failures
    window = history.window(1e9)
    assert window
    assert window.snapshot.duration_s <= HISTORY_S + 20


def test_an_interval_has_what_ended_in_it_by_row() -> None:
    history = history_of([[shake(NGINX, 1), shake(OTHER, 8), failed(NGINX)], [shake(LB)], []])
    of_nginx = list(tallies(history.intervals, SERVICE, SERVICES, "nginx.service"))
    assert [(tally.count, tally.failed, sum(tally.buckets.values())) for tally in of_nginx] == [(3, 1, 2), (0, 0, 0), (0, 0, 0)]
    assert len(of_nginx[0].buckets) == 2  # 1 ms and 8 ms are told apart
    assert [tally.count for tally in tallies(history.intervals, SERVICE, SERVICES, None)] == [3, 1, 0]
    assert [tally.count for tally in tallies(history.intervals, Label.PROCESS, SERVICES, OTHER)] == [1, 0, 0]
    assert [tally.count for tally in tallies(history.intervals, FUNCTION, SERVICES, "SSL_do_handshake")] == [3, 1, 0]


def test_a_process_whose_name_changes_is_not_counted_twice() -> None:
    earlier, later = readings([[shake("(17)")] * 5])[-1], readings([[shake(NGINX)] * 6])[-1]
    history = History()
    history.add(earlier)
    history.add(replace(later, snapshot=replace(later.snapshot, duration_s=2.0)))
    assert [tally.count for tally in tallies(history.intervals, SERVICE, SERVICES, None)] == [1]


def test_the_newest_failures_are_those_of_each_interval() -> None:
    history = history_of([[failed(NGINX)] * 2, [], [failed(NGINX), failed(LB, "version too low")]])
    assert [(one.cause.reason, one.cause.count) for one in history.failures] == [
        ("no shared cipher", 2),
        ("no shared cipher", 1),
        ("version too low", 1),
    ]
    assert history.failures[0].at_s + 2 == history.failures[1].at_s


def test_the_tools_own_time_is_that_of_the_window() -> None:
    window = history_of([[shake(NGINX)]] * 5).window(2)
    assert window
    assert window.own_cpu == pytest.approx(0.02)


def test_a_copy_stays_as_it_was() -> None:
    read = readings([[shake(NGINX)]] * 3)
    history = History()
    for reading in read[:3]:
        history.add(reading)
    frozen = history.copy()
    history.add(read[3])
    assert counts(frozen, 300) == {"nginx.service": 2}
    assert counts(history, 300) == {"nginx.service": 3}


def test_a_row_has_what_its_handshakes_have() -> None:
    ended = [shake(NGINX, 2, waits_ms=6), shake(NGINX, 2, waits_ms=6, resumed=True), failed(NGINX), shake(LB)]
    window = history_of([ended], retries=[4]).window(1)
    assert window
    by_name = {row.name: row for row in rows(window.snapshot, SERVICE, SERVICES)}
    row = by_name["nginx.service"]
    assert (row.count, row.failed, row.abandoned, row.resumed, row.retries, row.rate) == (3, 1, 0, 0.5, 4, 3.0)
    assert row.own == pytest.approx(0.25)
    assert row.key_ns == MS
    assert row.times
    assert row.times.total_ns == 16 * MS
    assert row.pids == {17}
    assert by_name["docker:lb"].retries == 0
    assert sum(group.count for group in handshakes_of(row).groups) == 3
    assert whole(window.snapshot).count == 4


def test_what_cannot_be_known_is_not_shown() -> None:
    """Retries are counted by process: other labels don't tell whose they are. Nothing succeeded, so there are no times."""
    window = history_of([[failed(NGINX)]], retries=[4], by=(*BY, Label.VERSION)).window(1)
    assert window
    (row,) = rows(window.snapshot, Label.VERSION, SERVICES)
    assert (row.name, row.retries, row.times, row.resumed, row.own, row.key_ns) == ("unknown", None, None, None, None, None)


def test_handshakes_beyond_the_bound_are_a_row_of_their_own() -> None:
    window = history_of([[shake(NGINX)]]).window(1)
    assert window
    assert window.snapshot.handshakes
    (group,) = window.snapshot.handshakes.groups
    other = replace(window.snapshot.handshakes, groups=(replace(group, labels={}, other=True),))
    (row,) = rows(replace(window.snapshot, handshakes=other), SERVICE, SERVICES)
    assert (row.name, row.pids, row.retries) == ("other", frozenset(), None)


def test_views_are_of_what_handshakes_are_told_apart_by() -> None:
    assert views(BY) == (SERVICE, "process", FUNCTION)
    assert views((*BY, Label.VERSION)) == (SERVICE, "process", "version", FUNCTION)
    assert views((Label.CIPHER,)) == ("cipher", FUNCTION)
    assert views(BY, functions=False) == (SERVICE, "process")


def test_retries_are_not_known_where_no_calls_are_measured() -> None:
    window = history_of([[shake(NGINX)]]).window(1)
    assert window
    snapshot = replace(window.snapshot, series=())
    assert [row.retries for row in (*rows(snapshot, SERVICE, SERVICES), whole(snapshot))] == [None, None]
