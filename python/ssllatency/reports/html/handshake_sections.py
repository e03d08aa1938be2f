# SPDX-License-Identifier: Apache-2.0
"""The tables of a page that are about handshakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending, Group, Handshakes, Part, whole_part
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.reports.html import change as html_change
from ssllatency.reports.html.tables import HtmlTable, TableLine, compared, table
from ssllatency.reports.html.words import typeset
from ssllatency.reports.rows.changes import with_sign
from ssllatency.reports.rows.handshakes import certificates as served
from ssllatency.reports.rows.handshakes import kinds
from ssllatency.reports.rows.handshakes.endings import cause_words
from ssllatency.reports.rows.handshakes.groups import group_table
from ssllatency.reports.rows.parts import HEADINGS, mean_ns, part_rows
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.reports.words.parts import PARTS
from ssllatency.reports.words.quantiles import quantile
from ssllatency.units import duration, rate, share

_QUANTILES = (0.5, 0.9, 0.99)


def endings(after: Snapshot, before: Snapshot | None) -> HtmlTable:
    """Return how handshakes ended, and why not well."""
    headings = ("How", "Count", "Share", "A second", "Mean", "p50", "p90", "p99", "Max")
    shown = [snapshot.handshakes for snapshot in (after, before) if snapshot and snapshot.handshakes]
    whole = whole_part(group for handshakes in shown for group in handshakes.groups if group.count)
    times = "how long clients waited; of reasons, wall times" if whole is Part.CLIENT_WAIT else "wall times"
    caption = f"By ending and reason; times are {times}"
    return compared(caption, headings, lambda snapshot: _endings(snapshot, whole), after, before)


def _endings(snapshot: Snapshot, whole: Part) -> Iterator[Row]:
    handshakes = snapshot.handshakes
    if handshakes is None:
        return
    everything = sum(group.count for group in handshakes.groups)
    for place, ending in enumerate(Ending):
        group = total(handshakes, ending)
        yield Row((ADJECTIVES[ending],), _ending(group, whole, everything, snapshot.duration_s) if group else ("0", *["-"] * 7))
        causes = [cause for cause in handshakes.causes if cause.ending is ending and cause.count]
        for cause in sorted(causes, key=lambda cause: -cause.count):
            rate_s, mean = _rate(cause.count, snapshot.duration_s), duration(cause.mean_ns)
            cells = (str(cause.count), share(cause.count, everything), rate_s, mean)
            yield Row((cause_words(cause),), (*cells, "", "", "", ""), depth=1, place=place)


def _ending(group: Group, whole: Part, everything: int, duration_s: float) -> tuple[str, ...]:
    took = group.parts[whole]
    times = (duration(took.total_ns / group.count), *(quantile(took, q) for q in _QUANTILES), duration(took.max_ns))
    return str(group.count), share(group.count, everything), _rate(group.count, duration_s), *times


def _rate(number: int, duration_s: float) -> str:
    return rate(number / duration_s) if duration_s else "-"


def parts(after: Group, before: Group | None, comparison: Comparison | None, names: Mapping[Part, str] = PARTS) -> HtmlTable:
    """Phases and waits: what each is of the mean handshake, and the times of the handshakes that had it."""
    headings = (HEADINGS[0], "Mean of all", *HEADINGS[1:])
    verdicts = html_change.part_verdicts(comparison, str(after.ending), names) if comparison and before else None
    caption = "Phases and waits: the mean of all handshakes, and of those that had it"
    made = compared(caption, headings, lambda group: _parts(group, names), after, before, verdicts)
    return replace(made, lines=tuple(_with_change(line, after, before) for line in made.lines)) if before else made


def _parts(group: Group, names: Mapping[Part, str]) -> list[Row]:
    return [replace(row, cells=(duration(_mean_ns(group, row.part)), *row.cells)) for row in part_rows(group, names)]


def _with_change(line: TableLine, after: Group, before: Group) -> TableLine:
    """The line with what the part adds to the change of the mean handshake under its mean."""
    mean, *others = line.cells
    change_ns = _mean_ns(after, line.row.part) - _mean_ns(before, line.row.part)
    return replace(line, cells=(replace(mean, note=typeset(with_sign(change_ns))), *others))


def _mean_ns(group: Group, part: Part | None) -> float:
    """The part's share of the mean handshake, whether a handshake had it or not."""
    return mean_ns(group, (part,)).get(part, 0.0) if part else 0.0


def keys(after: Handshakes, before: Handshakes | None) -> HtmlTable:
    """The table of private keys."""
    headings = ("Key", "Handshakes", "Share", "Mean", "Total")
    return compared("Private-key operations of successful handshakes", headings, _keys, after, before)


def _keys(handshakes: Handshakes) -> list[Row]:
    return [Row((key.words,), (key.count, key.share, key.mean, key.total)) for key in kinds.keys(handshakes)]


def mix(after: Handshakes, before: Handshakes | None) -> HtmlTable:
    """The table of the kinds of handshakes that succeeded."""
    headings = ("Label", "Value", "Count", "Share")
    return compared("Kinds of successful handshakes", headings, _mix, after, before)


def _mix(handshakes: Handshakes) -> list[Row]:
    return [
        Row((label.name, value.words), (str(value.count), value.share))
        for label in kinds.mix(handshakes)
        for value in label.values
        if value.count
    ]


def certificates(after: Handshakes) -> HtmlTable:
    """The table of the certificates that were served."""
    headings = ("Certificate", "Where", "Validity, key, issuer, size", "Served in")
    rows = [Row((one.name, one.where, ", ".join(one.facts), one.count), ()) for one in served.certificates(after)]
    return table("Certificates served in full handshakes, the first to expire first", headings, rows, None)


def unknown(handshakes: Handshakes) -> list[str]:
    """A sentence for each label that isn't known."""
    return [f"{label}: not known, {reason}." for label, reason in kinds.unknown_labels(handshakes).items()]


def groups(after: Handshakes, before: Handshakes | None) -> HtmlTable:
    """Groups by the labels that handshakes were told apart by."""
    same = before if before and before.by == after.by else None
    caption = "Groups: their times, and means of the own part, the waits and the key, of those that succeeded"
    made = group_table(after)
    before_rows = None if same is None else group_table(same).rows
    return table(caption, (*made.labels, *made.headings), made.rows, before_rows)
