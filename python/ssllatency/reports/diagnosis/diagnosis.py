# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a measurement, in at most three sentences: who owns the time that clients wait for, what doesn't work as it
should, why handshakes fail; and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Ending, Handshakes
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, counts
from ssllatency.reports.diagnosis.rule import About, Evidence, Rule, Subject
from ssllatency.reports.diagnosis.rules import RULES
from ssllatency.units import counted, printable

# More would bury the culprit.
MOST_SENTENCES = 3


@dataclass(frozen=True)
class Diagnosis:
    """A sentence with its next step, and the rule that it follows from."""

    sentence: str
    rule: Rule

    @property
    def about(self) -> About:
        """Its subject."""
        return self.rule.about


def diagnose(handshakes: Handshakes, duration_s: float | None = None) -> list[str]:
    """At most three sentences, none where nothing stands out. `duration_s`: how long was measured, where that is known."""
    return [diagnosis.sentence for diagnosis in diagnoses(handshakes, duration_s)]


def conclusion(handshakes: Handshakes, duration_s: float | None = None) -> list[str]:
    """The diagnosis, and where nothing stands out a sentence that says so, or that there are too few handshakes to tell;
    nothing where none has ended."""
    number = counts(handshakes)
    return diagnose(handshakes, duration_s) or ([calm(number[Ending.SUCCESS])] if any(number.values()) else [])


def calm(successful: int) -> str:
    """Return what is said of so many successful handshakes where no rule speaks."""
    if successful < FEWEST:
        return f"Too few successful handshakes to tell what is slow: {successful}, and {FEWEST} are needed."
    return f"Nothing stands out in {counted(successful, 'successful handshake')}."


def diagnoses(handshakes: Handshakes, duration_s: float | None = None) -> list[Diagnosis]:
    """The diagnosis's sentences with their rules."""
    case = Case(handshakes, duration_s)
    told = [(rule, evidence) for rule in RULES if (evidence := rule.evidence(case))]
    told.sort(key=lambda one: -one[1].weight)
    return [_diagnosis(rule, evidence) for rule, evidence in _without_repetition(told)][:MOST_SENTENCES]


def _without_repetition(told: Sequence[tuple[Rule, Evidence]]) -> Iterator[tuple[Rule, Evidence]]:
    """The first about each subject; a last resort only where nothing else but failures is told."""
    explained = any(not rule.last_resort and rule.about is not About.FAILURES for rule, _ in told)
    subjects = set[Subject]()
    for rule, evidence in told:
        if rule.subject not in subjects and not (rule.last_resort and explained):
            subjects.add(rule.subject)
            yield rule, evidence


def _diagnosis(rule: Rule, evidence: Evidence) -> Diagnosis:
    step = evidence.step or rule.step
    return Diagnosis(printable(f"{evidence.sentence}.{f' {step}' if step else ''}"), rule)
