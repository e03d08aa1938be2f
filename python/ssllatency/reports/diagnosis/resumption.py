# SPDX-License-Identifier: Apache-2.0
"""Rules about resumption that doesn't work, and why."""

from __future__ import annotations

from ssllatency.model.handshakes import YES, Fact, Label, Part
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, MOST, NEARLY_ALL, NOTABLE, OWN_FLOOR_NS, ratio, value_share
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.units import share

# Where fewer offer or resume a session, nobody does: a monitor may be the one who does.
HARDLY_ANY = 0.05


def tickets_refused(case: Case) -> Evidence | None:
    """Most of the clients that offer a session offer a ticket that the server can't use."""
    return _refused(case, Fact.TICKETS_REFUSED, "with a ticket that this server couldn't decrypt or found too old")


def cache_misses(case: Case) -> Evidence | None:
    """Most of the clients that offer a session offer one that isn't in the server's cache."""
    return _refused(case, Fact.CACHE_MISSES, "with a session that wasn't found in the server's cache")


def never_offered(case: Case) -> Evidence | None:
    """Much of the time is the private key's, and hardly any client offers a session: nothing saves it the work."""
    resumed = value_share(case.handshakes, Label.RESUMED, YES)
    phases_known = case.had(Part.KEY_EXCHANGE) >= NEARLY_ALL * case.count  # libraries without phases show no look-up either
    if not case.is_server or resumed is None or resumed > HARDLY_ANY:
        return None
    if not phases_known or not case.much(OWN_FLOOR_NS, Part.PRIVATE_KEY):
        return None
    offered = case.had(Part.SESSION_LOOKUP)
    if offered > HARDLY_ANY * case.count:
        return None
    who = (
        f"{share(offered, case.count)} of the clients offer a session to resume"
        if offered
        else "No client offers a session to resume"
    )
    return Evidence(f"{who}: this server gives them none, or they don't keep it", case.share(Part.PRIVATE_KEY) / 2)


def _refused(case: Case, fact: Fact, why: str) -> Evidence | None:
    offered, refused = case.fact(Fact.OFFERED), case.fact(fact)
    if offered < FEWEST or refused < MOST * offered or refused < NOTABLE * case.phased:
        return None
    saved = ratio(refused, case.phased) * case.share(Part.CALLS)  # at most: a resumed handshake has work left, too
    who = f"{share(refused, offered)} of the clients that offered a session ({refused} of {offered}) came {why}"
    return Evidence(f"Resumption fails: {who}", saved)
