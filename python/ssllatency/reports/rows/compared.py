# SPDX-License-Identifier: Apache-2.0
"""The subjects of a change between two recordings: failures by their reasons, groups of handshakes, and the rows that changed
beyond noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Ending, Label
from ssllatency.model.statistics.comparison import (
    Change,
    ComparedGroup,
    Comparison,
    EndingChange,
    GroupComparison,
    SubjectComparison,
    Verdict,
)
from ssllatency.model.statistics.groups import labels_of
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.rows.changes import leaning, percent
from ssllatency.reports.rows.handshakes.groups import OTHER
from ssllatency.reports.words.label_words import ADJECTIVES, LABELS, label_heading, value_words
from ssllatency.units import counted, duration, share

_MOST_REASONS, _MOST_FUNCTIONS = 4, 6
_NEW_SHARE = 0.05  # a group that is new, or gone, is told of if it is so large a part of all
_TIMES = (Quantity.MEAN, Quantity.P50, Quantity.P90, Quantity.P99)


def failure_sentences(comparison: Comparison) -> list[tuple[Verdict, str]]:
    """Return how failed and abandoned handshakes changed, a sentence each with its verdict, and which reasons are more or
    fewer."""
    sentences = []
    for ending in (Ending.FAILURE, Ending.ABANDONED):
        changes = [change for change in comparison.endings if change.ending is ending]
        if changes:
            sentences.append((_worst(changes), _ending_words(changes[0], changes[1:])))
    return sentences


def _worst(changes: Sequence[EndingChange]) -> Verdict:
    verdicts = {change.verdict for change in changes}
    return next((verdict for verdict in (Verdict.MORE, Verdict.FEWER) if verdict in verdicts), Verdict.NOISE)


def _ending_words(whole: EndingChange, reasons: Sequence[EndingChange]) -> str:
    subject = f"{ADJECTIVES[whole.ending].capitalize()} handshakes"
    sides = [f"{count} of {everything}" for count, everything in zip(whole.counts, whole.wholes, strict=True)]
    shares = [
        f" ({share(count, everything)})" if count else "" for count, everything in zip(whole.counts, whole.wholes, strict=True)
    ]
    words = f"{subject}: {sides[0]}{shares[0]} before and {sides[1]}{shares[1]} after: {whole.verdict}."
    changed = [change for change in reasons if change.verdict is not Verdict.NOISE]
    told = ", ".join(map(_reason_words, changed[:_MOST_REASONS]))
    more = f", and {counted(len(changed) - _MOST_REASONS, 'reason')} more" if len(changed) > _MOST_REASONS else ""
    return f"{words} By reason: {told}{more}." if told else words


def _reason_words(change: EndingChange) -> str:
    alert = f', alert "{change.alert}"' if change.alert else ""
    new = "new, " if not change.counts[0] else ""
    return f'"{change.reason or "no reason known"}"{alert} ({new}{change.counts[0]} before, {change.counts[1]} after)'


@dataclass(frozen=True)
class GroupChanges:
    """Groups of handshakes: headings of their labels and cells; a row of labels and cells for each that changed, with whether
    it got worse; and how many others there are."""

    labels: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[str, ...], bool], ...]
    others: int


def group_changes(comparison: Comparison) -> GroupChanges:
    """Return whom the change affects; without rows where groups aren't known of both, or none changed."""
    labels = labels_of(comparison.after)
    changed = [group for group in comparison.groups if _group_verdict(group, comparison)]
    rows = tuple(
        (_group_names(group.group, len(labels)), _group_cells(group), _is_worse(group))
        for group in sorted(changed, key=lambda group: (not _is_worse(group), -_added(group)))
    )
    headings = ("Handshakes", "Failed", "Mean", "Change")
    return GroupChanges(tuple(map(label_heading, labels)), headings, rows, len(comparison.groups) - len(rows))


def ungrouped_words(comparison: Comparison) -> str:
    """Return why it isn't known whom the change affects, where one of the recordings was grouped; "" else."""
    before, after = labels_of(comparison.before), labels_of(comparison.after)
    if before == after:
        return ""
    return f"Whom it affects isn't known: grouped by {_labels(before)} before and by {_labels(after)} after."


