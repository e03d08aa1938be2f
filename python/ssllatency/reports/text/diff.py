# SPDX-License-Identifier: Apache-2.0
"""Two recordings side by side as plain text: what changed.

In order: what was recorded, and how the circumstances differ; the mean handshake, the failures; whom it affects; whose time it
is, and of which part; what else changed beyond noise, and in one line what didn't. With `all_rows` each part and each function
with its rate, mean and percentiles instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain

from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import PART, Comparison, Contribution, SubjectComparison, Verdict
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.rows.changes import differences, handshake_words, with_sign
from ssllatency.reports.rows.compared import (
    came_and_went,
    change_words,
    changed_rows,
    failure_sentences,
    group_changes,
    left_out_words,
    ungrouped_words,
)
from ssllatency.reports.text.diff_rows import row_blocks, subject_words
from ssllatency.reports.text.frame import heading, lost, short_heading
from ssllatency.reports.text.page import PLAIN, Page, joined
from ssllatency.reports.words.marks import FAILURE
from ssllatency.reports.words.owners import OWNER_WORDS, OwnedChange, by_owner
from ssllatency.reports.words.parts import PARTS
from ssllatency.units import capitalized, counted, duration

_MEAN_HEADINGS = ("TIME", "BEFORE", "AFTER", "CHANGE", "OF CHANGE")
_CHANGED_HEADINGS = ("", "BEFORE", "AFTER", "MEAN", "P99")
_GOES = ("P99", "OF CHANGE")
_NOTABLE = Fraction(1, 20)  # parts that make less of the change have no line of their own
_MOST_GROUPS, _MOST_ROWS, _MOST_NAMES = 6, 8, 6


def render(before: Recording, after: Recording, comparison: Comparison, page: Page = PLAIN, all_rows: bool = False) -> str:
    """The report, ending in a newline. ASCII."""
    sides = {"Before": (before, comparison.before), "After": (after, comparison.after)}
    losses = [
        lost(snapshot.losses, snapshot.handshakes, f"{name}: lost or uncertain:", page.width)
        for name, (_, snapshot) in sides.items()
    ]
    headings = [_heading(name, *side, page, all_rows) for name, side in sides.items()]
    rows = row_blocks(comparison.rows, page) if all_rows else _changed(comparison, page)
    blocks = [
        *(headings if all_rows else [list(chain(*headings))]),
        _differences(comparison, page),
        _sentences(comparison, page),
        affected(comparison, page),
        contributions(comparison, page, all_rows),
        *rows,
        [] if comparison.rows else page.wrapped("Neither holds a handshake or call that can be compared."),
        page.wrapped(left_out_words(comparison), hanging="  ") if comparison.left_out else [],
        *losses,
    ]
    return joined(blocks)


def _heading(name: str, recording: Recording, total: Snapshot, page: Page, whole: bool) -> list[str]:
    if not whole:
        return page.wrapped(f"{name}: {recording.label}: {short_heading(total)}", hanging="  ")
    lines = heading(total, page.width - 2)
    return [*page.wrapped(f"{name}: {recording.label}", hanging="  "), *(f"  {line}" for line in lines)]


def _differences(comparison: Comparison, page: Page) -> list[str]:
    phrases = differences(comparison.before, comparison.after)
    lines = [line for phrase in phrases for line in page.wrapped(phrase, "  ", "    ")]
    return ["Different:", *lines] if lines else []


def _sentences(comparison: Comparison, page: Page) -> list[str]:
    """Return how the mean handshake and the failures changed."""
    words = handshake_words(comparison)
    lines = page.wrapped(f"==> {words}", "", "    ") if words else []
    for verdict, sentence in failure_sentences(comparison):
        wrapped = page.wrapped(f"==> {sentence}", "", "    ")
        lines += [page.marked(line, FAILURE) if verdict is Verdict.MORE else line for line in wrapped]
    return lines


def affected(comparison: Comparison, page: Page) -> list[str]:
    """Return whom it affects."""
    made = group_changes(comparison)
    unknown = ungrouped_words(comparison)
    if unknown or not comparison.groups:
        return page.wrapped(unknown) if unknown else []
    if not made.rows:
        return page.wrapped(f"Affected: none of {counted(made.others, 'group')} changed beyond noise.")
    others = page.wrapped(f"{counted(made.others, 'group')} without change.", "  ")
    rows, folded = made.rows[:_MOST_GROUPS], len(made.rows[_MOST_GROUPS:])
    cells = [[*map(str.upper, made.labels), *map(str.upper, made.headings)], *([*names, *row] for names, row, _ in rows)]
    lines = page.table(cells, left=len(made.labels), goes=("HANDSHAKES",))
    marked = [page.marked(line, FAILURE) if worse else line for line, (_, _, worse) in zip(lines[1:], rows, strict=True)]
    more = page.wrapped(f"{counted(folded, 'group')} more changed: --json shows each.", "  ") if folded else []
    return ["Affected:", lines[0], *marked, *more, *(others if made.others else [])]


def contributions(comparison: Comparison, page: Page, all_rows: bool = False) -> list[str]:
    """Return whose the time of the mean handshake is on either side, with the parts that matter; the last row is the sum."""
    if not comparison.contributions:
        return []
    owners = by_owner(comparison.contributions)
    whole = OwnedChange(comparison.whole, comparison.contributions)
    changed = comparison.largest is not None
    of_it = whole.change_ns if changed else Fraction()  # shares of what is noise say nothing
    rows = [row for owner in owners for row in _owner_rows(owner, of_it, changed or all_rows, all_rows)]
    rows.append([PARTS[comparison.whole], *_cells(whole, of_it)])
    return ["Mean successful handshake:", *page.table([_MEAN_HEADINGS, *rows], left=1)]


def _owner_rows(owner: OwnedChange, change_ns: Fraction, changed: bool, every: bool) -> Iterator[list[str]]:
    yield [OWNER_WORDS[owner.part], *_cells(owner, change_ns)]
    if changed and len(owner.parts) > 1:
        for part in owner.parts:
            if every or abs(part.change_ns) >= _NOTABLE * abs(change_ns):
                yield [f"  {PARTS[part.part]}", *_cells(part, change_ns)]


def _cells(contribution: Contribution | OwnedChange, whole: Fraction) -> list[str]:
    times = [duration(float(value)) for value in (contribution.before_ns, contribution.after_ns)]
    share_of_it = f"{round(100 * contribution.change_ns / whole)} %" if whole else "-"
    return [*times, with_sign(contribution.change_ns), share_of_it]


def _changed(comparison: Comparison, page: Page) -> Iterator[list[str]]:
    """The rows that changed, a line each; and how many didn't."""
    if not comparison.rows:
        return
    changed = changed_rows(comparison.rows)
    shown, left = changed[:_MOST_ROWS], len(changed[_MOST_ROWS:])
    sided = {kind: [row for name, row in came_and_went(comparison.rows) if name == kind] for kind in ("new", "gone")}
    lines = _table(shown, page) if shown else []
    for kind, rows in sided.items():
        lines += page.wrapped(f"{kind}: {_names(rows)}", "  ", "    ") if rows else []
    if lines:
        yield ["Changed beyond noise:", *lines]
    others = len(comparison.rows) - len(changed) - sum(map(len, sided.values()))
    more = f"{left} more changed. " if left else ""
    yield page.wrapped(f"{more}{capitalized(counted(others, 'row'))}: noise, or too few to tell. --all-rows shows each.")


def _table(rows: Sequence[SubjectComparison], page: Page) -> list[str]:
    cells = [[subject_words(row.subject), *_change_cells(row)] for row in rows]
    lines = page.table([_CHANGED_HEADINGS, *cells], left=1, goes=_GOES)
    slower = [any(change.verdict is Verdict.SLOWER for change in row.changes.values()) for row in rows]
    return [lines[0], *(page.marked(line, FAILURE) if bad else line for line, bad in zip(lines[1:], slower, strict=True))]


def _change_cells(row: SubjectComparison) -> list[str]:
    mean, p99 = row.changes[Quantity.MEAN], row.changes[Quantity.P99]
    words = [change_words(quantity, row.changes[quantity]) for quantity in (Quantity.MEAN, Quantity.P99)]
    return [duration(mean.before), duration(mean.after), words[0], words[1] if p99.probability is not None else "-"]


def _names(rows: Sequence[SubjectComparison]) -> str:
    names = [row.subject.name if row.subject.kind != PART else subject_words(row.subject) for row in rows]
    beyond = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{beyond}"
