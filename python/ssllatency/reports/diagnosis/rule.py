# SPDX-License-Identifier: Apache-2.0
"""A rule of the diagnosis, what it is about, and what it returns: a sentence with the figures that it rests on."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum, auto

from ssllatency.data_class import dataclass
from ssllatency.reports.diagnosis.case import Case
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


class About(StrEnum):
    """The subject of a sentence."""

    TIME = "time"
    FAULT = "fault"
    FAILURES = "failures"


class Subject(Enum):
    """The one whose doing it is. Of the rules about one subject one speaks at most, as they would repeat or contradict each
    other."""

    OFFLOAD = auto()
    QUEUE = auto()
    ACCEPT_QUEUE = auto()
    PROCESSORS = auto()
    PEER = auto()
    LOSSES = auto()
    ROUND_TRIPS = auto()
    APPLICATION = auto()
    KEY = auto()
    KEY_EXCHANGE = auto()
    PEER_VERIFICATION = auto()
    SESSION_LOOKUP = auto()
    CALLBACKS = auto()
    COLLECTIONS = auto()
    SLEEP = auto()
    CALLS = auto()
    RESUMPTION = auto()
    GROUPS = auto()
    FAILURES = auto()
    LEFT = auto()


@dataclass(frozen=True)
class Rule:
    """`evidence` returns the sentence where the numbers support it, else None; `step` is what to do next, and `anchor` where
    docs/symptoms.md says more. A `last_resort` speaks only where no other kind of rule does but those about failures."""

    evidence: Callable[[Case], Evidence | None]
    step: str
    anchor: str
    subject: Subject
    about: About = About.TIME
    last_resort: bool = False

    @property
    def name(self) -> str:
        """The name that docs/reference/handshakes.md has it under."""
        return self.evidence.__name__
