# SPDX-License-Identifier: Apache-2.0
"""The rule about connections that found the accept queue full: their clients try again, and that wait is in no handshake."""

from __future__ import annotations

from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, NOTABLE, OWN_FLOOR_NS, ratio
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.reports.words.accept_queues import place
from ssllatency.reports.words.units import counted

# TCP's first retransmission comes after this: RFC 6298, 2.1.
RETRY_NS = 1_000_000_000


def accept_queue_full(case: Case) -> Evidence | None:
    """Connections found no room, and a second for each is much beside what clients wait otherwise."""
    overflows, again_ns = case.handshakes.overflows, case.handshakes.overflows * RETRY_NS
    if case.count + overflows < FEWEST or again_ns < OWN_FLOOR_NS * case.count:
        return None
    weight = ratio(again_ns, again_ns + case.wait_ns)
    if weight < NOTABLE:
        return None
    worst = max(case.handshakes.accept_queues or (), key=lambda queue: queue.overflows)
    where = f"of {place(worst)}, which holds {worst.limit}"
    most = "" if worst.overflows == overflows else f", {worst.overflows} of them at that"
    what = f"{counted(overflows, 'time')} a connection found no room in the accept queue {where}{most}"
    return Evidence(f"{what}: its client tries again after a second or more, and no time above includes that", weight)
