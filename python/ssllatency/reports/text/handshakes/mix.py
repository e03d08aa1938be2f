# SPDX-License-Identifier: Apache-2.0
"""What kinds of handshakes there were: the mix of the labels, the private keys, and the groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ssllatency.model.handshakes import Ending, Group, Handshakes, KeyUse, Label, Part
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.handshakes import LABELS, key_words, value_words
from ssllatency.reports.words.quantiles import quantile
from ssllatency.reports.words.units import counted, duration, printable, share

_MOST_VALUES = 6
HEADINGS = ("OUTCOME", "COUNT", "SHARE", "P50", "P90", "P99", "CALLS", "KEY")

V = TypeVar("V")


def mix(handshakes: Handshakes, successful: int, page: Page) -> list[str]:
    """A line a label with its values, the most frequent first; and one of the private keys used."""
    lines = {LABELS[label]: _values(label, counts) for label, counts in in_order(handshakes.mix) if counts}
    for label, reason in in_order(handshakes.unknown_labels):
        lines.setdefault(LABELS[label], f"not known: {printable(reason)}")
    if handshakes.keys:
        lines["private key"] = _keys(handshakes.keys, successful)
    width = max(map(len, lines), default=0)
    return [line for name, text in lines.items() for line in page.wrapped(text, f"  {name:<{width}}  ", " " * (width + 4))]


def group_rows(handshakes: Handshakes) -> list[tuple[list[str], list[str]]]:
    """Each group's labels and what stands under HEADINGS, the largest first, "other" last; times are the wall's, CALLS and KEY
    means. None where handshakes weren't grouped."""
    present = sorted((one for one in handshakes.groups if one.count), key=lambda one: (one.other, -one.count))
    everything = sum(one.count for one in present)
    return [(_labels(one, handshakes.by), _row(one, everything)) for one in present] if handshakes.by else []


def groups(handshakes: Handshakes, page: Page) -> list[str]:
    """The groups as a table."""
    known = group_rows(handshakes)
    if not known:
        return []
    labels = [[LABELS[label].upper() for label in handshakes.by], *(names for names, _ in known)]
    rows = [HEADINGS, *(row for _, row in known)]
    lines = page.table([[*names, *row] for names, row in zip(labels, rows, strict=True)], left=len(handshakes.by) + 1)
    if max(map(len, lines)) > page.width:
        lines = _stacked([", ".join(names).rstrip(", ") for names in labels], rows, page)
    return ["Groups:", *lines]


def in_order(values: Mapping[Label, V]) -> list[tuple[Label, V]]:
    """What is known by label, in the order of the labels."""
    return [(label, values[label]) for label in Label if label in values]


def _values(label: Label, counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    everything = sum(counts.values())
    words = [f"{value_words(label, value)} {share(count, everything)}" for value, count in ordered[:_MOST_VALUES]]
    rest = sum(count for _, count in ordered[_MOST_VALUES:])
    more = [f"{counted(len(ordered) - _MOST_VALUES, 'other')} {share(rest, everything)}"] if rest else []
    return ", ".join([*words, *more])


def _keys(keys: Sequence[KeyUse], successful: int) -> str:
    ordered = sorted((one for one in keys if one.count), key=lambda one: (-one.count, one.key, one.operation))
    return ", ".join(
        f"{key_words(one.operation, one.key)} {share(one.count, successful)} (mean {duration(one.total_ns / one.count)})"
        for one in ordered
    )


def _labels(group: Group, by: Sequence[Label]) -> list[str]:
    if group.other:
        return ["other", *[""] * (len(by) - 1)]
    return [value_words(label, group.labels.get(label)) for label in by]


def _row(group: Group, everything: int) -> list[str]:
    wall, key = group.parts[Part.WALL], group.parts.get(Part.PRIVATE_KEY)
    return [
        str(group.ending) if group.ending is not Ending.FAILURE else "failed",
        str(group.count),
        share(group.count, everything),
        *(quantile(wall, q) for q in (0.5, 0.9, 0.99)),
        duration(group.parts[Part.CALLS].total_ns / group.count),
        duration(key.total_ns / key.count if key and key.count else None),
    ]


def _stacked(labels: Sequence[str], rows: Sequence[Sequence[str]], page: Page) -> list[str]:
    """Where the labels leave no room beside them: each group's above its row."""
    lines = page.table(rows, left=1)
    return [line for names, row in zip(labels, lines, strict=True) for line in (*page.wrapped(names, "  ", "  "), f"  {row}")]
