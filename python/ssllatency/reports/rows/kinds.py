# SPDX-License-Identifier: Apache-2.0
"""What kinds of handshakes there were: the values of the labels, the private keys, and the groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ssllatency.model.handshake_arithmetic import total
from ssllatency.model.handshakes import Ending, Group, Handshakes, Label, Part
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.handshakes import LABELS, key_words, label_heading, value_words
from ssllatency.reports.words.quantiles import quantile
from ssllatency.reports.words.units import duration, share

GROUP_HEADINGS = ("Outcome", "Count", "Share", "p50", "p90", "p99", "Calls", "Key")
_QUANTILES = (0.5, 0.9, 0.99)

V = TypeVar("V")


@dataclass(frozen=True)
class LabelValue:
    """How many of the successful handshakes had this value of a label."""

    words: str
    count: int
    share: str


@dataclass(frozen=True)
class LabelMix:
    """A label's values, the most frequent first."""

    name: str
    values: tuple[LabelValue, ...]

    @property
    def count(self) -> int:
        """Of how many handshakes the label is known."""
        return sum(value.count for value in self.values)


@dataclass(frozen=True)
class KeyRow:
    """What a kind of private key did: in how many successful handshakes, and for how long."""

    words: str
    count: str
    share: str
    mean: str
    total: str


def mix(handshakes: Handshakes) -> list[LabelMix]:
    """The values of each label that is known, in the order of the labels."""
    return [LabelMix(LABELS[label], _values(label, counts)) for label, counts in _in_order(handshakes.mix) if counts]


def _values(label: Label, counts: Mapping[str, int]) -> tuple[LabelValue, ...]:
    everything = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda value: (-value[1], value[0]))
    return tuple(LabelValue(value_words(label, value), count, share(count, everything)) for value, count in ordered)


def unknown_labels(handshakes: Handshakes) -> dict[str, str]:
    """Why a label isn't known, by label."""
    return {LABELS[label]: reason for label, reason in _in_order(handshakes.unknown_labels)}


def keys(handshakes: Handshakes) -> list[KeyRow]:
    """The private keys that were used in successful handshakes, the most frequent first."""
    group = total(handshakes, Ending.SUCCESS)
    successful = group.count if group else 0
    ordered = sorted((use for use in handshakes.keys if use.count), key=lambda use: (-use.count, use.key, use.operation))
    return [
        KeyRow(
            key_words(use.operation, use.key),
            str(use.count),
            share(use.count, successful),
            duration(use.total_ns / use.count),
            duration(use.total_ns),
        )
        for use in ordered
    ]


def group_rows(handshakes: Handshakes) -> list[Row]:
    """A row for each group: its labels and its outcome are names, its cells stand under the rest of GROUP_HEADINGS. The largest
    first, "other" last; times are the wall's, the last two cells means. None where handshakes weren't grouped."""
    present = sorted((group for group in handshakes.groups if group.count), key=lambda group: (group.other, -group.count))
    everything = sum(group.count for group in present)
    return [
        Row((*_labels(group, handshakes.by), _outcome(group)), _cells(group, everything)) for group in present if handshakes.by
    ]


def group_headings(handshakes: Handshakes) -> tuple[str, ...]:
    """What stands over the names and cells of group_rows()."""
    return (*(label_heading(label) for label in handshakes.by), *GROUP_HEADINGS)


def _labels(group: Group, by: Sequence[Label]) -> tuple[str, ...]:
    if group.other:
        return "other", *[""] * (len(by) - 1)
    return tuple(value_words(label, group.labels.get(label)) for label in by)


def _outcome(group: Group) -> str:
    return "failed" if group.ending is Ending.FAILURE else str(group.ending)


def _cells(group: Group, everything: int) -> tuple[str, ...]:
    wall, key = group.parts[Part.WALL], group.parts.get(Part.PRIVATE_KEY)
    return (
        str(group.count),
        share(group.count, everything),
        *(quantile(wall, q) for q in _QUANTILES),
        duration(group.parts[Part.CALLS].total_ns / group.count),
        duration(key.total_ns / key.count if key and key.count else None),
    )


def _in_order(values: Mapping[Label, V]) -> list[tuple[Label, V]]:
    """What is known by label, in the order of the labels."""
    return [(label, values[label]) for label in Label if label in values]
