# SPDX-License-Identifier: Apache-2.0
"""The rule about connections that found the accept queue full: their clients try again, and that wait is in no handshake."""

from __future__ import annotations

from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, NOTABLE, OWN_FLOOR_NS, ratio
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.reports.words.accept_queues import place
from ssllatency.reports.words.units import counted

# Linux's TCP sends nothing again earlier than this (TCP_RTO_MIN); a SYN not before a second has passed.
RETRY_NS = 200_000_000


def accept_queue_full(case: Case) -> Evidence | None:
    """Connections found no room, and the least that their clients wait for it is much beside what they wait otherwise."""
    overflows, again_ns = case.handshakes.overflows, case.handshakes.overflows * RETRY_NS
    if case.count + overflows < FEWEST or again_ns < OWN_FLOOR_NS * case.count:
        return None
    if again_ns < NOTABLE * (again_ns + case.wait_ns):
        return None
    weight = ratio(again_ns, case.wait_ns) if case.wait_ns else 1.0  # beside shares of what clients wait otherwise
    worst = max(case.handshakes.accept_queues or (), key=lambda queue: queue.overflows)
    one = f"{place(worst)}, which holds {worst.limit}"
    times = counted(overflows, "time")
    if worst.overflows == overflows:
        what = f"The accept queue of {one}, was full {times} when a connection came"
    else:
        what = f"Accept queues were full {times} when a connection came, {worst.overflows} times that of {one}"
    return Evidence(f"{what}: its client tries again 0.2 s or more later, and no time above includes that", weight)
