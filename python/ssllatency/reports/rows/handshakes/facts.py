# SPDX-License-Identifier: Apache-2.0
"""Facts about the network's and resumption's part in handshakes, beside their times: flights, losses, peers that left,
HelloRetryRequests, Retries of QUIC, tickets."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.model.arithmetic.handshake_sums import add_groups
from ssllatency.model.handshakes import Fact, Group, Handshakes
from ssllatency.reports.rows.parts import shown_group
from ssllatency.units import counted, share, size


def facts_sentence(handshakes: Handshakes) -> str:
    """The facts that are known and not 0, "" where nothing is: of the handshakes whose time is shown, but for peers that left,
    which is of all."""
    group = shown_group(handshakes)
    return _sentence([*_of_group(group), *_peers_gone(handshakes.groups)]) if group else ""


def group_sentence(group: Group) -> str:
    """The facts of one group, without its peers that left."""
    return _sentence(_of_group(group))


def _sentence(phrases: list[str]) -> str:
    return f"Network and resumption: {'; '.join(phrases)}." if phrases else ""


def _of_group(group: Group) -> list[str]:
    return [*_flights(group), *_losses(group), *_resumption(group)]


def _flights(group: Group) -> Iterator[str]:
    sockets, flights, sent = (group.facts.get(fact, 0) for fact in (Fact.SOCKET, Fact.FLIGHTS, Fact.FLIGHT_BYTES))
    if 0 < sockets < group.count:
        yield f"the socket is known in {share(sockets, group.count)}"
    if sockets and flights:
        yield f"{flights / sockets:.1f} flights of the peer per handshake were waited for"
    if retries := group.facts.get(Fact.HELLO_RETRIES):
        yield f"{share(retries, group.facts.get(Fact.HELLO_RETRY_KNOWN, 0))} needed a HelloRetryRequest"
    if retries := group.facts.get(Fact.QUIC_RETRIES):
        known = counted(group.facts.get(Fact.QUIC_RETRY_KNOWN, 0), "handshake")
        validated = f"of {known} over QUIC {retries} had the client's address validated by a Retry"
        yield f"{validated}: a round trip before, in none of these times"
    if sockets and sent:
        unsent = group.facts.get(Fact.UNSENT)
        larger = f", in {share(unsent, sockets)} larger than the congestion window" if unsent else ""
        yield f"the largest flight sent was {size(sent / sockets)} on average{larger}"


def _losses(group: Group) -> Iterator[str]:
    if lossy := group.facts.get(Fact.RETRANSMITTED):
        again = group.facts.get(Fact.RETRANSMISSIONS)
        segments = f" ({counted(again, 'segment')} sent again)" if again else ""
        yield f"{share(lossy, group.facts.get(Fact.SOCKET, 0))} had losses{segments}"


def _resumption(group: Group) -> Iterator[str]:
    offered = group.facts.get(Fact.OFFERED)
    parts = [f"a session was offered in {share(offered, group.phased)}"] if offered else []
    if refused := group.facts.get(Fact.TICKETS_REFUSED):
        parts.append(f"a ticket refused in {share(refused, group.phased)}")
    if missed := group.facts.get(Fact.CACHE_MISSES):
        parts.append(f"a session not found in the cache in {share(missed, group.phased)}")
    if parts:
        yield ", ".join(parts)


def _peers_gone(groups: tuple[Group, ...]) -> Iterator[str]:
    facts = add_groups(groups).facts
    if gone := facts.get(Fact.GONE):
        yield f"{share(gone, facts.get(Fact.SOCKET, 0))} of all went on though their peer had left"
