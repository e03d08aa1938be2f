# SPDX-License-Identifier: Apache-2.0
"""The kinds of handshakes that there were: the values of the labels, and the private keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending, Handshakes, Label
from ssllatency.reports.words.label_words import LABELS, key_words, value_words
from ssllatency.units import duration, share

V = TypeVar("V")


@dataclass(frozen=True)
class LabelValue:
    """The number of successful handshakes that had this value of a label."""

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
    """The use of a kind of private key: in how many successful handshakes, and for how long."""

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
    """Return why a label isn't known, by label."""
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


def _in_order(values: Mapping[Label, V]) -> list[tuple[Label, V]]:
    """The values by label, in the order of the labels."""
    return [(label, values[label]) for label in Label if label in values]
