# SPDX-License-Identifier: Apache-2.0
"""A rule about clients that wait long for several things, none of which is much of it."""

from __future__ import annotations

from ssllatency.model.handshakes import CLIENT_WAIT_PARTS, Part
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.units import share

# A client that waits so long in all notices.
LONG_NS = 10_000_000
_WORK = (Part.CALLS,)
_PIECES = {
    _WORK: "the server's work in calls",
    (Part.QUEUE,): "its queue",
    (Part.WAIT_PEER, Part.WAIT_WINDOW, Part.WAIT_PEER_OR_SERVER): "waiting for the peer's bytes",
    (Part.WAIT_OFFLOAD,): "waiting for the offload",
    (Part.WAIT_APPLICATION,): "waiting for the application",
    (Part.WAIT_UNKNOWN,): "between calls for another reason",
}


def several_causes(case: Case) -> Evidence | None:
    """Clients wait long, and no part of that is much of it."""
    if not case.is_much(LONG_NS, case.wait_ns, 1, case.slowest_ns(*CLIENT_WAIT_PARTS)):
        return None
    longest = sorted(_PIECES, key=lambda parts: -case.ns(*parts))[:3]
    shares = [f"{share(case.ns(*parts), case.wait_ns)} {_words(case, parts)}" for parts in longest if case.ns(*parts)]
    subject = "Clients wait" if case.is_server else "This program's handshakes take"
    waits = f"{subject} {case.mean(*CLIENT_WAIT_PARTS)} a handshake, and no part of that stands out"
    return Evidence(f"{waits}: {', '.join(shares)}", 0.0)


def _words(case: Case, parts: tuple[Part, ...]) -> str:
    return _PIECES[parts] if case.is_server or parts != _WORK else "its work in calls"
