# SPDX-License-Identifier: Apache-2.0
"""Which scrapes are expected, and that their answers are made once, just before they come."""

from __future__ import annotations

import pytest

from ssllatency.export.metrics.points import NoReading
from ssllatency.export.serve.ahead import Ahead, Rhythm


@pytest.mark.parametrize(
    ("came_s", "next_s"),
    [
        ([0], None),
        ([0, 15], None),
        ([0, 15, 30], 45),
        ([0, 15, 30.2], 45.4),
        ([0, 15, 29], None),
        ([0, 15, 30, 33], None),
        ([0, 15, 30, 33, 48], None),
        ([0, 15, 30, 33, 48, 63], 78),
        ([0, 1, 2, 3], None),  # each is answered with the reading of the one before, or takes one of its own
    ],
)
def test_a_scrape_is_expected_where_two_intervals_are_the_same(came_s: list[float], next_s: float | None) -> None:
    rhythm = Rhythm()
    for now_s in came_s:
        rhythm.heard(now_s)
    assert rhythm.next_s == pytest.approx(next_s)


class Clock:
    """The time, and when answers were made."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.made_s: list[float] = []
        self.ahead = Ahead(lambda: self.now_s)

    def make(self) -> None:
        self.made_s.append(self.now_s)

    def scrapes(self, number: int, every_s: float) -> None:
        for _ in range(number):
            self.ahead.scraped(self.make)
            self.now_s += every_s


def test_an_answer_is_made_once_just_before_it_is_asked_for() -> None:
    clock = Clock()
    clock.scrapes(3, 15)
    clock.now_s -= 1
    clock.ahead.make_due()
    assert not clock.made_s
    due_s = clock.ahead.due_s()
    assert due_s is not None
    assert 0 < due_s < 1
    clock.now_s += due_s
    for _ in range(3):
        clock.ahead.make_due()
    assert clock.made_s == [clock.now_s]
    assert clock.ahead.due_s() is None  # nobody has come since
    clock.now_s += 1 - due_s
    clock.scrapes(1, 0)
    assert clock.ahead.due_s() == pytest.approx(14 + due_s)


def test_that_there_is_no_reading_is_told_to_who_comes() -> None:
    clock = Clock()

    def fail() -> None:
        clock.make()
        raise NoReading("Nothing is traced yet.")

    for _ in range(3):
        clock.ahead.scraped(fail)
        clock.now_s += 15
    clock.ahead.make_due()
    assert clock.made_s == [clock.now_s]


def test_the_thread_ends_with_its_server() -> None:
    ahead = Ahead()
    ahead.start()
    ahead.stop()
    ahead.make_due()
    assert ahead.due_s() is None
