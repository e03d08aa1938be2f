# SPDX-License-Identifier: Apache-2.0
"""A rule about clients that wait long for several things, none of which is much of it."""

from __future__ import annotations

from ssllatency.model.handshakes import CLIENT_WAIT_PARTS, Part
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.reports.words.units import share

# A client that waits so long in all notices.
LONG_NS = 10_000_000
_WORK = "the server's work in calls"
_PIECES = {
    _WORK: (Part.CALLS,),
    "its queue": (Part.QUEUE,),
    "waiting for the peer's bytes": (Part.WAIT_PEER, Part.WAIT_WINDOW, Part.WAIT_PEER_OR_SERVER),
    "waiting for the offload": (Part.WAIT_OFFLOAD,),
    "waiting for the application": (Part.WAIT_APPLICATION,),
    "between calls for another reason": (Part.WAIT_UNKNOWN,),
}


def several_causes(case: Case) -> Evidence | None:
    """Clients wait long, and no part of that is much of it."""
    if not case.count or case.wait_ns < LONG_NS * case.count:
        return None
    longest = sorted(_PIECES, key=lambda piece: -case.ns(*_PIECES[piece]))[:3]
    shares = [
        f"{share(case.ns(*_PIECES[piece]), case.wait_ns)} {_words(case, piece)}"
        for piece in longest
        if case.ns(*_PIECES[piece])
    ]
    subject = "Clients wait" if case.is_server else "This program's handshakes take"
    waits = f"{subject} {case.mean(*CLIENT_WAIT_PARTS)} a handshake, and no part of that stands out"
    return Evidence(f"{waits}: {', '.join(shares)}", 0.0)


def _words(case: Case, piece: str) -> str:
    return piece if case.is_server or piece != _WORK else "its work in calls"
