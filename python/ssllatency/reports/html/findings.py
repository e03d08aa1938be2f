# SPDX-License-Identifier: Apache-2.0
"""The findings of a page, each with its mark: what changed, how the handshakes ended, what stands out, what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.model.handshakes import Ending, Handshakes
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.reports.diagnosis.diagnosis import calm, diagnoses
from ssllatency.reports.diagnosis.numbers import FEWEST, counts
from ssllatency.reports.diagnosis.rule import About
from ssllatency.reports.html import change as html_change
from ssllatency.reports.html.blocks import FindingMark, MarkedSentence
from ssllatency.reports.rows.handshakes.endings import none_ended, summary
from ssllatency.reports.rows.losses import incomplete

# Of all handshakes, how many may fail or be abandoned: clients that give up are everyday.
_FEW, _MANY = 0.01, 0.1
_INCOMPLETE = "Not everything was counted: what is known of that stands at the end."
_FUNCTIONS = "Whole handshakes weren't measured: the functions below show where the time in calls went."


def findings(whole: Snapshot, comparison: Comparison | None) -> list[MarkedSentence]:
    """In reading order."""
    missing = [MarkedSentence(FindingMark.LOOK, _INCOMPLETE)] if incomplete(whole) else []
    if not whole.handshakes:
        return [*missing, MarkedSentence(FindingMark.LOOK, _FUNCTIONS)]
    changes = html_change.findings(comparison) if comparison else []
    return [*changes, *_of_handshakes(whole.handshakes, whole.duration_s), *missing]


def _of_handshakes(handshakes: Handshakes, duration_s: float) -> Iterator[MarkedSentence]:
    ended = summary(handshakes, duration_s)
    mark = _mark(handshakes)
    yield MarkedSentence(mark, f"{ended}." if ended else none_ended(duration_s))
    failures = FindingMark.BAD if mark is FindingMark.BAD else FindingMark.LOOK
    marks = {About.TIME: FindingMark.LOOK, About.FAULT: FindingMark.BAD, About.FAILURES: failures}
    told = diagnoses(handshakes, duration_s)
    for diagnosis in told:
        yield MarkedSentence(marks[diagnosis.about], diagnosis.sentence)
    if ended and not told:
        successful = counts(handshakes)[Ending.SUCCESS]
        yield MarkedSentence(FindingMark.GOOD if successful >= FEWEST else FindingMark.LOOK, calm(successful))


def _mark(handshakes: Handshakes) -> FindingMark:
    """By how many didn't succeed."""
    everything = sum(group.count for group in handshakes.groups)
    others = sum(group.count for group in handshakes.groups if group.ending is not Ending.SUCCESS)
    if not everything:
        return FindingMark.LOOK
    return (
        FindingMark.GOOD if others < _FEW * everything else FindingMark.LOOK if others < _MANY * everything else FindingMark.BAD
    )
