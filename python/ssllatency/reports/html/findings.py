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
from ssllatency.reports.html.blocks import Finding, Mark
from ssllatency.reports.rows.handshakes.endings import none_ended, summary
from ssllatency.reports.rows.losses import incomplete

# Of all handshakes, how many may fail or be abandoned: clients that give up are everyday.
_FEW, _MANY = 0.01, 0.1
_INCOMPLETE = "Not everything was counted: what is known of that stands at the end."
_FUNCTIONS = "Whole handshakes weren't measured: the functions below show where the time in calls went."


def findings(whole: Snapshot, comparison: Comparison | None) -> list[Finding]:
    """In the order in which they are to be read."""
    missing = [Finding(Mark.LOOK, _INCOMPLETE)] if incomplete(whole) else []
    if not whole.handshakes:
        return [*missing, Finding(Mark.LOOK, _FUNCTIONS)]
    changes = html_change.findings(comparison) if comparison else []
    return [*changes, *_of_handshakes(whole.handshakes, whole.duration_s), *missing]


def _of_handshakes(handshakes: Handshakes, duration_s: float) -> Iterator[Finding]:
    ended = summary(handshakes, duration_s)
    mark = _mark(handshakes)
    yield Finding(mark, f"{ended}." if ended else none_ended(duration_s))
    failures = Mark.BAD if mark is Mark.BAD else Mark.LOOK
    marks = {About.TIME: Mark.LOOK, About.FAULT: Mark.BAD, About.FAILURES: failures}
    told = diagnoses(handshakes, duration_s)
    for diagnosis in told:
        yield Finding(marks[diagnosis.about], diagnosis.sentence)
    if ended and not told:
        successful = counts(handshakes)[Ending.SUCCESS]
        yield Finding(Mark.GOOD if successful >= FEWEST else Mark.LOOK, calm(successful))


def _mark(handshakes: Handshakes) -> Mark:
    """By how many didn't succeed."""
    everything = sum(group.count for group in handshakes.groups)
    others = sum(group.count for group in handshakes.groups if group.ending is not Ending.SUCCESS)
    if not everything:
        return Mark.LOOK
    return Mark.GOOD if others < _FEW * everything else Mark.LOOK if others < _MANY * everything else Mark.BAD