def _labels(labels: Iterable[Label]) -> str:
    return ", ".join(LABELS[label] for label in labels) or "nothing"


def _group_names(group: ComparedGroup, labels: int) -> tuple[str, ...]:
    if group.other:
        return (OTHER, *[""] * (labels - 1))
    return tuple(value_words(label, value) for label, value in group.labels)


def _group_cells(group: GroupComparison) -> tuple[str, ...]:
    mean, failed = group.changes[Quantity.MEAN], group.failed.counts if group.failed else (0, 0)
    times = f"{duration(mean.before)} -> {duration(mean.after)}"
    return f"{group.counts[0]} -> {group.counts[1]}", f"{failed[0]} -> {failed[1]}", times, _group_words(group)


def _group_words(group: GroupComparison) -> str:
    if not all(group.counts):
        return "gone" if group.counts[0] else "new"
    mean = group.changes[Quantity.MEAN]
    words = change_words(Quantity.MEAN, mean) if mean.ratio is not None else ""
    failures = f"{group.failed.verdict} failures" if group.failed and group.failed.verdict is not Verdict.NOISE else ""
    return ", ".join(filter(None, (words, failures)))


def _group_verdict(group: GroupComparison, comparison: Comparison) -> bool:
    """Whether the group changed beyond noise."""
    if not all(group.counts):
        wholes = [sum(other.counts[side] for other in comparison.groups) for side in (0, 1)]
        return any(count > _NEW_SHARE * whole for count, whole in zip(group.counts, wholes, strict=True))
    slower = group.changes[Quantity.MEAN].leaning in (Verdict.SLOWER, Verdict.FASTER)
    return slower or (group.failed is not None and group.failed.verdict is not Verdict.NOISE)


def _is_worse(group: GroupComparison) -> bool:
    more = group.failed is not None and group.failed.verdict is Verdict.MORE
    return more or group.changes[Quantity.MEAN].verdict is Verdict.SLOWER


def _added(group: GroupComparison) -> float:
    """The time that its handshakes take more than before, in all."""
    mean = group.changes[Quantity.MEAN]
    return group.counts[1] * ((mean.after or 0) - (mean.before or 0))


def change_words(quantity: Quantity, change: Change) -> str:
    """The change in percent with what to make of it, one word: "+12 % slower", "+8 % slower?" where that isn't sure,
    "-0.3 % noise"; "-" where it isn't known."""
    probably = leaning(quantity, change)
    plain = {Verdict.NOISE: "noise", Verdict.UNKNOWN: ""}
    word = f"{probably}?" if probably else plain.get(change.verdict, str(change.verdict))
    return " ".join(filter(None, (percent(change.ratio) if change.ratio is not None else "", word))) or "-"


def changed_rows(rows: Iterable[SubjectComparison]) -> list[SubjectComparison]:
    """The rows of which a time changed beyond noise, the largest change of a mean first."""
    changed = [row for row in rows if any(row.changes[time].verdict in (Verdict.SLOWER, Verdict.FASTER) for time in _TIMES)]
    return sorted(changed, key=lambda row: -_size(row.changes[Quantity.MEAN]))


def left_out_words(comparison: Comparison) -> str:
    """A sentence about the functions that aren't compared, "" where all are."""
    if not comparison.left_out:
        return ""
    names, more = comparison.left_out[:_MOST_FUNCTIONS], len(comparison.left_out[_MOST_FUNCTIONS:])
    beyond = f" and {more} more" if more else ""
    return (
        f"Not compared, as either recording watched them in windows only: {', '.join(names)}{beyond}. `record --exact` watches "
        "all of their calls."
    )


def came_and_went(rows: Iterable[SubjectComparison]) -> Iterator[tuple[str, SubjectComparison]]:
    """The rows that there are on one side only, surely: "new" or "gone"."""
    for row in rows:
        rate = row.changes[Quantity.RATE]
        if rate.verdict is Verdict.MORE and rate.before == 0:
            yield "new", row
        elif rate.verdict is Verdict.FEWER and rate.after == 0:
            yield "gone", row


def _size(change: Change) -> float:
    return abs((change.after or 0) - (change.before or 0))
