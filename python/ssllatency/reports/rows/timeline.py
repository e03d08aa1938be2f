# SPDX-License-Identifier: Apache-2.0
"""The history of a recording, in the words and rows that text and page share: what was normal, when it changed, what changed
first, and whose the time was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from fractions import Fraction

from ssllatency.model.handshakes import Ending, Part, RequestedSide
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.model.statistics.timeline import Changed, ChangedTime, Quantified, Timeline
from ssllatency.reports.rows.changes import with_sign
from ssllatency.reports.words.owners import OWNER_WORDS, OwnedChange, by_owner
from ssllatency.reports.words.parts import part_names
from ssllatency.units import counted, duration, rate, seconds, share

HEADINGS = ("From", "Until", "What", "Before", "Then")
MOST = 10  # changes that are shown
_NUMBERS = {
    Quantified.RATE: "handshakes a second",
    Quantified.FAILED: "failed",
    Quantified.ABANDONED: "abandoned",
    Quantified.RESUMED: "resumed",
}
_MOST_OF_IT = Fraction(1, 2)  # an owner of less of a change isn't called its owner


def normal_words(told: Timeline, changed: ChangedTime) -> str:
    """Say what was normal: until when, and what it was like."""
    total = changed.normal.total()
    number = Counter[Ending]()
    for group in total.handshakes.groups if total.handshakes else ():
        number[group.ending] += group.count
    ended = sum(number.values())
    others = [
        f"{share(number[ending], ended)} {word}"
        for ending, word in ((Ending.FAILURE, "failed"), (Ending.ABANDONED, "abandoned"))
        if number[ending]
    ]
    first = told.changes[0].start
    figures = [f"{counted(ended, 'handshake')} in {seconds(changed.normal.duration_s)}, {_a_second(ended, changed)} a second"]
    figures += others or ["all of them successful"] if ended else []
    return f"Normal until {_with_date(told, first)}: {', '.join(figures)}{_usual_owner(changed.comparison)}."


def _a_second(ended: int, changed: ChangedTime) -> str:
    return rate(ended / max(changed.normal.duration_s, 1e-6))


def _usual_owner(comparison: Comparison) -> str:
    """The mean handshake before, and who had most of it."""
    owners = by_owner(comparison.contributions)
    whole_ns = sum((owner.before_ns for owner in owners), Fraction())
    if not whole_ns:
        return ""
    largest = max(owners, key=lambda owner: owner.before_ns)
    return (
        f"; the mean successful one took {duration(float(whole_ns))}, the largest part of it"
        f" {OWNER_WORDS[largest.part]} ({share(float(largest.before_ns), float(whole_ns))})"
    )


def changed_words(told: Timeline, changed: ChangedTime) -> str:
    """Return when it changed, for better or worse, how long it lasted, and what changed first."""
    began = clock(told, changed.start)
    verb = "Turned for the worse" if changed.is_worse else "Changed"
    number = len(told.run.intervals)
    lasted = seconds((told.at(changed.end) - told.at(changed.start)).total_seconds())
    end = f"over at {clock(told, changed.end)}, after {lasted}" if changed.end < number else "not over when the recording ended"
    return f"{verb} at {began}: {end}. {_first_words(told)}"


def _first_words(told: Timeline) -> str:
    """Name what changed first, as far as intervals tell."""
    names = _names(told)
    first = [change for change in told.changes if change.start == told.changes[0].start]
    words = ", ".join(names(change) for change in first[:MOST])
    if len(first) == len(told.changes):
        return f"All changed in the same interval: {words}." if len(first) > 1 else f"Only this changed: {words}."
    return f"Changed first, at {clock(told, first[0].start)}: {words}."


def owner_words(comparison: Comparison) -> str:
    """Return whose the time was that was added; "" where it is of several, or nothing was added beyond noise."""
    if comparison.largest is None:
        return ""
    owners = by_owner(comparison.contributions)
    whole = OwnedChange(comparison.whole, comparison.contributions)
    largest = owners[0]
    if whole.change_ns <= 0 or largest.change_ns < _MOST_OF_IT * whole.change_ns:
        return ""
    most = f"{with_sign(largest.change_ns)} of {with_sign(whole.change_ns)} a handshake"
    return f"Owner of the added time: {OWNER_WORDS[largest.part]}, {most}."


def rows(told: Timeline) -> list[tuple[str, ...]]:
    """A row for each change, in their order, under HEADINGS."""
    names, number = _names(told), len(told.run.intervals)
    return [
        (
            clock(told, change.start),
            clock(told, change.end) if change.end < number else "the end",
            names(change),
            *(_value(change.what, value) for value in (change.before, change.within)),
        )
        for change in told.changes[:MOST]
    ]


def calm_words(told: Timeline) -> str:
    """Say that nothing happened, as far as can be told."""
    number = counted(len(told.run.intervals), "interval")
    return (
        f"Nothing stands out over time: in {number} neither how many handshakes ended, failed or were resumed nor their times"
        f" changed by more than chance explains. What lasted less than {seconds(told.shortest_s)} may not be told from chance."
    )


def clock(told: Timeline, number: int) -> str:
    """Return when this interval began, by the clock."""
    at = told.at(number)
    days = told.at(0).date() != told.at(len(told.run.intervals)).date()
    return f"{at:%m-%d} {_time(at)}" if days else _time(at)


def _with_date(told: Timeline, number: int) -> str:
    """Return when this interval began, for who doesn't know of which day a recording is."""
    at = told.at(number)
    return f"{at:%Y-%m-%d} {_time(at)} {at:%Z}".rstrip()


def zone(told: Timeline) -> str:
    """The clock's zone."""
    return f"{told.at(0):%Z}" or "the recording's own"


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 100_000}"


def _names(told: Timeline) -> Callable[[Changed], str]:
    handshakes = told.run.intervals[0].handshakes
    names: Mapping[Part, str] = part_names(handshakes.role if handshakes else RequestedSide.SERVER)
    return lambda change: _NUMBERS[change.what] if isinstance(change.what, Quantified) else names[change.what]


def _value(what: Part | Quantified, value: float) -> str:
    if isinstance(what, Part):
        return duration(value)
    return rate(value) if what is Quantified.RATE else share(value, 1)
