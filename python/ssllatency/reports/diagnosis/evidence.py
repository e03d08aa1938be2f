# SPDX-License-Identifier: Apache-2.0
"""What a rule returns: a sentence with the figures that it rests on, and how much it weighs against others."""

from __future__ import annotations

from dataclasses import dataclass

from ssllatency.reports.diagnosis.numbers import MOST


@dataclass(frozen=True)
class Evidence:
    """A sentence without its full stop. `weight`: its share of the time that clients wait; more than 1 where it goes before
    any such. `step`: what to do next where that depends on the figures, else the rule's is taken."""

    sentence: str
    weight: float
    step: str = ""


def counted_weight(part: float, first_from: float = MOST) -> float:
    """The weight of what concerns this share of the handshakes: before any time that is spent where it concerns many."""
    return part + (part >= first_from)
