# SPDX-License-Identifier: Apache-2.0
"""Endings of handshakes: how many in each way, why some didn't succeed, and the slowest of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import client_wait_ns
from ssllatency.model.handshakes import MEANWHILE, Cause, Ending, Handshakes, Label, Part, RequestedSide, Single
from ssllatency.reports.words.label_words import ADJECTIVES, labels_words
from ssllatency.reports.words.parts import CLIENT_PIECES, PARTS, part_names
from ssllatency.units import counted, duration, rate, seconds, share

_MOST_PARTS = 3
_NOTABLE = 0.1
UNPHASED = "phases not watched"
_REASONS = {
    Part.OFF_CPU_RUNNABLE: "in calls without a processor",
    Part.OFF_CPU_THROTTLED: "of that held by a CPU quota",
    Part.REST_ASLEEP: "asleep in the rest",
    Part.ASSISTS: "in calls assisting the garbage collector",
    Part.LOSSES: "waits with losses",
    Part.GONE: "calls though the peer had left",
}


def summary(handshakes: Handshakes, duration_s: float) -> str:
    """Return how many handshakes, how many a second, and how they ended: a phrase, "" where none ended."""
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
    """The words for the reason, as far as it is known: the error and where it was raised, the alert, the state."""
    source = _joined(cause.library, f"{cause.code:08X}" if cause.code else "")
    reason = f"{cause.reason or 'no reason known'}{_peer(cause)}{f' ({source})' if source else ''}"
    return _joined(reason, _alert(cause.alert, " sent" if cause.sent else " received"), _state(cause.state))


def _peer(ended: Cause | Single) -> str:
    """Say of one that was freed whether the peer was still there."""
    if ended.peer_left is None:
        return ""
    where = " after the peer had left" if ended.peer_left else " while the peer was there"
    return f"{where}, its last bytes not given to the library" if ended.undelivered else where


@dataclass(frozen=True)
class SingleWords:
    """A handshake by itself in words: how long its client waited, when it ended (RFC 3339), whose it was and how it ended, its
    calls and pauses, why it failed, the longest of its parts, what explains much of them, what is known of its queue and of the
    time before it, its labels; and the pieces of that wait in nanoseconds."""

    waited: str
    ended: str
    process: str
    ending: str
    calls: str
    why: str
    longest: str
    reasons: str
    queue: str
    labels: str
    times_ns: Mapping[Part, int]


def single_words(single: Single) -> SingleWords:
    """The words about one handshake; "" for what isn't known or doesn't apply."""
    times_ns = {part: single.parts[part] for part in CLIENT_PIECES if single.parts.get(part)}
    names = part_names(RequestedSide.CLIENT if single.labels.get(Label.ROLE) == RequestedSide.CLIENT else RequestedSide.SERVER)
    return SingleWords(
        waited=duration(client_wait_ns(single.parts)),
        ended=f"{datetime.fromtimestamp(single.ended_s, UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z",
        process=f"{single.comm} ({single.pid})",
        ending=ADJECTIVES[single.ending],
        calls=_joined(
            counted(single.calls, "call"),
            counted(single.pauses, "pause") if single.pauses else "",
            UNPHASED if single.unphased else "",
        ),
        why=why_words(single),
        longest=_longest(times_ns, names),
        reasons=reason_words(single.parts),
        queue=_queue(single.parts),
        labels=labels_words(single.labels),
        times_ns=times_ns,
    )


def why_words(single: Single) -> str:
    """The words for why one handshake didn't succeed; "" where it did."""
    return _joined(f"{single.reason}{_peer(single)}", _alert(single.alert), _state(single.state))


def _longest(times_ns: Mapping[Part, int], names: Mapping[Part, str] = PARTS) -> str:
    longest = sorted(times_ns, key=lambda part: -times_ns[part])[:_MOST_PARTS]
    return ", ".join(f"{names[part]} {duration(times_ns[part])}" for part in longest)


def reason_words(parts: Mapping[Part, int]) -> str:
    """The reasons that explain a tenth or more of the client's wait though it is in other parts."""
    least_ns = client_wait_ns(parts) * _NOTABLE
    notable = [part for part in _REASONS if parts.get(part, 0) > least_ns]
    return ", ".join(f"{_REASONS[part]} {duration(parts[part])}" for part in notable)


def _queue(parts: Mapping[Part, int]) -> str:
    """The words for the queue, where it is known: what it was in all, and what the thread did meanwhile; how much of the
    client's wait was before the first call; and how long the ClientHello was waited for, which is no part of it."""
    meanwhile = _longest({part: parts[part] for part in MEANWHILE if parts.get(part)})
    queue = f"{_timed(Part.QUEUE, parts)}{f' ({meanwhile})' if meanwhile else ''}" if parts.get(Part.QUEUE) else ""
    before = f"{_timed(Part.QUEUE_START, parts)}, {_timed(Part.WALL, parts)}" if parts.get(Part.QUEUE_START) else ""
    hello = _timed(Part.WAIT_HELLO, parts) if parts.get(Part.WAIT_HELLO) else ""
    return "; ".join(filter(None, (before, queue, hello)))


def _timed(part: Part, times_ns: Mapping[Part, int]) -> str:
    return f"{PARTS[part]} {duration(times_ns[part])}"


def _joined(*phrases: str) -> str:
    return ", ".join(filter(None, phrases))


def _alert(name: str, which_way: str = "") -> str:
    return f'alert "{name}"{which_way}' if name else ""


def _state(name: str) -> str:
    return f'in state "{name}"' if name else ""
