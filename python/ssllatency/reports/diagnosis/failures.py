# SPDX-License-Identifier: Apache-2.0
"""Rules about handshakes that didn't succeed."""

from __future__ import annotations

from collections import Counter

from ssllatency.model.handshakes import Cause, Ending, Handshakes, wall_time_ns
from ssllatency.reports.diagnosis.numbers import FEWEST, MOST, counts, ratio
from ssllatency.reports.words.units import duration, share

# Fewer failures for one reason don't make a pattern.
FEWEST_FAILURES = 10
# Clients that close a tab give up a few handshakes in a hundred at most.
MANY_ABANDONED = 0.1

# What the reasons say in other words, as OpenSSL spells them; and the alerts that a peer sent.
REASONS = {
    "no shared cipher": "what clients offer and what this server's ciphers and key allow have nothing in common",
    "unsupported protocol": "these clients offer no version that this server allows",
    "version too low": "these clients offer no version that this server allows",
    "wrong version number": "what comes in is not TLS, or TLS of a version not allowed",
    "http request": "plain HTTP is sent to the TLS port",
    "peer did not return a certificate": "clients send no certificate where one is required",
    "certificate verify failed": "clients' certificates don't pass this server's check",
    "no suitable key share": "clients and this server have no key-exchange group in common",
    "no shared group": "clients and this server have no key-exchange group in common",
    "no suitable groups": "clients and this server have no key-exchange group in common",
    "no common signature algorithms": "no signature algorithm of the clients fits this server's key",
    "no suitable signature algorithm": "no signature algorithm of the clients fits this server's key",
    "no application protocol": "clients and this server have no ALPN protocol in common",
}
ALERTS = {
    "unknown ca": "the peers don't trust this certificate's issuer, or its chain is sent incomplete",
    "bad certificate": "the peers turn this certificate down",
    "certificate unknown": "the peers turn this certificate down",
    "certificate expired": "the peers consider this certificate expired",
    "certificate revoked": "the peers consider this certificate revoked",
    "unsupported certificate": "the peers can't use a certificate of this kind",
}


def abandoned(handshakes: Handshakes) -> str | None:
    """Many handshakes were given up in the middle, more than failed."""
    number = counts(handshakes)
    gone, everything = number[Ending.ABANDONED], sum(number.values())
    if everything < FEWEST or gone < max(FEWEST_FAILURES, number[Ending.FAILURE]) or gone < MANY_ABANDONED * everything:
        return None
    rows = [cause for cause in handshakes.causes if cause.ending is Ending.ABANDONED]
    total_ns = wall_time_ns(rows) if _complete(rows, gone) else None
    after = "" if total_ns is None else f" after {duration(total_ns / gone)} on average"
    sentence = f"{share(gone, everything)} of the handshakes ({gone}) were abandoned{after}"
    return f"{sentence}{_where(rows, gone)}: given up in the middle, by the peer or by the server itself."


def one_reason(handshakes: Handshakes) -> str | None:
    """Most of the failures have one reason."""
    number = counts(handshakes)
    failed, everything = number[Ending.FAILURE], sum(number.values())
    rows = [cause for cause in handshakes.causes if cause.ending is Ending.FAILURE and cause.reason]
    frequent = Counter[tuple[str, str]]()
    for cause in rows:
        frequent[cause.reason, "" if cause.sent else cause.alert] += cause.count
    if everything < FEWEST or not frequent:
        return None
    (reason, alert), most = frequent.most_common(1)[0]
    if most < FEWEST_FAILURES or most < MOST * failed:
        return None
    meaning = REASONS.get(reason) or ALERTS.get(alert, "")
    few = f'{share(most, failed)} of the failures ({most} of {failed}, in {everything} handshakes) are "{reason}"'
    return f"{few}: {meaning}." if meaning else f"{few}."


def _complete(rows: list[Cause], number: int) -> bool:
    return sum(cause.count for cause in rows) == number


def _where(rows: list[Cause], number: int) -> str:
    """The state that most of them had reached."""
    states = Counter[str]()
    for cause in rows:
        states[cause.state] += cause.count
    state, most = max(states.items(), key=lambda item: item[1], default=("", 0))
    return f', {share(most, number)} of them in state "{state}"' if state and ratio(most, number) >= MOST else ""
