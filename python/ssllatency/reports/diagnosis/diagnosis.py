# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a measurement, in at most two sentences: where the time goes, and why handshakes fail.

Each rule is a function of the handshakes that returns its sentence, or None where the numbers don't support it. The first that
applies is taken. docs/reference/handshakes.md, section DIAGNOSIS, has them all with what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ssllatency.model.handshakes import Handshakes
from ssllatency.reports.diagnosis import failures as diagnosis_failures
from ssllatency.reports.diagnosis import offload as diagnosis_offload
from ssllatency.reports.diagnosis import time as diagnosis_time
from ssllatency.reports.diagnosis import waits as diagnosis_waits
from ssllatency.reports.words.units import printable

Rule = Callable[[Handshakes], str | None]

# What passes the wall time first, from the particular to the general; then what takes the time in calls.
TIME_RULES: Sequence[Rule] = (
    diagnosis_offload.software_fallback,
    diagnosis_offload.vain_resumptions,
    diagnosis_offload.late_resumption,
    diagnosis_offload.batches_unfilled,
    diagnosis_offload.offload_waits,
    diagnosis_waits.server_queue,
    diagnosis_time.application_waits,
    diagnosis_waits.peer_waits,
    diagnosis_waits.peer_or_server_waits,
    diagnosis_time.off_cpu,
    diagnosis_time.private_key,
    diagnosis_time.peer_verification,
    diagnosis_time.session_lookup,
    diagnosis_time.callbacks,
    diagnosis_time.key_exchange,
)
FAILURE_RULES: Sequence[Rule] = (diagnosis_failures.abandoned, diagnosis_failures.one_reason)
# Those of the former that say that something doesn't work as it should; the others say where the time goes.
FAULTS: frozenset[Rule] = frozenset(
    (
        diagnosis_offload.software_fallback,
        diagnosis_offload.vain_resumptions,
        diagnosis_offload.late_resumption,
        diagnosis_waits.server_queue,
    )
)


class About(StrEnum):
    """What a sentence is about."""

    TIME = "time"
    FAULT = "fault"
    FAILURES = "failures"


@dataclass(frozen=True)
class Diagnosis:
    """A sentence, and what it is about."""

    sentence: str
    about: About


def diagnose(handshakes: Handshakes) -> list[str]:
    """At most two sentences, none where nothing stands out."""
    return [diagnosis.sentence for diagnosis in diagnoses(handshakes)]


def diagnoses(handshakes: Handshakes) -> list[Diagnosis]:
    """The same sentences, and what they are about."""
    firsts = (_first(rules, handshakes) for rules in (TIME_RULES, FAILURE_RULES))
    return [Diagnosis(printable(sentence), _about(rule)) for rule, sentence in filter(None, firsts)]


def _first(rules: Sequence[Rule], handshakes: Handshakes) -> tuple[Rule, str] | None:
    return next(((rule, sentence) for rule in rules if (sentence := rule(handshakes))), None)


def _about(rule: Rule) -> About:
    if rule in FAILURE_RULES:
        return About.FAILURES
    return About.FAULT if rule in FAULTS else About.TIME
