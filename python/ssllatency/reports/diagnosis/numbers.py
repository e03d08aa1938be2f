# SPDX-License-Identifier: Apache-2.0
"""The thresholds and numbers that the diagnosis rules share."""

from __future__ import annotations

from ssllatency.model.handshakes import Ending, Handshakes, KeyUse, Label
from ssllatency.reports.words.label_words import key_words

# Below this many, a share is mostly chance.
FEWEST = 30
# From here on a part is much of what clients wait for: at most three can be.
MUCH = 1 / 3
# From here on a part outweighs all others together.
MOST = 0.5
# What makes nearly all of something may stand for it.
NEARLY_ALL = 0.8
# What concerns so many handshakes is no exception, and so much of the time no noise.
NOTABLE = 0.1
# Less of a server's own time than this in the mean handshake isn't worth a sentence: a healthy server's parts are shorter.
OWN_FLOOR_NS = 500_000
# A peer that answers within this is near and prompt, whatever its share of a quick handshake.
PEER_FLOOR_NS = 2_000_000


def ratio(part: float, whole: float) -> float:
    """The part as a fraction of the whole; 0 of nothing."""
    return part / whole if whole else 0.0


def counts(handshakes: Handshakes) -> dict[Ending, int]:
    """Return how many handshakes ended in each way."""
    return {ending: sum(group.count for group in handshakes.groups if group.ending is ending) for ending in Ending}


def value_share(handshakes: Handshakes, label: Label, value: str) -> float | None:
    """The share of handshakes with this value of a label among those of which it is known; None where it isn't of any."""
    values = handshakes.mix.get(label, {})
    return values.get(value, 0) / sum(values.values()) if any(values.values()) else None


def prevailing(handshakes: Handshakes, label: Label) -> str:
    """The value that nearly all handshakes have, "" where there is none such."""
    values = handshakes.mix.get(label, {})
    value = max(values, key=lambda name: values[name], default="")
    return value if value and values[value] >= NEARLY_ALL * sum(values.values()) else ""


def prevailing_key(handshakes: Handshakes) -> KeyUse | None:
    """The kind of private-key operation that nearly all of their time went to; None where there is none such or its key is
    not known."""
    use = max(handshakes.keys, key=lambda use: use.total_ns, default=None)
    whole = sum(use.total_ns for use in handshakes.keys)
    return use if use and use.key and use.total_ns >= NEARLY_ALL * whole else None


def key_named(handshakes: Handshakes) -> str:
    """Return what the private key does: "RSA-2048 signing"; "the private key" where no kind prevails."""
    use = prevailing_key(handshakes)
    return key_words(use.operation, use.key) if use else "the private key"


def joined_by_or(words: list[str]) -> str:
    """One, or more of them: "a, b or c"."""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
