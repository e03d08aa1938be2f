# SPDX-License-Identifier: Apache-2.0
"""Rules about handshakes that didn't succeed, and about work for peers that had left."""

from __future__ import annotations

from collections import Counter

from ssllatency.model.handshakes import CLIENT_WAIT_PARTS, Cause, Ending, Fact, Group, Part, wall_time_ns
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import FEWEST, MOST, NOTABLE, OWN_FLOOR_NS, PEER_FLOOR_NS, counts, ratio
from ssllatency.reports.diagnosis.rule import Evidence, counted_weight
from ssllatency.units import counted, duration, share

# Fewer failures for one reason don't make a pattern.
FEWEST_FAILURES = 10
# So much of the work in vain is worth a sentence.
MUCH_IN_VAIN = 0.25
# Where clients left because they waited, what they waited for goes first.
_LAST = 0.0

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
# The same of a program that is a client, or may be, where they mean something else there.
REASONS_OF_PROGRAMS = REASONS | {
    "no shared cipher": "the two sides' ciphers and keys have nothing in common",
    "unsupported protocol": "the peers speak no version that this program allows",
    "version too low": "the peers speak no version that this program allows",
    "http request": "plain HTTP is sent instead of TLS",
    "peer did not return a certificate": "the peers send no certificate where one is required",
    "certificate verify failed": "the peers' certificates don't pass this program's check",
    "no suitable key share": "the peers and this program have no key-exchange group in common",
    "no shared group": "the peers and this program have no key-exchange group in common",
    "no suitable groups": "the peers and this program have no key-exchange group in common",
    "no common signature algorithms": "no signature algorithm of the peers fits this program's key",
    "no suitable signature algorithm": "no signature algorithm of the peers fits this program's key",
    "no application protocol": "the peers and this program have no ALPN protocol in common",
    "ech required": "the peers don't have the key that this program encrypts its ClientHello for",
    "ech rejected": "the peers don't have the key that this program encrypts its ClientHello for",
}
ALERTS = {
    "unknown ca": "the peers don't trust this certificate's issuer, or its chain is sent incomplete",
    "bad certificate": "the peers reject this certificate",
    "certificate unknown": "the peers reject this certificate",
    "certificate expired": "the peers consider this certificate expired",
    "certificate revoked": "the peers consider this certificate revoked",
    "unsupported certificate": "the peers can't use a certificate of this kind",
    "ech required": "the peers encrypted their ClientHello for a key that isn't here, and may connect again without it",
}

# The parts of a wait for the peer that are the network's.
_EXPLAINED = (Part.ROUND_TRIPS, Part.LOSSES)


def work_in_vain(case: Case) -> Evidence | None:
    """Much of the time in calls went into handshakes that came to nothing, most of it of peers that left or were given up."""
    groups = [group for group in case.handshakes.groups if group.count]
    by_ending = {ending: [group for group in groups if group.ending is ending] for ending in Ending}
    given_up, failed = by_ending[Ending.ABANDONED], by_ending[Ending.FAILURE]
    left_ns = _sum(given_up, Part.CALLS) + _sum([*failed, *by_ending[Ending.SUCCESS]], Part.GONE)
    vain_ns = left_ns + _sum(failed, Part.CALLS) - _sum(failed, Part.GONE)
    whole_ns, number = _sum(groups, Part.CALLS), counts(case.handshakes)
    seen = sum(group.facts.get(Fact.GONE, 0) for group in groups)
    left = max(number[Ending.ABANDONED], seen)
    if sum(number.values()) < FEWEST or left < FEWEST_FAILURES or vain_ns < MUCH_IN_VAIN * whole_ns:
        return None
    if left_ns < max(MOST * vain_ns, OWN_FLOOR_NS * left):
        return None
    key_ns = _sum([*given_up, *failed], Part.PRIVATE_KEY)
    key = f", {share(key_ns, vain_ns)} of that in the private key" if key_ns >= MOST * vain_ns else ""
    much = f"{share(vain_ns, whole_ns)} of the time in calls, {duration(vain_ns)} in all{key}, was spent on handshakes that"
    much += " came to nothing"
    ended = f"{number[Ending.ABANDONED]} handshakes were abandoned and {number[Ending.FAILURE]} failed"
    after = f"; in {seen} a call began after the peer had left" if seen else ""
    step = "" if case.is_server else "Look at what these waited for first, and at this program's own timeout."
    return Evidence(f"{much}: {ended}{after}", _weight_of_left(case), step)


