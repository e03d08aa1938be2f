# SPDX-License-Identifier: Apache-2.0
"""Which rules of the diagnosis speak of handshakes, what one says, and its words for what a thread did."""

from __future__ import annotations

from tests.unit.reports.diagnosis.cases import Judge

from ssllatency.model.handshakes import Handshakes, Part
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.diagnosis import diagnoses

# What the server's thread did while bytes lay in its queue, and what that is called.
MEANWHILE = {
    Part.QUEUE_HANDSHAKES: "busy with other handshakes",
    Part.QUEUE_OTHER: "busy with something else than handshakes",
    Part.QUEUE_GOROUTINES: "busy with other goroutines or the runtime's own work",
    Part.QUEUE_COLLECTIONS: "busy with garbage collection",
    Part.QUEUE_RUNNABLE: "ready to run but had no processor",
    Part.QUEUE_THROTTLED: "held by a CPU quota",
    Part.QUEUE_ASLEEP: "slept elsewhere",
}


def names(handshakes: Handshakes) -> list[str]:
    """The names of the rules that speak, in order."""
    return [diagnosis.rule.name for diagnosis in diagnoses(handshakes)]


def told(rule: Judge, handshakes: Handshakes) -> str:
    """The evidence of one rule, which must speak."""
    evidence = rule(Case(handshakes))
    assert evidence
    return evidence.sentence
