# SPDX-License-Identifier: Apache-2.0
"""Styles of the parts of a handshake's time, in every form: the one table of it."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import PHASES, WAITS, Part, RequestedSide


@dataclass(frozen=True)
class Style:
    """The way in which a part is shown. `name` is what it is called in text; `letter` stands for it where its name has no room.
    In bars a piece of it consists of `ascii`, of `unicode` where the terminal shows more, and of `hatch` (matplotlib's) in
    pictures: work is dark and plain, waits are light and hatched. Only CLIENT_PIECES have these."""

    name: str
    letter: str = ""
    ascii: str = ""
    unicode: str = ""
    hatch: str = ""


STYLES = {
    Part.WALL: Style("wall"),
    Part.CALLS: Style("in calls"),
    Part.PRIVATE_KEY: Style("private key", "K", "K", "\u2588"),
    Part.KEY_EXCHANGE: Style("key exchange", "X", "X", "\u2593"),
    Part.PEER_VERIFICATION: Style("peer verification", "V", "V", "\u259a"),
    Part.SESSION_LOOKUP: Style("session lookup", "S", "S", "\u25a4"),
    Part.CALLBACKS: Style("callbacks", "C", "C", "\u25a5"),
    Part.REST: Style("rest", "R", "=", "\u2592"),
    Part.WAIT_PEER: Style("wait: peer", "P", ".", "\u00b7", "//"),
    Part.QUEUE_SERVER: Style("queue: server", "Q", "q", "\u2591", "++"),
    Part.WAIT_PEER_OR_SERVER: Style("wait: peer or server", "E", ":", ":", "||"),
    Part.WAIT_WINDOW: Style("wait: peer window", "W", "w", "\u2248", "\\\\"),
    Part.WAIT_OFFLOAD: Style("wait: offload", "O", "o", "\u25cb", "xx"),
    Part.WAIT_APPLICATION: Style("wait: application", "A", "-", "-", "--"),
    Part.WAIT_UNKNOWN: Style("wait: unknown", "U", "?", "?", ".."),
    Part.ON_CPU: Style("(on CPU)"),
    Part.OFF_CPU: Style("(off CPU)"),
    Part.OFF_CPU_RUNNABLE: Style("ready to run"),
    Part.OFF_CPU_THROTTLED: Style("quota in calls"),
    Part.REST_ASLEEP: Style("rest asleep"),
    Part.ASSISTS: Style("(GC assists)"),
    Part.GONE: Style("(peer gone)"),
    Part.COMPLETION: Style("submit to done"),
    Part.QUEUE_OFFLOAD: Style("queue: offload"),
    Part.WAIT_HELLO: Style("before: ClientHello"),
    Part.QUEUE_START: Style("before: queue", "B", "b", "\u259e", "oo"),
    Part.QUEUE: Style("queue"),
    Part.QUEUE_HANDSHAKES: Style("in handshakes"),
    Part.QUEUE_OTHER: Style("in other work"),
    Part.QUEUE_GOROUTINES: Style("other goroutines"),
    Part.QUEUE_COLLECTIONS: Style("collections"),
    Part.QUEUE_RUNNABLE: Style("no processor"),
    Part.QUEUE_THROTTLED: Style("CPU quota"),
    Part.QUEUE_ASLEEP: Style("asleep"),
    Part.ROUND_TRIPS: Style("round trips"),
    Part.LOSSES: Style("losses"),
    Part.CLIENT_WAIT: Style("client's wait"),
}
PARTS = {part: style.name for part, style in STYLES.items()}
# Of programs that are clients, or may be.
_OF_PROGRAMS = PARTS | {Part.QUEUE_SERVER: "queue: program", Part.WAIT_PEER_OR_SERVER: "wait: peer or program"}
# What a handshake is made up of without remainder, in the order in which it is shown: work, then waits.
PIECES = (*PHASES, *WAITS)
# What the wait of a client is made up of since its ClientHello arrived.
CLIENT_PIECES = (Part.QUEUE_START, *PIECES)
LETTERS = {part: STYLES[part].letter for part in CLIENT_PIECES}


def part_names(role: RequestedSide) -> Mapping[Part, str]:
    """Return what the parts are called where handshakes of this role were asked for."""
    return PARTS if role is RequestedSide.SERVER else _OF_PROGRAMS
