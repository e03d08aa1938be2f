# SPDX-License-Identifier: Apache-2.0
"""Rules about what passes between the calls of successful handshakes, and before the first: whose time it is.

A client waits from its ClientHello's arrival on: for the wall time, and for the queue before the first call.
"""

from __future__ import annotations

from ssllatency.model.handshakes import MEANWHILE, Group, Handshakes, Part
from ssllatency.reports.diagnosis.numbers import MOST, key_named, ratio, share_of, successful, time_ns
from ssllatency.reports.words.units import duration, share

# A queue is told where it is so much of the clients' wait, and longer than anybody else's part of it …
MUCH_QUEUE = 1 / 3
# … and where a handshake waits in it at least so long: a healthy server's is a tenth of that.
FEWEST_QUEUE_NS = 500_000
# A peer that answers within this is near and prompt, whatever its share of a quick handshake.
FEWEST_WAIT_NS = 2_000_000

# What the thread did, and what to make of it.
_MEANWHILE = {
    Part.QUEUE_HANDSHAKES: (
        "its thread was busy with other handshakes",
        "It is saturated: more workers or processors, session resumption or a cheaper key would shorten the queue.",
    ),
    Part.QUEUE_OTHER: (
        "its thread was busy with something else than handshakes",
        "Look at what else it does: requests, or what blocks its event loop.",
    ),
    Part.QUEUE_RUNNABLE: (
        "its thread was ready to run but had no processor",
        "Look for what else runs on these processors.",
    ),
    Part.QUEUE_THROTTLED: (
        "its thread was held by a CPU quota",
        "Look at cpu.max of its control group, and of those above it.",
    ),
    Part.QUEUE_ASLEEP: (
        "its thread slept elsewhere",
        "Look for a lock, a disk, or something that stops it.",
    ),
}


def server_queue(handshakes: Handshakes) -> str | None:
    """Much of what clients waited for was this server coming back for bytes that had arrived."""
    group = successful(handshakes)
    if group is None or time_ns(group, Part.QUEUE) < FEWEST_QUEUE_NS * group.count:
        return None
    queue_ns, whole_ns = time_ns(group, Part.QUEUE), _clients_wait_ns(group)
    others_ns = (time_ns(group, Part.CALLS), time_ns(group, Part.WAIT_PEER, Part.WAIT_WINDOW))
    if ratio(queue_ns, whole_ns) < MUCH_QUEUE or queue_ns < max(others_ns):
        return None
    much = f"{share(queue_ns, whole_ns)} of the time that clients wait, {_mean(group, queue_ns)} of {_mean(group, whole_ns)}"
    queue = f"{much} a handshake, is this server's own queue: their bytes had arrived, and"
    doing = max(MEANWHILE, key=lambda part: time_ns(group, part))
    if time_ns(group, doing) < MOST * queue_ns:
        return f"{queue} it was late to come back for them."
    words, advice = _MEANWHILE[doing]
    return f"{queue} for {share(time_ns(group, doing), queue_ns)} of that time {words}. {advice}"


def peer_waits(handshakes: Handshakes) -> str | None:
    """Most of the time went by until the peer's bytes arrived, or until it took what was sent."""
    group = successful(handshakes)
    parts = (Part.WAIT_PEER, Part.WAIT_WINDOW)
    if group is None or not handshakes.arrivals or not _prevails(group, *parts):
        return None
    waits = f"{share_of(group, Part.WALL, *parts)} of the handshakes' time is spent waiting for the peer and the network"
    return f"{waits}: {_round_trips(group)}{own_part(group)}{_key(handshakes, group)}."


def peer_or_server_waits(handshakes: Handshakes) -> str | None:
    """Most of the time went by while the library waited for bytes of which it isn't known when they arrived."""
    group = successful(handshakes)
    parts = (Part.WAIT_PEER_OR_SERVER, *(() if handshakes.arrivals else (Part.WAIT_PEER, Part.WAIT_WINDOW)))
    if group is None or not _prevails(group, *parts):
        return None
    waits = f"{share_of(group, Part.WALL, *parts)} of the handshakes' time is spent waiting for the peer's bytes"
    unknown = "whether the peer, the network or this server was late isn't known, as it wasn't seen when they arrived"
    return f"{waits}: {unknown}. The{own_part(group)[3:]}{_key(handshakes, group)}."


def own_part(group: Group) -> str:
    """How much of the mean handshake was spent in the library's calls."""
    calls, wall = (_mean(group, time_ns(group, part)) for part in (Part.CALLS, Part.WALL))
    return f"the server's own work is {calls} of {wall}"


def _prevails(group: Group, *parts: Part) -> bool:
    waits_ns = time_ns(group, *parts)
    return ratio(waits_ns, time_ns(group, Part.WALL)) >= MOST and waits_ns >= FEWEST_WAIT_NS * group.count


def _round_trips(group: Group) -> str:
    """Whether the distance explains the wait, where the round trip is known."""
    waits_ns, trips_ns = time_ns(group, Part.WAIT_PEER), time_ns(group, Part.ROUND_TRIPS)
    if not trips_ns:
        return ""
    explained = f"as the shortest round trip explains {share(trips_ns, waits_ns)} of that"
    if trips_ns >= MOST * waits_ns:
        return f"they are far away, {explained}; "
    return f"the clients take their time, or the network delays or loses, {explained}; "


def _key(handshakes: Handshakes, group: Group) -> str:
    if ratio(time_ns(group, Part.PRIVATE_KEY), time_ns(group, Part.CALLS)) < MOST:
        return ""
    return f", {share_of(group, Part.CALLS, Part.PRIVATE_KEY)} of it {key_named(handshakes)}"


def _clients_wait_ns(group: Group) -> int:
    return time_ns(group, Part.WALL, Part.QUEUE_START)


def _mean(group: Group, total_ns: int) -> str:
    return duration(total_ns / group.count)
