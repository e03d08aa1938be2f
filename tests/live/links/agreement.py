# SPDX-License-Identifier: Apache-2.0
"""Handshakes as their clients saw them, beside what the tool says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.live.clients.stamped import Stamps
from tests.live.commands.handshakes import Shake
from tests.live.links.link import TO_CLIENT, TO_SERVER, Segment

# How far the tool and a client may be apart: this share of its time, or so long.
SHARE, LEAST_NS = 0.05, 50_000


@dataclass(frozen=True)
class Compared:
    """One handshake.

    `felt_ns` is its client's time without what the tool can't see: the way of the ClientHello and of the server's last flight,
    and how long either was lost, or not taken in by a full backlog. A server that had called before the ClientHello came was
    waiting for it within its handshake: then it is from the connection on. Of it `network_ns` are the round trips between
    flights, and `client_ns` what the client took to answer one that had come. `lost`: on which ways the link has lost segments
    of it; `lost_within`: before the client's last flight.
    """

    stamps: Stamps
    single: Shake
    felt_ns: int
    network_ns: int
    client_ns: int
    lost: frozenset[int]
    lost_within: frozenset[int]

    @property
    def server_ns(self) -> int:
        return self.felt_ns - self.network_ns - self.client_ns

    def part(self, *names: str) -> int:
        """The tool's time of these parts together."""
        return sum(self.single["parts_ns"].get(name, 0) for name in names)

    @property
    def told_ns(self) -> int:
        return self.part("queue_start", "wall")

    @property
    def apart_ns(self) -> int:
        """How much longer it was by the tool."""
        return self.told_ns - self.felt_ns

    @property
    def allowed_ns(self) -> float:
        return max(LEAST_NS, SHARE * self.felt_ns)

    @property
    def agrees(self) -> bool:
        return abs(self.apart_ns) <= self.allowed_ns

    @property
    def is_possible(self) -> bool:
        """Whether they agree, or the server was kept from its processor for the rest: a call may end long after its last byte
        has left, which no client sees."""
        return self.agrees or 0 < self.apart_ns <= self.allowed_ns + self.part("off_cpu")

    def is_shared_alike(self, widen: int = 1) -> bool:
        """Whether the network's, the client's and the server's parts of the time agree, to so many times what is allowed. While
        a server is kept from its processor after a flight has left, the others' time passes within its call."""
        allowed_ns, beside_ns = widen * self.allowed_ns, self.part("off_cpu")
        told_ns = self.part("wait_peer") - self.part("round_trips")
        return (
            -allowed_ns - beside_ns <= self.part("round_trips") - self.network_ns <= allowed_ns
            and -allowed_ns - beside_ns <= told_ns - self.client_ns <= allowed_ns
            and -allowed_ns <= self.part("queue", "calls") - self.server_ns <= allowed_ns + beside_ns
        )


def compare(stamps: Sequence[Stamps], singles: Sequence[Shake], segments: Sequence[Segment], delay_ns: int) -> list[Compared]:
    """Each client's handshake with the one that the tool has of the same name. The two ways take the least round trip that a
    client had."""
    by_name = {single["labels"]["sni"]: single for single in singles}
    assert len(by_name) == len(singles)
    round_trip_ns = min(each.round_trip_ns for each in stamps)
    return [_compare(each, by_name[each.name], segments, delay_ns, round_trip_ns) for each in stamps]


def _compare(stamps: Stamps, single: Shake, segments: Sequence[Segment], delay_ns: int, round_trip_ns: int) -> Compared:
    own = [each for each in segments if each.port == stamps.port and stamps.connecting_ns <= each.taken_ns <= stamps.end_ns]
    came = [each for each in own if 0 < each.delivered_ns <= stamps.end_ns]
    hello = _hello(came)
    last = max((each for each in came if each.way == TO_CLIENT), key=lambda each: each.delivered_ns)
    lost = [each for each in own if not each.delivered_ns]
    lost_ns = _underway_ns(last, own) - delay_ns
    begin_ns = stamps.connected_ns
    if "queue_start" in single["parts_ns"]:
        begin_ns = stamps.sent_ns[0]
        lost_ns += _underway_ns(hello, own) - delay_ns
    answers = [(sent_ns, max(each for each in stamps.received_ns if each < sent_ns)) for sent_ns in stamps.sent_ns[1:]]
    return Compared(
        stamps=stamps,
        single=single,
        felt_ns=stamps.end_ns - begin_ns - round_trip_ns - lost_ns,
        network_ns=round_trip_ns * len(answers),
        client_ns=sum(sent_ns - there_ns for sent_ns, there_ns in answers),
        lost=frozenset(each.way for each in lost),
        lost_within=frozenset(each.way for each in lost if each.taken_ns < stamps.sent_ns[-1]),
    )


def _hello(came: Sequence[Segment]) -> Segment:
    """The ClientHello, of several the last one before the server's answer: a kernel whose accept queue is full drops what comes
    of a connection."""
    answered_ns = min(each.taken_ns for each in came if each.way == TO_CLIENT)
    sent = [each for each in came if each.way == TO_SERVER and each.delivered_ns < answered_ns]
    return max((each for each in sent if each.sequence == sent[0].sequence), key=lambda each: each.delivered_ns)


def _first_taken_ns(segment: Segment, segments: Sequence[Segment]) -> int:
    """When the link first took the bytes that it delivered with this segment."""
    return min(each.taken_ns for each in segments if (each.way, each.sequence) == (segment.way, segment.sequence))


def _underway_ns(segment: Segment, segments: Sequence[Segment]) -> int:
    return segment.delivered_ns - _first_taken_ns(segment, segments)


def summary(compared: Sequence[Compared]) -> str:
    """How far apart they are, in us: the median, the worst that agree, and how many others there are."""
    agreeing = [each for each in compared if each.agrees]
    middle = median(each.felt_ns for each in compared)
    half = median(each.apart_ns for each in compared)
    differences = [each.apart_ns / 1e3 for each in agreeing] or [0.0]
    return (
        f"{len(compared)} handshakes of {middle / 1e3:.0f} us: median {half / 1e3:+.0f} us, "
        f"{len(agreeing)} agree, from {min(differences):+.0f} to {max(differences):+.0f} us"
    )
