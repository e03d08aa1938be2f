# SPDX-License-Identifier: Apache-2.0
"""Rules about time that passes between calls for another reason than bytes of the peer."""

from __future__ import annotations

from ssllatency.model.handshakes import Part
from ssllatency.reports.diagnosis.calls import unsplit
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import OWN_FLOOR_NS, PEER_FLOOR_NS
from ssllatency.reports.diagnosis.rule import Evidence

_LATE = "waiting for the application to call the library again, or to send what the library gave it"


def application_waits(case: Case) -> Evidence | None:
    """Much of the time the library waited for the application."""
    return _waits(case, Part.WAIT_APPLICATION, OWN_FLOOR_NS, _LATE)


def unknown_waits(case: Case) -> Evidence | None:
    """Much of the time passed between calls, and it isn't known what for."""
    return _waits(case, Part.WAIT_UNKNOWN, PEER_FLOOR_NS, "between calls, and it isn't known what for")


def _waits(case: Case, part: Part, floor_ns: int, how: str) -> Evidence | None:
    if not case.much(floor_ns, part):
        return None
    own = f"{case.own_work} is {case.mean(Part.CALLS)}{unsplit(case)}"
    return Evidence(f"{case.of_wait(case.ns(part))} is spent {how}: {own}", case.share(part))
