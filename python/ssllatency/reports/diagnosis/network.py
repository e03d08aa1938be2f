# SPDX-License-Identifier: Apache-2.0
"""Rules about what passes until the peer's bytes arrive: the network's distance and losses, the clients themselves, and round
trips that needn't be."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.model.handshakes import YES, Fact, Label, Part
from ssllatency.reports.diagnosis.calls import unsplit
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.numbers import (
    FEWEST,
    MOST,
    NOTABLE,
    OWN_FLOOR_NS,
    PEER_FLOOR_NS,
    key_named,
    ratio,
    value_share,
)
from ssllatency.reports.diagnosis.rule import Evidence, counted_weight
from ssllatency.units import counted, duration, share

TLS_1_2 = "TLSv1.2"
# A lost segment costs 200 ms or more: where one handshake in a hundred loses one, the mean wait is so much longer.
LOSSES_FLOOR_NS = 1_000_000
_FEWER_TRIPS = (
    "A server nearer to them helps, and fewer round trips: TLS 1.3, or session resumption in TLS 1.2; a cheaper key doesn't."
)
_NEARER = "Peers nearer to it help, and connections that are kept; a cheaper key doesn't."
_FEWER_TO_SERVERS = f"{_NEARER.removesuffix('.')}. TLS 1.3, or session resumption in TLS 1.2, takes fewer round trips."
_CAPTURE = "A capture on the other side (`tcpdump`) tells the two apart."
_WAITS = (Part.WAIT_PEER, Part.WAIT_WINDOW)


def far_clients(case: Case) -> Evidence | None:
    """Much of the time waits for the peer, and the connections' round trips, which aren't short, explain most of that."""
    if not _waits_for_peer(case) or not case.is_much(PEER_FLOOR_NS, case.ns(Part.ROUND_TRIPS), 0):
        return None
    if case.ns(Part.ROUND_TRIPS) < MOST * case.ns(*_WAITS):
        return None
    old = value_share(case.handshakes, Label.VERSION, TLS_1_2)
    nearer = "" if case.is_server else _NEARER
    step = (_FEWER_TRIPS if case.is_server else _FEWER_TO_SERVERS) if old is None or old >= NOTABLE else nearer
    return replace(_waits(case, f"they are far away, {_explained(case)}; "), step=step)


def slow_clients(case: Case) -> Evidence | None:
    """Much of the time waits for the peer, and neither the round trips nor losses explain most of that: what is more than the
    round trips isn't short."""
    trips_ns, waits_ns = case.ns(Part.ROUND_TRIPS), case.ns(*_WAITS)
    if not _waits_for_peer(case) or not trips_ns or trips_ns >= MOST * waits_ns:
        return None
    if not case.is_much(PEER_FLOOR_NS, waits_ns - trips_ns, 0):
        return None
    network = "the network delays them" if case.fact(Fact.SOCKET) else "the network delays them or loses packets"
    evidence = _waits(case, f"the {case.peers} take their time, or {network}, {_explained(case)}; ")
    return evidence if case.is_server else replace(evidence, step=_CAPTURE)


def peer_waits(case: Case) -> Evidence | None:
    """Much of the time waits for the peer, and the connections' round trips aren't known."""
    return _waits(case, "") if _waits_for_peer(case) and not case.ns(Part.ROUND_TRIPS) else None


def peer_or_server_waits(case: Case) -> Evidence | None:
    """Much of the time the library waited for bytes of which it isn't known when they arrived."""
    parts = (Part.WAIT_PEER_OR_SERVER, *(() if case.handshakes.arrivals else _WAITS))
    if not case.much(PEER_FLOOR_NS, *parts):
        return None
    waits = f"{case.of_wait(case.ns(*parts))} is spent waiting for the peer's bytes"
    unknown = f"whether the peer, the network or {case.own} was late isn't known, as it wasn't seen when they arrived"
    return Evidence(f"{waits}: {unknown}; {_own_part(case)}", case.share(*parts))


def losses(case: Case) -> Evidence | None:
    """Segments were lost, and the waits in which that happened are a notable part of what clients wait for."""
    socket, lost_ns = case.fact(Fact.SOCKET), case.ns(Part.LOSSES)
    if socket < FEWEST or not case.is_much(LOSSES_FLOOR_NS, lost_ns, NOTABLE):
        return None
    handshakes = f"{share(case.fact(Fact.RETRANSMITTED), socket)} of the handshakes"
    again = case.fact(Fact.RETRANSMISSIONS)
    what = f"is spent in waits in which segments were lost or came out of order, in {handshakes}"
    sent = f"; this side sent {counted(again, 'segment')} again" if again else ""
    return Evidence(f"{case.of_wait(lost_ns)} {what}{sent}", case.share(Part.LOSSES))


