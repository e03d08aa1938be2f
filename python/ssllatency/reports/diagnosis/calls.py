# SPDX-License-Identifier: Apache-2.0
"""Rules about the server's own work in the library's calls: which phase takes the time, and whether the thread slept or had no
processor meanwhile."""

from __future__ import annotations

from ssllatency.model.handshakes import PHASES, YES, Label, Part
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import (
    MOST,
    MUCH,
    OWN_FLOOR_NS,
    PEER_FLOOR_NS,
    joined_by_or,
    key_named,
    prevailing,
    prevailing_key,
    ratio,
    value_share,
)
from ssllatency.reports.diagnosis.rule import Evidence
from ssllatency.reports.words.label_words import value_words
from ssllatency.units import capitalized, share

# Where half of the handshakes are resumed already, resumption works.
FEW_RESUMED = 0.5
# Groups that cost so little that no other would be noticed.
_CHEAP_GROUPS = ("x25519", "secp256r1", "X25519MLKEM768")
# A program that has room for its garbage gives no help at all, or next to none.
_ASSISTS_FLOOR_NS, _ASSISTS = 100_000, 1 / 20
_ELSEWHERE = (
    "The key is elsewhere (an HSM, a remote signer), or something else holds the call: look at how long it takes there."
)


def private_key(case: Case) -> Evidence | None:
    """Much of what clients wait for is the private key."""
    if not _prevails(case, Part.PRIVATE_KEY):
        return None
    resumed, asleep = value_share(case.handshakes, Label.RESUMED, YES), _asleep(case, Part.PRIVATE_KEY)
    known = "" if resumed is None else f"; {share(resumed, 1)} of the handshakes are resumed"
    step = _ELSEWHERE if asleep else f"{capitalized(joined_by_or(key_remedies(case)))} would reduce it."
    return _phase(case, Part.PRIVATE_KEY, f"{key_named(case.handshakes)}{asleep}{known}", step)


def key_remedies(case: Case) -> list[str]:
    """Return what would make the private key's work less, of what isn't there already."""
    use, resumed = prevailing_key(case.handshakes), value_share(case.handshakes, Label.RESUMED, YES)
    remedies = ["an ECDSA certificate"] if use and use.key.startswith("RSA") else []
    remedies += ["session resumption"] if resumed is None or resumed < FEW_RESUMED else []
    remedies += [] if case.handshakes.offload else ["an offload"]
    return remedies or ["more processors"]


def key_exchange(case: Case) -> Evidence | None:
    """Much of what clients wait for is the key exchange."""
    if not _prevails(case, Part.KEY_EXCHANGE):
        return None
    name = prevailing(case.handshakes, Label.GROUP)
    named = f"the key exchange{f', {value_words(Label.GROUP, name)}' if name else ''}{_asleep(case, Part.KEY_EXCHANGE)}"
    cheap = "Its processors are slow or overcommitted: the group is a cheap one." if name in _CHEAP_GROUPS else ""
    return _phase(case, Part.KEY_EXCHANGE, named, cheap)


def peer_verification(case: Case) -> Evidence | None:
    """Much of what clients wait for is the check of the peer's certificate."""
    if not _prevails(case, Part.PEER_VERIFICATION):
        return None
    what = f"the check of the peer's certificate{_asleep(case, Part.PEER_VERIFICATION)}"
    return _phase(case, Part.PEER_VERIFICATION, what)


def session_lookup(case: Case) -> Evidence | None:
    """Much of what clients wait for is the session lookup."""
    if not _prevails(case, Part.SESSION_LOOKUP):
        return None
    what = f"the session lookup, in the server's session cache or its tickets{_asleep(case, Part.SESSION_LOOKUP)}"
    return _phase(case, Part.SESSION_LOOKUP, what)


def callbacks(case: Case) -> Evidence | None:
    """Much of what clients wait for is the application's own, in its callbacks."""
    if not _prevails(case, Part.CALLBACKS):
        return None
    return _phase(case, Part.CALLBACKS, f"the application's own callbacks{_asleep(case, Part.CALLBACKS)}")


def assists(case: Case) -> Evidence | None:
    """A notable part of what clients wait for goes to collections of garbage, which goroutines in handshakes help with."""
    times_ns = case.ns(Part.ASSISTS)
    slowest_ns, weight = case.slowest_ns(Part.ASSISTS), case.weight(Part.ASSISTS)
    if not case.is_much(_ASSISTS_FLOOR_NS, times_ns, _ASSISTS, slowest_ns, weight):
        return None
    words = "is spent by goroutines in handshakes assisting the garbage collector before they may allocate"
    return Evidence(f"{case.of_wait(times_ns)} {words}", case.share(Part.ASSISTS))


