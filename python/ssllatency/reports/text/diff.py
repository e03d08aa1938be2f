# SPDX-License-Identifier: Apache-2.0
"""Two recordings side by side as plain text.

In order: what was recorded, and how the circumstances differ; the mean handshake and what its change is made of; each part and
each function with its rate, mean and percentiles, the change and the verdict on it; what was missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import (
    FUNCTION,
    PART,
    Change,
    ComparedSubject,
    Comparison,
    Contribution,
    SubjectComparison,
    Verdict,
)
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.rows.changes import differences, handshake_words, interval, leaning, percent, with_sign
from ssllatency.reports.text.frame import heading, lost
from ssllatency.reports.text.page import PLAIN, Page, joined
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.reports.words.marks import FAILURE
from ssllatency.reports.words.parts import PARTS
from ssllatency.reports.words.units import duration, printable

_MEAN_HEADINGS = ("PART", "BEFORE", "AFTER", "CHANGE", "OF IT")
_HEADINGS = ("", *(str(quantity).upper() for quantity in Quantity))
_GOES = ("P90", "P50", "RATE")  # columns that are left out where there is no room, the first first
_WORDS = {Verdict.NOISE: "noise", Verdict.UNKNOWN: ""}
_EXPLAINED = (
    "%: the change, and below it the bounds that it lies between with 95 % confidence. noise: no change beyond what comes about"
    " by itself. A question mark: probably so, but not sure among so many comparisons. Without a word: too few to tell."
)


def render(before: Recording, after: Recording, comparison: Comparison, page: Page = PLAIN) -> str:
    """The report, ending in a newline. ASCII."""
    sides = {"Before": (before, comparison.before), "After": (after, comparison.after)}
    blocks = [
        *(_heading(name, *side, page) for name, side in sides.items()),
        _differences(comparison, page),
        _handshake(comparison, page),
        _contributions(comparison.contributions, comparison.whole, page),
        *_rows(comparison.rows, page),
        page.wrapped(_EXPLAINED) if comparison.rows else page.wrapped("Neither holds a handshake or call."),
        *(lost(snapshot.losses, snapshot.handshakes, f"{name}: lost:", page.width) for name, (_, snapshot) in sides.items()),
    ]
    return joined(blocks)


def change_words(quantity: Quantity, change: Change) -> str:
    """The change in percent with what to make of it, one word: "+12 % slower", "+8 % slower?" where that isn't sure,
    "-0.3 % noise"; "-" where it isn't known."""
    probably = leaning(quantity, change)
    word = f"{probably}?" if probably else _WORDS.get(change.verdict, str(change.verdict))
    return " ".join(filter(None, (percent(change.ratio) if change.ratio is not None else "", word))) or "-"


def subject_words(subject: ComparedSubject) -> str:
    """The subject as people name it."""
    if subject.kind == FUNCTION:
        return printable(f"{subject.name}, {subject.outcome}")
    part, ending = PARTS[Part(subject.name)], Ending(subject.outcome)
    return part if ending is Ending.SUCCESS and part != PARTS[Part.WALL] else f"{ADJECTIVES[ending]} handshakes, {part}"


def _heading(name: str, recording: Recording, total: Snapshot, page: Page) -> list[str]:
    lines = heading(total, page.width - 2)
    return [*page.wrapped(f"{name}: {recording.label}", hanging="  "), *(f"  {line}" for line in lines)]


def _differences(comparison: Comparison, page: Page) -> list[str]:
    phrases = differences(comparison.before, comparison.after)
    lines = [line for phrase in phrases for line in page.wrapped(phrase, "  ", "    ")]
    return ["Different:", *lines] if lines else []


def _handshake(comparison: Comparison, page: Page) -> list[str]:
    sentence = handshake_words(comparison)
    return page.wrapped(f"==> {sentence}", "", "    ") if sentence else []


def _contributions(contributions: Sequence[Contribution], whole: Part, page: Page) -> list[str]:
    """The parts of the mean handshake on either side; the last row is the sum."""
    if not contributions:
        return []
    before, after = (sum(times, Fraction()) for times in zip(*map(_times, contributions), strict=True))
    rows = [_cells(contribution, after - before) for contribution in (*contributions, Contribution(whole, before, after))]
    return ["Mean successful handshake:", *page.table([_MEAN_HEADINGS, *rows], left=1)]


def _times(contribution: Contribution) -> tuple[Fraction, Fraction]:
    return contribution.before_ns, contribution.after_ns


def _cells(contribution: Contribution, whole: Fraction) -> list[str]:
    times = [duration(float(value)) for value in _times(contribution)]
    share_of_it = f"{round(100 * contribution.change_ns / whole)} %" if whole else "-"
    return [PARTS[contribution.part], *times, with_sign(contribution.change_ns), share_of_it]


def _rows(rows: Sequence[SubjectComparison], page: Page) -> Iterator[list[str]]:
    for title, kind in (("Handshakes:", PART), ("Functions:", FUNCTION)):
        cells = [line for row in rows if row.subject.kind == kind for line in _lines(row)]
        if cells:
            yield [title, *_table(cells, page)]


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
