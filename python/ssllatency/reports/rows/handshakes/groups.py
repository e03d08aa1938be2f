# SPDX-License-Identifier: Apache-2.0
"""Handshakes by the values of the labels that they were told apart by: how many there were, how many of them failed, and what
those that succeeded were like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import add_groups
from ssllatency.model.handshakes import Ending, Group, Handshakes, Label, Part, whole_part
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.label_words import label_heading, value_words
from ssllatency.reports.words.quantiles import quantile
from ssllatency.units import duration, share

OTHER = "other"
_ABSENT = "-"

_Values = tuple[str | None, ...]


@dataclass(frozen=True)
class GroupTable:
    """The headings over the labels and those over the numbers; a row for each combination of values, that of most handshakes
    first and "other" last; and how many combinations are in "other" only to keep the table short."""

    labels: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    folded: int = 0


def group_table(handshakes: Handshakes, most: int | None = None) -> GroupTable:
    """The table, without rows where handshakes weren't grouped. `most`: so many combinations, those of most handshakes, have
    rows of their own, and the rest are added up."""
    by = handshakes.by
    known, other = _combinations(handshakes)
    ordered = sorted(known.items(), key=lambda item: -_count(item[1]))
    shown = ordered if most is None else ordered[:most]
    folded = ordered[len(shown) :]
    everything = sum(map(_count, (*known.values(), other)))
    rows = [Row(_names(values, by), _cells(groups, everything, by)) for values, groups in shown]
    rest = [*other, *(group for _, groups in folded for group in groups)]
    if rest:
        rows.append(Row((OTHER, *[""] * (len(by) - 1)), _cells(rest, everything, by)))
    return GroupTable(tuple(map(label_heading, by)), _headings(by), tuple(rows), len(folded))


def _combinations(handshakes: Handshakes) -> tuple[Mapping[_Values, list[Group]], list[Group]]:
    """The groups by the values of their labels, and those that count under "other"."""
    known: dict[_Values, list[Group]] = {}
    other: list[Group] = []
    for group in handshakes.groups if handshakes.by else ():
        values = tuple(group.text(label) for label in handshakes.by)
        if group.count:
            (other if group.other else known.setdefault(values, [])).append(group)
    return known, other


def _names(values: _Values, by: Sequence[Label]) -> tuple[str, ...]:
    return tuple(value_words(label, value) for label, value in zip(by, values, strict=True))


def _headings(by: Sequence[Label]) -> tuple[str, ...]:
    resumed = () if Label.RESUMED in by else ("Resumed",)
    return "Count", "Share", "Failed", "Fail %", "Abandoned", *resumed, "p50", "p99", "Own", "Queue", "Waits", "Key"


def _cells(groups: Sequence[Group], everything: int, by: Sequence[Label]) -> tuple[str, ...]:
    count, failed = _count(groups), _count(_ended(groups, Ending.FAILURE))
    successful = _ended(groups, Ending.SUCCESS)
    return (
        str(count),
        share(count, everything),
        str(failed),
        share(failed, count),
        str(_count(_ended(groups, Ending.ABANDONED))),
        *_successful_cells(add_groups(successful) if successful else None, Label.RESUMED not in by),
    )


def _successful_cells(group: Group | None, resumed: bool) -> tuple[str, ...]:
    """The cells that only handshakes that succeeded fill; absent where none did."""
    if group is None:
        return (_ABSENT,) * (6 + resumed)
    whole, calls, key = group.whole, group.parts[Part.CALLS], group.parts.get(Part.PRIVATE_KEY)
    queue = Part.QUEUE if whole_part((group,)) is Part.CLIENT_WAIT else Part.QUEUE_SERVER  # what of it is in the whole
    queued_ns = group.total_ns(queue)
    return (
        *([share(group.resumed, group.resumption_known)] if resumed else []),
        quantile(whole, 0.5),
        quantile(whole, 0.99),
        duration(calls.total_ns / group.count),
        duration(queued_ns / group.count if queue in group.parts else None),
        duration((whole.total_ns - calls.total_ns - queued_ns) / group.count),
        duration(key.total_ns / key.count if key and key.count else None),
    )


def _ended(groups: Iterable[Group], ending: Ending) -> list[Group]:
    return [group for group in groups if group.ending is ending]


def _count(groups: Iterable[Group]) -> int:
    return sum(group.count for group in groups)
