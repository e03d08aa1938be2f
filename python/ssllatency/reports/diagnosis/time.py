# SPDX-License-Identifier: Apache-2.0
"""Rules about the time of successful handshakes: which part takes more than all others."""

from __future__ import annotations

from ssllatency.model.handshakes import YES, Group, Handshakes, Label, Part
from ssllatency.reports.diagnosis.numbers import (
    MOST,
    key_named,
    prevailing,
    prevailing_key,
    ratio,
    share_of,
    successful,
    time_ns,
    value_share,
)
from ssllatency.reports.diagnosis.waits import own_part
from ssllatency.reports.words.handshakes import value_words
from ssllatency.reports.words.units import duration, share

# Where half of the handshakes are resumed already, resumption works.
FEW_RESUMED = 0.5


def application_waits(handshakes: Handshakes) -> str | None:
    """Most of the wall time the library waited for the application."""
    group = successful(handshakes)
    if group is None or _fraction(group, Part.WALL, Part.WAIT_APPLICATION) < MOST:
        return None
    waits = share_of(group, Part.WALL, Part.WAIT_APPLICATION)
    return f"{waits} of the handshakes' time is spent waiting for the application to call the library again: {own_part(group)}."


def off_cpu(handshakes: Handshakes) -> str | None:
    """Most of the time in calls the thread wasn't on a processor."""
    group = successful(handshakes)
    if group is None or not handshakes.off_cpu or _fraction(group, Part.CALLS, Part.OFF_CPU) < MOST:
        return None  # handshakes that aren't split make the fraction smaller, never larger
    off = share_of(group, Part.CALLS, Part.OFF_CPU)
    return f"{off} of the time in calls the thread is off the CPU: blocked inside them, or waiting for a processor."


def private_key(handshakes: Handshakes) -> str | None:
    """Most of the time in calls is the private key's, and few handshakes are resumed."""
    group, resumed = successful(handshakes), value_share(handshakes, Label.RESUMED, YES)
    if group is None or _fraction(group, Part.CALLS, Part.PRIVATE_KEY) < MOST:
        return None
    if resumed is not None and resumed >= FEW_RESUMED:
        return None
    resumed_words = "" if resumed is None else f"; {share(resumed, 1)} of the handshakes are resumed"
    key = f"{share_of(group, Part.CALLS, Part.PRIVATE_KEY)} of the time in calls is {key_named(handshakes)}"
    return f"{key}{resumed_words}: {_remedies(handshakes)} would reduce it."


def _remedies(handshakes: Handshakes) -> str:
    use = prevailing_key(handshakes)
    remedies = ["an ECDSA certificate"] if use and use.key.startswith("RSA") else []
    remedies += ["session resumption", *([] if handshakes.offload else ["an offload"])]
    return " or ".join([", ".join(remedies[:-1]), remedies[-1]]) if len(remedies) > 1 else remedies[0]


def peer_verification(handshakes: Handshakes) -> str | None:
    """Most of the time in calls checks the peer's certificate."""
    return _phase(handshakes, Part.PEER_VERIFICATION, "the check of the peer's certificate")


def session_lookup(handshakes: Handshakes) -> str | None:
    """Most of the time in calls looks up sessions."""
    return _phase(handshakes, Part.SESSION_LOOKUP, "the session lookup, in the server's session cache or its tickets")


def callbacks(handshakes: Handshakes) -> str | None:
    """Most of the time in calls is the application's own, in its callbacks."""
    return _phase(handshakes, Part.CALLBACKS, "the application's own callbacks")


def key_exchange(handshakes: Handshakes) -> str | None:
    """Most of the time in calls is the key exchange."""
    name = prevailing(handshakes, Label.GROUP)
    return _phase(handshakes, Part.KEY_EXCHANGE, f"the key exchange{f', {value_words(Label.GROUP, name)}' if name else ''}")


def _phase(handshakes: Handshakes, part: Part, what: str) -> str | None:
    group = successful(handshakes)
    if group is None or _fraction(group, Part.CALLS, part) < MOST:
        return None
    mean = duration(time_ns(group, part) / group.count)
    return f"{share_of(group, Part.CALLS, part)} of the time in calls, {mean} a handshake, is {what}."


def _fraction(group: Group, whole: Part, *parts: Part) -> float:
    return ratio(time_ns(group, *parts), time_ns(group, whole))