def asleep_in_calls(case: Case) -> Evidence | None:
    """Much of the time the thread sleeps inside calls, in none of the phases, all of which were watched."""
    unphased = case.phased < case.count
    if unphased or not case.much(OWN_FLOOR_NS, Part.REST_ASLEEP) or _may_wait_for_peer(case):
        return None
    subject = case.of_wait(case.ns(Part.REST_ASLEEP))
    where = "its thread is asleep inside the library's calls, in none of the phases (rest asleep)"
    return Evidence(f"{subject} {where}", case.share(Part.REST_ASLEEP))


def off_cpu(case: Case) -> Evidence | None:
    """Much of the time the thread wasn't on a processor inside calls, and it isn't known why."""
    known = case.tells_sleep or any(_asleep(case, phase) for phase in PHASES)
    if known or not case.much(OWN_FLOOR_NS, Part.OFF_CPU):
        return None
    subject = case.of_wait(case.ns(Part.OFF_CPU))
    what = "its thread is off the CPU inside the library's calls: blocked, or waiting for a processor"
    return Evidence(f"{subject} {what}", case.share(Part.OFF_CPU))


def own_work(case: Case) -> Evidence | None:
    """Much of what clients wait for is spent in calls, and in no phase above all."""
    if not case.much(PEER_FLOOR_NS, Part.CALLS) or _may_wait_for_peer(case):
        return None
    phase = busiest_phase(case)
    most = f"{share(case.ns(phase), case.ns(Part.CALLS))} of it {phase_words(case, phase)}"
    slept_ns = case.ns(Part.OFF_CPU) - case.ns(Part.OFF_CPU_RUNNABLE)
    slept = f"; its thread is off the processor for {share(slept_ns, case.ns(Part.CALLS))}" if _mostly_off(case) else ""
    subject = f"{case.of_wait(case.ns(Part.CALLS))} is {case.own_work} in the library's calls"
    return Evidence(f"{subject}, {most}{slept}{unsplit(case)}", case.share(Part.CALLS))


def busiest_phase(case: Case) -> Part:
    """The phase that takes most of the time in calls."""
    return max(PHASES, key=case.ns)


def phase_words(case: Case, phase: Part) -> str:
    """Return what is done in a phase."""
    words = {
        Part.PRIVATE_KEY: key_named(case.handshakes),
        Part.KEY_EXCHANGE: "the key exchange",
        Part.PEER_VERIFICATION: "the check of the peer's certificate",
        Part.SESSION_LOOKUP: "the session lookup",
        Part.CALLBACKS: "the application's own callbacks",
        Part.REST: "messages, transcripts and whatever else is in rest",
    }
    return words[phase]


def _phase(case: Case, part: Part, what: str, step: str = "") -> Evidence:
    return Evidence(f"{case.of_wait(case.ns(part))} is {what}{unsplit(case)}", case.share(part), step)


def unsplit(case: Case) -> str:
    """Say that time in calls needn't be work, where it isn't known of most handshakes when they had a processor: as where
    goroutines gave way to others, or changed threads."""
    if not case.handshakes.off_cpu or max(case.had(Part.ON_CPU), case.had(Part.OFF_CPU)) >= MOST * case.count:
        return ""
    return "; how much of that was waiting to run isn't known"


def _prevails(case: Case, phase: Part) -> bool:
    """Whether a phase takes much of the time, and for most of that the thread worked or slept: where it had no processor in
    calls, that may have been in this phase."""
    return case.much(OWN_FLOOR_NS, phase) and case.ns(Part.OFF_CPU_RUNNABLE) <= (1 - MOST) * case.ns(phase)


def _asleep(case: Case, phase: Part) -> str:
    """Say that the thread slept in most of a phase, where it surely was this one: as much as the other phases can't have
    held."""
    in_rest = case.ns(Part.REST_ASLEEP) if case.had(Part.REST_ASLEEP) else case.ns(Part.REST)
    others = sum(case.ns(other) for other in PHASES if other not in (phase, Part.REST))
    least_ns = case.ns(Part.OFF_CPU) - case.ns(Part.OFF_CPU_RUNNABLE) - in_rest - others
    if phase is Part.REST or not case.ns(phase) or least_ns < MOST * case.ns(phase):
        return ""
    state = "asleep" if case.tells_sleep else "asleep or without a processor"
    return f", in which its thread is {state} for {share(least_ns, case.ns(phase))} of the time or more"


def _may_wait_for_peer(case: Case) -> bool:
    """Whether many calls slept before it was known whether they did for their peer."""
    return case.handshakes.slept >= MUCH * case.count


def _mostly_off(case: Case) -> bool:
    off_ns = case.ns(Part.OFF_CPU) - case.ns(Part.OFF_CPU_RUNNABLE)
    return ratio(off_ns, case.ns(Part.CALLS)) >= MUCH
