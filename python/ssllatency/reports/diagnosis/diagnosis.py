# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a measurement, in at most two sentences: where the time goes, and why handshakes fail.

Each rule is a function of the handshakes that returns its sentence, or None where the numbers don't support it. The first that
applies is taken. docs/reference/handshakes.md, section DIAGNOSIS, has them all with what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssllatency.model.handshakes import Handshakes
from ssllatency.reports.diagnosis import failures as diagnosis_failures
from ssllatency.reports.diagnosis import offload as diagnosis_offload
from ssllatency.reports.diagnosis import time as diagnosis_time
from ssllatency.reports.words.units import printable

Rule = Callable[[Handshakes], str | None]

# What passes the wall time first, from the particular to the general; then what takes the time in calls.
TIME_RULES: Sequence[Rule] = (
    diagnosis_offload.software_fallback,
    diagnosis_offload.vain_resumptions,
    diagnosis_offload.late_resumption,
    diagnosis_offload.batches_unfilled,
    diagnosis_offload.offload_waits,
    diagnosis_time.application_waits,
    diagnosis_time.peer_waits,
    diagnosis_time.off_cpu,
    diagnosis_time.private_key,
    diagnosis_time.peer_verification,
    diagnosis_time.session_lookup,
    diagnosis_time.callbacks,
    diagnosis_time.key_exchange,
)
FAILURE_RULES: Sequence[Rule] = (diagnosis_failures.abandoned, diagnosis_failures.one_reason)


def diagnose(handshakes: Handshakes) -> list[str]:
    """At most two sentences, none where nothing stands out."""
    firsts = (_first(rules, handshakes) for rules in (TIME_RULES, FAILURE_RULES))
    return [printable(sentence) for sentence in firsts if sentence]


def _first(rules: Sequence[Rule], handshakes: Handshakes) -> str | None:
    return next((sentence for rule in rules if (sentence := rule(handshakes))), None)