def abandoned(case: Case) -> Evidence | None:
    """Many handshakes were given up in the middle, more than failed."""
    number = counts(case.handshakes)
    gone, everything = number[Ending.ABANDONED], sum(number.values())
    if everything < FEWEST or gone < max(FEWEST_FAILURES, number[Ending.FAILURE]) or gone < NOTABLE * everything:
        return None
    rows = [cause for cause in case.handshakes.causes if cause.ending is Ending.ABANDONED]
    total_ns = wall_time_ns(rows) if _complete(rows, gone) else None
    after = "" if total_ns is None else f" after {duration(total_ns / gone)} on average"
    sentence = f"{share(gone, everything)} of the handshakes ({gone}) were abandoned{after}"
    return Evidence(
        f"{sentence}{_where(rows, gone)}: given up in the middle, {_by_whom(case, rows, gone)}", _weight_of_left(case)
    )


def one_reason(case: Case) -> Evidence | None:
    """Most of the failures have one reason."""
    number = counts(case.handshakes)
    failed, everything = number[Ending.FAILURE], sum(number.values())
    rows = [cause for cause in case.handshakes.causes if cause.ending is Ending.FAILURE and cause.reason]
    frequent = Counter[tuple[str, str]]()
    for cause in rows:
        frequent[cause.reason, "" if cause.sent else cause.alert] += cause.count
    if everything < FEWEST or not frequent:
        return None
    (reason, alert), most = frequent.most_common(1)[0]
    if most < FEWEST_FAILURES or most < MOST * failed:
        return None
    meaning = (REASONS if case.is_server else REASONS_OF_PROGRAMS).get(reason) or ALERTS.get(alert.lower(), "")
    few = f'{share(most, failed)} of the failures ({most} of {failed}, in {everything} handshakes) are "{reason}"'
    return Evidence(f"{few}: {meaning}" if meaning else few, counted_weight(ratio(failed, everything), NOTABLE))


def many_reasons(case: Case) -> Evidence | None:
    """Many handshakes fail, for several reasons."""
    number = counts(case.handshakes)
    failed, everything = number[Ending.FAILURE], sum(number.values())
    if everything < FEWEST or failed < max(FEWEST_FAILURES, NOTABLE * everything) or one_reason(case):
        return None
    rows = Counter[str]()
    for cause in case.handshakes.causes:
        if cause.ending is Ending.FAILURE and cause.reason:
            rows[cause.reason] += cause.count
    named = ", ".join(f'"{reason}" ({count})' for reason, count in rows.most_common(2))
    what = f"{share(failed, everything)} of the handshakes ({failed} of {everything}) fail"
    why = f" for {counted(len(rows), 'reason')}, most often {named}" if named else ""
    return Evidence(f"{what}{why}", counted_weight(ratio(failed, everything), NOTABLE))


def _weight_of_left(case: Case) -> float:
    """Of handshakes that were given up: the last one, unless that can't have been for what others wait for, as their peers
    themselves didn't go on for most of their time; or as they were over in a moment, as a check whether a port is open is,
    which goes before no larger share of time."""
    groups = [group for group in case.handshakes.groups if group.count and group.ending is Ending.ABANDONED]
    number = counts(case.handshakes)
    waited_ns, explained_ns = (sum(group.total_ns(*parts) for group in groups) for parts in (CLIENT_WAIT_PARTS, _EXPLAINED))
    peers_ns = sum(group.total_ns(Part.WAIT_PEER, Part.WAIT_WINDOW) for group in groups) - explained_ns
    silent = case.handshakes.arrivals and peers_ns >= MOST * waited_ns
    part = ratio(number[Ending.ABANDONED], sum(number.values()))
    if silent:
        return counted_weight(part)
    return part if waited_ns < PEER_FLOOR_NS * number[Ending.ABANDONED] else _LAST


def _sum(groups: list[Group], part: Part) -> int:
    return sum(group.total_ns(part) for group in groups)


def _complete(rows: list[Cause], number: int) -> bool:
    return sum(cause.count for cause in rows) == number


def _by_whom(case: Case, rows: list[Cause], gone: int) -> str:
    """Return which end left first, as far as that is known; and whether peers had said something that was never read."""
    left = sum(cause.count for cause in rows if cause.left_by_peer)
    there = sum(cause.count for cause in rows if cause.left_by_peer is False)
    unread = sum(cause.count for cause in rows if cause.left_by_peer and cause.undelivered)
    either = gone - left - there
    own = "the server" if case.is_server else case.own
    if either == gone:
        return f"by the peer or by {own} itself"
    words = f" ({unread} after bytes that the library was never given, as of {case.peers} that refuse the certificate)"
    known = {f"by the peer in {left}{words if unread else ''}": left, f"by {own} itself in {there}": there}
    return ", ".join([*(text for text, number in known.items() if number), *([f"by either in {either}"] if either > 0 else [])])


def _where(rows: list[Cause], number: int) -> str:
    """The state that most of them had reached."""
    states = Counter[str]()
    for cause in rows:
        states[cause.state] += cause.count
    state, most = max(states.items(), key=lambda item: item[1], default=("", 0))
    return f', {share(most, number)} of them in state "{state}"' if state and ratio(most, number) >= MOST else ""
