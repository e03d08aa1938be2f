# SPDX-License-Identifier: Apache-2.0
"""Counters of handshakes beside their times: which fact is which metric, and when it is known.

A fact that counts handshakes is exported with the number of handshakes of which it is known, so that a share can be taken: it
is 0 where it is known that there was none, and absent where that can't be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from ssllatency.data_class import dataclass
from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.families import BY_NAME
from ssllatency.export.metrics.points import Labels, labels
from ssllatency.model.handshakes import SUMS, WITHIN, Ending, Fact, Group, Part

REFUSALS = (Fact.TICKETS_REFUSED, Fact.CACHE_MISSES)
_KNOWN_OF = WITHIN | dict.fromkeys(SUMS, Fact.SOCKET)


@dataclass(frozen=True)
class FactPlace:
    """The place where a fact is counted: in this family, under this value of its own label, "" where it has none."""

    family: str
    label: str = ""
    value: str = ""

    @property
    def by_outcome(self) -> bool:
        """Whether it is counted by how handshakes ended; else it is of the successful ones alone."""
        return names.OUTCOME in BY_NAME[self.family].labels


PLACES = {
    Fact.SOCKET: FactPlace("ssllatency.handshake.sockets"),
    Fact.FLIGHTS: FactPlace("ssllatency.handshake.flights"),
    Fact.FLIGHT_BYTES: FactPlace("ssllatency.handshake.largest_flight"),
    Fact.UNSENT: FactPlace("ssllatency.handshake.connection.events", names.EVENT, "window_exceeded"),
    Fact.RETRANSMITTED: FactPlace("ssllatency.handshake.connection.events", names.EVENT, "loss"),
    Fact.GONE: FactPlace("ssllatency.handshake.connection.events", names.EVENT, "peer_left"),
    Fact.RETRANSMISSIONS: FactPlace("ssllatency.handshake.retransmissions"),
    Fact.HELLO_RETRY_KNOWN: FactPlace("ssllatency.handshake.hello_retries.known"),
    Fact.HELLO_RETRIES: FactPlace("ssllatency.handshake.hello_retries"),
    Fact.QUIC_RETRY_KNOWN: FactPlace("ssllatency.handshake.quic_retries.known"),
    Fact.QUIC_RETRIES: FactPlace("ssllatency.handshake.quic_retries"),
    Fact.OFFERED: FactPlace("ssllatency.handshake.session_offers"),
    Fact.TICKETS_REFUSED: FactPlace("ssllatency.handshake.session_refusals", names.REASON, "ticket"),
    Fact.CACHE_MISSES: FactPlace("ssllatency.handshake.session_refusals", names.REASON, "cache_miss"),
    Fact.UNPHASED: FactPlace("ssllatency.handshake.unphased"),
}


def facts_of(ending: Ending, groups: Sequence[Group]) -> Iterator[tuple[tuple[str, Labels], int]]:
    """The counters of groups that ended so, added up: family and labels, and the count. Those that there are with any handshake
    of which they are known; refusals not where no lookup is ever seen: of libraries whose lookups can't be watched it is known
    which sessions were resumed, and no more."""
    facts = [group.facts for group in groups]
    of_lookups = [group.facts for group in groups if _sees_lookups(group)]
    for fact, known_of, row in _rows(ending):
        of_groups = of_lookups if fact in REFUSALS else facts
        numbers = [one.get(fact, 0) for one in of_groups if known_of is None or one.get(known_of)]
        if numbers:
            yield row, sum(numbers)


def _sees_lookups(group: Group) -> bool:
    return Part.SESSION_LOOKUP in group.parts or any(group.facts.get(refusal) for refusal in REFUSALS)


@cache
def _rows(ending: Ending) -> Sequence[tuple[Fact, Fact | None, tuple[str, Labels]]]:
    """Return where each fact of handshakes is counted that ended so, after the one that counts of how many it is known; None
    where it is of all."""
    rows = []
    for fact, place in PLACES.items():
        outcome = {names.OUTCOME: str(ending)} if place.by_outcome else {}
        own = {place.label: place.value} if place.label else {}
        known_of = None if fact is Fact.UNPHASED else _KNOWN_OF.get(fact, fact)
        rows.append((fact, known_of, (place.family, labels({**own, **outcome}))))
    return rows


def bounded(counts: Mapping[Fact, int], handshakes: int) -> dict[Fact, int]:
    """Facts of so many handshakes, without those that are 0; none is larger than the number of handshakes of which it is known,
    though they may have been read while one was being counted."""
    most = {fact: min(counts.get(WITHIN.get(fact, fact), 0), handshakes) for fact in Fact if fact not in SUMS}
    return {fact: least for fact, count in counts.items() if (least := min(count, most.get(fact, count))) > 0}


def outcome_of(place: FactPlace, outcome: str) -> str:
    """Return how the handshakes of a series ended, from its label `outcome`, "" where it has none."""
    return outcome if place.by_outcome else Ending.SUCCESS
