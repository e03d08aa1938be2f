# SPDX-License-Identifier: Apache-2.0
"""What every engine must show of a program whose calls are known."""

from __future__ import annotations

from collections.abc import Callable

from ssllatency.engines.base import LinearRange
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.model.snapshot import Losses, Outcome, Series, Snapshot
from tests.bpf.conftest import Subject, counts

SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE
Attach = Callable[..., TraceSession]


def finished(session: TraceSession) -> Snapshot:
    """Detaches, reads and closes it."""
    session.detach()
    snapshot = session.read()
    session.close()
    return snapshot


def assert_agrees_with_itself(one: Series) -> None:
    """Both histograms hold all calls, between the extremes."""
    assert one.linear.count == one.count
    assert one.min_ns is not None
    assert one.max_ns is not None
    assert one.min_ns * one.count <= one.total_ns <= one.max_ns * one.count
    low, high = one.exponential.quantile_range(0.0), one.exponential.quantile_range(1.0)
    assert low is not None
    assert high is not None
    assert low[0] < one.min_ns <= low[1]
    assert high[0] < one.max_ns <= high[1]


def every_series_agrees_with_itself(subject: Subject, attach: Attach) -> None:
    session = attach(linear=LinearRange(0, 10, 2))
    subject.do("calls", 3000)
    snapshot = finished(session)
    assert [one.count for one in snapshot.series] == [3000, 3000]
    for one in snapshot.series:
        assert_agrees_with_itself(one)


def processes_past_the_maximum_count_under_other(subject: Subject, attach: Attach) -> None:
    session = attach(everyone=True, maximum_processes=3)
    subject.do("forks", 8, 100)
    snapshot = finished(session)
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 800}
    assert [one.count for one in snapshot.series if one.pid is None] == [500]
    assert snapshot.losses == Losses(folded_processes=5)
    assert len([target for target in snapshot.targets if target.comm == "target"]) == 4


def a_child_isnt_counted_with_its_parent(subject: Subject, attach: Attach, **more: object) -> None:
    session = attach(**more)
    subject.do("forks", 2, 100)
    subject.do("calls", 3)
    snapshot = finished(session)
    assert counts(snapshot) == {("RSA_sign", SUCCESS): 3, ("RSA_sign", FAILURE): 3}
    assert {one.pid for one in snapshot.series} == {subject.pid}


def intervals_add_up_and_keep_their_own_extremes(subject: Subject, attach: Attach) -> None:
    session = attach()
    subject.do("calls", 100)
    first = session.read(per_interval=True)
    subject.do("calls", 200)
    second = session.read(per_interval=True)
    third = session.read(per_interval=True)
    session.close()
    assert [one.count for one in first.series] == [100, 100]
    assert [one.count for one in second.series] == [300, 300]
    assert all(one.max_ns is not None for one in (*first.series, *second.series))
    assert all(one.max_ns is None for one in third.series)
