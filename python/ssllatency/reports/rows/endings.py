# SPDX-License-Identifier: Apache-2.0
"""How handshakes ended: how many in each way, why some didn't succeed, and the slowest of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ssllatency.model.handshakes import Cause, Ending, Handshakes, Part, Single
from ssllatency.reports.words.handshakes import ADJECTIVES, labels_words
from ssllatency.reports.words.parts import PARTS, PIECES
from ssllatency.reports.words.units import counted, duration, rate, seconds, share

_MOST_PARTS = 3


def summary(handshakes: Handshakes, duration_s: float) -> str:
    """How many handshakes, how many a second, and how they ended: a phrase, "" where none ended."""
    counts = {ending: sum(group.count for group in handshakes.groups if group.ending is ending) for ending in Ending}
    everything = sum(counts.values())
    if not everything:
        return ""
    pace = f" ({rate(everything / duration_s)} a second)" if duration_s else ""
    endings = [
        f"{counts[ending]} {ADJECTIVES[ending]} ({share(counts[ending], everything)})" for ending in Ending if counts[ending]
    ]
    return f"{counted(everything, 'handshake')} in {seconds(duration_s)}{pace}: {', '.join(endings)}"


def none_ended(duration_s: float) -> str:
    """The sentence that stands where no handshake ended."""
    return (
        f"No handshake ended in {seconds(duration_s)}: check that these are the processes that serve TLS, and that clients made"
        " new connections in that time."
    )


def cause_words(cause: Cause) -> str:
    """What is known of the reason: the error and where it was raised, the alert, the state."""
    source = _joined(cause.library, f"{cause.code:08X}" if cause.code else "")
    reason = f"{cause.reason or 'no reason known'}{f' ({source})' if source else ''}"
    return _joined(reason, _alert(cause.alert, " sent" if cause.sent else " received"), _state(cause.state))


@dataclass(frozen=True)
class SingleWords:
    """A handshake by itself in words: how long it took, when it ended (RFC 3339), whose it was and how it ended, its calls and
    pauses, why it failed, the longest of its parts, its labels; and its phases and waits in nanoseconds."""

    wall: str
    ended: str
    process: str
    ending: str
    calls: str
    why: str
    longest: str
    labels: str
    times_ns: Mapping[Part, int]


def single_words(single: Single) -> SingleWords:
    """The words about one handshake; "" for what isn't known or doesn't apply."""
    times_ns = {part: single.parts[part] for part in PIECES if single.parts.get(part)}
    longest = sorted(times_ns, key=lambda part: -times_ns[part])[:_MOST_PARTS]
    return SingleWords(
        wall=duration(single.parts[Part.WALL]),
        ended=f"{datetime.fromtimestamp(single.ended_s, UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z",
        process=f"{single.comm} ({single.pid})",
        ending=ADJECTIVES[single.ending],
        calls=_joined(counted(single.calls, "call"), counted(single.pauses, "pause") if single.pauses else ""),
        why=_joined(single.reason, _alert(single.alert), _state(single.state)),
        longest=", ".join(f"{PARTS[part]} {duration(times_ns[part])}" for part in longest),
        labels=labels_words(single.labels),
        times_ns=times_ns,
    )


def _joined(*phrases: str) -> str:
    return ", ".join(filter(None, phrases))


def _alert(name: str, which_way: str = "") -> str:
    return f'alert "{name}"{which_way}' if name else ""


def _state(name: str) -> str:
    return f'in state "{name}"' if name else ""