def hello_retries(case: Case) -> Evidence | None:
    """Many clients offer no share of the group that the server wants, and must send a second ClientHello."""
    known, retries = case.fact(Fact.HELLO_RETRY_KNOWN), case.fact(Fact.HELLO_RETRIES)
    if known < FEWEST or retries < NOTABLE * known:
        return None
    trip_ns, part = _trip_ns(case), ratio(retries, known)
    if trip_ns is not None and part * trip_ns < OWN_FLOOR_NS:
        return None
    weight = 0.0 if trip_ns is None else _trips_weight(case, part, trip_ns)
    what = "of the clients offer no share of the group that this server wants"
    return Evidence(f"{share(retries, known)} {what}: one more round trip each{_of(trip_ns)}", weight)


def large_flight(case: Case) -> Evidence | None:
    """The server's flight often doesn't fit into the congestion window."""
    socket, unsent, trip_ns = case.fact(Fact.SOCKET), case.fact(Fact.UNSENT), _trip_ns(case)
    if socket < FEWEST or unsent < NOTABLE * socket or trip_ns is None or unsent * trip_ns < OWN_FLOOR_NS * socket:
        return None
    size = ratio(case.fact(Fact.FLIGHT_BYTES), socket)
    flight = f"{case.own}'s largest flight, {size / 1000:.1f} kB on average, is more than TCP sends at once"
    return Evidence(
        f"In {share(unsent, socket)} of the handshakes {flight}: one more round trip each{_of(trip_ns)}",
        _trips_weight(case, ratio(unsent, socket), trip_ns),
    )


def old_version(case: Case) -> Evidence | None:
    """Full handshakes of TLS 1.2 from far away: their clients wait for one more round trip than with TLS 1.3.

    Where most are such, it goes before the distance, as a setting does more about that than anything else."""
    old, resumed = value_share(case.handshakes, Label.VERSION, TLS_1_2), value_share(case.handshakes, Label.RESUMED, YES)
    trip_ns = _trip_ns(case)
    if old is None or resumed is None or trip_ns is None or trip_ns < PEER_FLOOR_NS:
        return None
    full = old - resumed  # at least
    more_ns = full * case.count * trip_ns
    if full < NOTABLE or more_ns < NOTABLE * (case.wait_ns + more_ns):
        return None
    what = f"{share(old, 1)} of the handshakes are TLS 1.2"
    return Evidence(
        f"{what}: a full one takes one more round trip than TLS 1.3{_of(trip_ns)} until the client may send its request",
        max(ratio(more_ns, case.wait_ns + more_ns), case.share(*_WAITS) if full >= MOST and far_clients(case) else 0.0),
    )


def _waits_for_peer(case: Case) -> bool:
    """Whether much of the time waits for it, and not most of that for what was lost."""
    return (
        case.handshakes.arrivals
        and case.much(PEER_FLOOR_NS, *_WAITS)
        and (losses(case) is None or case.ns(Part.LOSSES) < MOST * case.ns(*_WAITS))
    )


def _waits(case: Case, why: str) -> Evidence:
    waits = f"{case.of_wait(case.ns(*_WAITS))} is spent waiting for the peer and the network"
    return Evidence(f"{waits}: {why}{_own_part(case)}{_key(case)}{unsplit(case)}", case.share(*_WAITS))


def _explained(case: Case) -> str:
    return f"given that the shortest round trip explains {share(case.ns(Part.ROUND_TRIPS), case.ns(*_WAITS))} of that"


def _own_part(case: Case) -> str:
    """Return how much of the mean handshake was spent in the library's calls."""
    return f"{case.own_work} is {case.mean(Part.CALLS)}"


def _key(case: Case) -> str:
    key_ns, calls_ns = case.ns(Part.PRIVATE_KEY), case.ns(Part.CALLS)
    return f", {share(key_ns, calls_ns)} of it {key_named(case.handshakes)}" if calls_ns and key_ns >= MOST * calls_ns else ""


def _trip_ns(case: Case) -> float | None:
    """The shortest round trip, on average; None where it isn't known."""
    trips, trips_ns = case.fact(Fact.FLIGHTS) + case.fact(Fact.UNSENT), case.ns(Part.ROUND_TRIPS)
    return trips_ns / trips if trips and trips_ns else None


def _trips_weight(case: Case, part: float, trip_ns: float) -> float:
    """The weight of one more round trip for this share of the handshakes, which isn't much where others wait long."""
    more = ratio(part * case.count * trip_ns, case.wait_ns)
    return counted_weight(part) if more >= NOTABLE else more


def _of(trip_ns: float | None) -> str:
    return "" if trip_ns is None else f", {duration(trip_ns)} or more"
