# SPDX-License-Identifier: Apache-2.0
"""Timelines of synthetic recordings, of which it is known what happened when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from tests.measured.handshakes import Shake
from tests.measured.recordings import interval_of

from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.recording import Recording
from ssllatency.model.statistics.change_points import Stretch, shortest_told, stretch_of
from ssllatency.model.statistics.timeline import Changed, Quantified, Timeline, timeline

MS = 1_000_000
INTERVALS = 30
Moment = Callable[[int], Sequence[Shake]]


def recorded(moment: Moment, intervals: int = INTERVALS) -> Recording:
    return Recording.of([interval_of(number, moment(number)) for number in range(intervals)])


def told(moment: Moment, intervals: int = INTERVALS) -> Timeline:
    made = timeline(recorded(moment, intervals))
    assert made is not None
    return made


def usual(number: int, count: int = 20) -> list[Shake]:
    """Handshakes that vary by themselves, from one to the next and from interval to interval."""
    random = Random(number)
    slowness = random.lognormvariate(0, 0.1)
    return [
        Shake(
            {
                Part.QUEUE_START: round(random.lognormvariate(0, 0.3) * slowness * MS / 10),
                Part.PRIVATE_KEY: round(random.lognormvariate(0, 0.3) * slowness * MS),
                Part.REST: MS // 5,
            }
        )
        for _ in range(count)
    ]


def changed(made: Timeline) -> dict[Part | Quantified, tuple[int, int]]:
    return {change.what: (change.start, change.end) for change in made.changes}


def queued(shakes: Sequence[Shake], more_ns: int = 20 * MS) -> list[Shake]:
    longer = [
        {**shake.times, Part.QUEUE_START: more_ns + shake.times[Part.QUEUE_START], Part.QUEUE_OTHER: more_ns}
        for shake in shakes
    ]
    return [Shake(times) for times in longer]


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_told_where_nothing_happened(seed: int) -> None:
    assert changed(told(lambda number: usual(1000 * seed + number))) == {}


def test_a_change_that_lasts() -> None:
    made = told(lambda number: queued(usual(number)) if number >= 20 else usual(number))
    assert changed(made) == {
        Part.CLIENT_WAIT: (20, INTERVALS),
        Part.QUEUE: (20, INTERVALS),
        Part.QUEUE_OTHER: (20, INTERVALS),
    }
    assert made.changed
    assert (made.changed.start, made.changed.end, made.changed.is_worse) == (20, INTERVALS, True)
    assert len(made.changed.normal.intervals) == 20
    assert made.changed.comparison.largest
    assert made.changed.comparison.largest.part is Part.QUEUE_START


def test_a_change_that_passes() -> None:
    made = told(lambda number: queued(usual(number)) if 12 <= number < 20 else usual(number))
    assert changed(made)[Part.CLIENT_WAIT] == (12, 20)
    assert made.changed
    assert made.changed.end == 20


def test_what_is_faster_is_no_trouble() -> None:
    made = told(lambda number: usual(number) if number >= 12 else queued(usual(number)))
    assert made.changed
    assert changed(made)[Part.CLIENT_WAIT] == (12, INTERVALS)
    assert not made.changed.is_worse


def test_a_single_stall_is_no_change() -> None:
    assert changed(told(lambda number: queued(usual(number), 900 * MS) if number == 15 else usual(number))) == {}


def test_failures_that_begin_are_told_with_their_time_alone() -> None:
    def moment(number: int) -> list[Shake]:
        failed = [Shake({Part.REST: MS}, ending=Ending.FAILURE, reason="no shared cipher")] * 5
        return [*usual(number), *(failed if number >= 22 else [])]

    made = told(moment)
    assert changed(made) == {Quantified.FAILED: (22, INTERVALS)}
    (change,) = made.changes
    assert (change.before, change.within) == (0, 0.2)
    assert made.changed
    assert made.changed.is_worse


def test_a_server_that_nobody_reaches_any_more_is_told() -> None:
    """No handshake ends: there is no time that could have changed."""
    made = told(lambda number: usual(number) if number < 20 else [])
    assert made.changes == (Changed(Quantified.RATE, 20, INTERVALS, 20, 0),)
    assert made.changed
    assert not made.changed.is_worse  # it may be that nobody came


def test_what_changed_first_stands_first() -> None:
    def moment(number: int) -> list[Shake]:
        shakes = usual(number, 60 if number >= 15 else 20)
        return queued(shakes) if number >= 18 else shakes

    made = told(moment)
    assert [change.what for change in made.changes][:2] == [Quantified.RATE, Part.CLIENT_WAIT]
    assert changed(made)[Quantified.RATE] == (15, INTERVALS)
    assert made.changed
    assert made.changed.start == 18
    assert len(made.changed.normal.intervals) == 15


def test_a_part_that_changes_within_a_whole_that_doesnt_is_not_told() -> None:
    def moment(number: int) -> list[Shake]:
        parts = (Part.REST, Part.WAIT_PEER) if number < 20 else (Part.WAIT_PEER, Part.REST)
        return [Shake({Part.PRIVATE_KEY: 4 * MS, parts[0]: MS, parts[1]: 3 * MS}) for _ in range(20)]

    assert changed(told(moment)) == {}


def test_too_few_intervals_or_handshakes_tell_nothing() -> None:
    assert timeline(recorded(usual, 10)) is None
    assert timeline(recorded(lambda number: usual(number, 1) if number < 20 else [])) is None
    runs = recorded(usual).runs
    assert timeline(Recording((*runs, *runs))) is None


def test_intervals_without_length_or_end_are_told() -> None:
    """As a file may have them."""
    intervals = [
        replace(interval, duration_s=0.0 if number < INTERVALS - 1 else 1e12, started="9999-12-31T23:59:59+00:00")
        for number, interval in enumerate(recorded(lambda number: usual(number) if number < 20 else []).intervals)
    ]
    made = timeline(Recording.of(intervals))
    assert made
    assert made.changed
    assert made.at(INTERVALS) == made.at(0)


def test_a_long_recording_is_told_by_intervals_taken_together() -> None:
    made = told(lambda number: queued(usual(number, 3)) if number >= 300 else usual(number, 3), 400)
    assert changed(made)[Part.CLIENT_WAIT] == (300, 400)


def test_the_fewer_numbers_the_longer_a_stretch_must_be() -> None:
    assert [shortest_told(number) for number in (8, 13, 14, 20, 30, 150)] == [None, None, 6, 4, 4, 3]
    assert stretch_of([0.0] * 30) is None
    assert stretch_of([0.0] * 20 + [1.0] * 10) == Stretch(20, 30)


def test_orders_by_chance_are_rarely_told() -> None:
    alarms = 0
    for seed in range(200):
        random = Random(seed)
        alarms += stretch_of([random.gauss(0, 1) for _ in range(20)]) is not None
    assert alarms <= 6
