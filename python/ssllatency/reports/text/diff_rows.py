# SPDX-License-Identifier: Apache-2.0
"""Every part and function of two recordings as plain text: rate, mean and percentiles before and after, the change and its
bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.statistics.comparison import FUNCTION, PART, ComparedSubject, SubjectComparison, Verdict
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.rows.changes import interval
from ssllatency.reports.rows.compared import change_words
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.reports.words.marks import FAILURE
from ssllatency.reports.words.parts import PARTS
from ssllatency.units import duration, printable

_HEADINGS = ("", *(str(quantity).upper() for quantity in Quantity))
_GOES = ("P90", "P50", "RATE")  # columns that are left out where there is no room, the first first
_EXPLAINED = (
    "%: the change, and below it the bounds that it lies between with 95 % confidence. noise: no change beyond what comes about"
    " by itself. A question mark: probably so, but not sure among so many comparisons. Without a word: too few to tell."
)


def row_blocks(rows: Sequence[SubjectComparison], page: Page) -> Iterator[list[str]]:
    """A block for handshakes and one for functions, and what the words in them mean."""
    for title, kind in (("Handshakes:", PART), ("Functions:", FUNCTION)):
        cells = [line for row in rows if row.subject.kind == kind for line in _lines(row)]
        if cells:
            yield [title, *_table(cells, page)]
    if rows:
        yield page.wrapped(_EXPLAINED)


def subject_words(subject: ComparedSubject) -> str:
    """The subject as people name it."""
    if subject.kind == FUNCTION:
        return printable(f"{subject.name}, {subject.outcome}")
    part, ending = PARTS[Part(subject.name)], Ending(subject.outcome)
    return part if ending is Ending.SUCCESS and part != PARTS[Part.WALL] else f"{ADJECTIVES[ending]} handshakes, {part}"


def _table(cells: Sequence[Sequence[str]], page: Page) -> list[str]:
    """The lines of the rows below their headings. Where there is no room for the subjects' column, each is a line of its own,
    then percentiles are left out."""
    lines = page.table([_HEADINGS, *cells], left=1)
    if not page.has_room(lines):
        numbers = [["" if _is_subject(row) else row[0], *row[1:]] for row in cells]
        fitted = page.table([_HEADINGS, *numbers], left=1, goes=_GOES)
        named = zip(fitted[1:], cells, strict=True)
        lines = [fitted[0], *(f"  {row[0]}" if _is_subject(row) else line for line, row in named)]
    worse = [False, *(any(str(Verdict.SLOWER) in cell for cell in row[1:]) for row in cells)]
    return [page.marked(line, FAILURE) if bad else line for line, bad in zip(lines, worse, strict=True)]


def _is_subject(row: Sequence[str]) -> bool:
    return bool(row[0]) and not any(row[1:])


def _lines(row: SubjectComparison) -> Iterator[list[str]]:
    """The subject, and below it a line each: before, after, the change, the bounds of the change."""
    changes = [row.changes[quantity] for quantity in Quantity]
    yield [subject_words(row.subject), *("" for _ in changes)]
    yield ["  before", *(_value(quantity, row.changes[quantity].before) for quantity in Quantity)]
    yield ["  after", *(_value(quantity, row.changes[quantity].after) for quantity in Quantity)]
    yield ["  %", *map(change_words, Quantity, changes)]
    if any(change.low is not None for change in changes):
        yield ["", *(interval(change) for change in changes)]


def _value(quantity: Quantity, value: float | None) -> str:
    if quantity is not Quantity.RATE or value is None:
        return duration(value)
    return f"{value:.0f} /s" if value >= 999.5 or not value else f"{value:.3g} /s"
