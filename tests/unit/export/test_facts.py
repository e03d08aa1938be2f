# SPDX-License-Identifier: Apache-2.0
"""Facts of handshakes as counters: each with the number of handshakes of which it is known, and absent where it isn't known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from tests.measured.handshakes import Shake, handshakes_of
from tests.measured.recordings import interval_of

from ssllatency.export.metrics.collect import ByProcess
from ssllatency.export.metrics.facts import PLACES, bounded
from ssllatency.export.metrics.families import BY_NAME, OUTCOME, MetricKind
from ssllatency.export.metrics.kept import KeptResults
from ssllatency.export.metrics.points import Distribution
from ssllatency.model.handshakes import WITHIN, Ending, Fact, Label, Part

PREFIX = "ssllatency.handshake."
FAMILIES = {place.family for place in PLACES.values()}
SEEN = {Fact.SOCKET: 1, Fact.FLIGHTS: 2, Fact.FLIGHT_BYTES: 3000}
FULL = Shake({Part.REST: 1_000}, facts=SEEN)


def counters(shakes: Iterable[Shake]) -> dict[tuple[str, ...], float]:
    """The facts' counters, but that of unwatched phases, by the metric's last words and its labels' values."""
    [counts] = ByProcess(KeptResults()).read(interval_of(0, list(shakes))).values()
    return {
        (family.removeprefix(PREFIX), *(value for _, value in of)): value
        for (family, of), value in counts.items()
        if family in FAMILIES and not family.endswith("unphased") and not isinstance(value, Distribution)
    }


def with_facts(shake: Shake, facts: Mapping[Fact, int]) -> Shake:
    return replace(shake, facts={**shake.facts, **facts})


def test_every_fact_has_a_counter_of_its_own() -> None:
    assert PLACES.keys() == set(Fact)
    assert len({(place.family, place.value) for place in PLACES.values()}) == len(Fact)
    for place in PLACES.values():
        family = BY_NAME[place.family]
        assert (family.kind, family.by_service) == (MetricKind.COUNTER, True)
        assert set(family.labels) == {name for name in (place.label, OUTCOME if place.by_outcome else "") if name}


def test_what_did_not_happen_to_connections_that_were_seen_is_0() -> None:
    lossy = with_facts(FULL, {Fact.RETRANSMITTED: 1, Fact.RETRANSMISSIONS: 3})
    assert counters([FULL, FULL, lossy]) == {
        ("sockets", "success"): 3,
        ("flights", "success"): 6,
        ("largest_flight", "success"): 9000,
        ("retransmissions", "success"): 3,
        ("connection.events", "window_exceeded", "success"): 0,
        ("connection.events", "loss", "success"): 1,
        ("connection.events", "peer_left", "success"): 0,
    }


def test_what_is_not_known_is_absent() -> None:
    """No socket, no place of the HelloRetryRequest, no session lookup."""
    assert counters([replace(FULL, facts={})]) == {}


def test_each_ending_counts_its_own() -> None:
    left = replace(with_facts(FULL, {Fact.GONE: 1}), ending=Ending.ABANDONED)
    found = counters([FULL, left])
    assert found["sockets", "success"] == found["sockets", "abandoned"] == 1
    assert found["connection.events", "peer_left", "success"] == 0
    assert found["connection.events", "peer_left", "abandoned"] == 1


def test_counts_are_in_the_same_order_whatever_was_counted_most() -> None:
    """So that series keep their places from one reading to the next."""
    kinds = [
        replace(FULL, labels={Label.VERSION: version, Label.RESUMED: resumed}, ending=ending)
        for version in ("TLSv1.2", "TLSv1.3")
        for resumed in ("yes", "no")
        for ending in (Ending.SUCCESS, Ending.FAILURE)
    ]
    handshakes, orders = handshakes_of(kinds, by=(Label.VERSION, Label.RESUMED)), []
    assert len(handshakes.groups) == len(kinds)
    for number in range(len(kinds)):
        turned = replace(handshakes, groups=(*handshakes.groups[number:], *handshakes.groups[:number]))
        [counts] = ByProcess(KeptResults()).read(replace(interval_of(0, []), handshakes=turned)).values()
        orders.append(list(counts.items()))
    assert all(order == orders[0] for order in orders)


def test_hello_retries_are_of_those_of_which_they_are_known() -> None:
    known = with_facts(replace(FULL, facts={}), {Fact.HELLO_RETRY_KNOWN: 1})
    assert counters([known]) == {("hello_retries.known", "success"): 1, ("hello_retries", "success"): 0}
    retried = with_facts(known, {Fact.HELLO_RETRIES: 1})
    assert counters([known, retried]) == {("hello_retries.known", "success"): 2, ("hello_retries", "success"): 1}


def test_retries_of_quic_are_of_those_of_which_they_are_known() -> None:
    known = with_facts(replace(FULL, facts={}), {Fact.QUIC_RETRY_KNOWN: 1})
    assert counters([known]) == {("quic_retries.known", "success"): 1, ("quic_retries", "success"): 0}
    retried = with_facts(known, {Fact.QUIC_RETRIES: 1})
    assert counters([known, retried]) == {("quic_retries.known", "success"): 2, ("quic_retries", "success"): 1}


OFFERED = replace(FULL, times={Part.REST: 1_000, Part.SESSION_LOOKUP: 10}, facts={Fact.OFFERED: 1})


@pytest.mark.parametrize("refusals", [{}, {Fact.TICKETS_REFUSED: 1}, {Fact.CACHE_MISSES: 1}])
def test_refused_sessions_are_of_those_that_were_offered(refusals: Mapping[Fact, int]) -> None:
    assert counters([OFFERED, with_facts(OFFERED, refusals)]) == {
        ("session_offers",): 2,
        ("session_refusals", "ticket"): refusals.get(Fact.TICKETS_REFUSED, 0),
        ("session_refusals", "cache_miss"): refusals.get(Fact.CACHE_MISSES, 0),
    }


def test_where_no_lookup_is_seen_refusals_are_not_known() -> None:
    """As with BoringSSL, of which it is known only what was resumed."""
    assert counters([replace(OFFERED, times={Part.REST: 1_000})]) == {("session_offers",): 1}


def test_the_time_for_peers_that_had_left_is_a_part_of_the_peer() -> None:
    left = replace(FULL, times={Part.REST: 9_000, Part.GONE: 4_000})
    [counts] = ByProcess(KeptResults()).read(interval_of(0, [FULL, left])).values()
    [value] = [value for (family, of), value in counts.items() if family == f"{PREFIX}peer" and ("part", "left") in of]
    assert isinstance(value, Distribution)
    assert (value.total_ns, value.buckets.count) == (4_000, 1)


def test_every_part_has_a_histogram_of_its_own() -> None:
    made = interval_of(0, [FULL])
    assert made.handshakes
    [group] = made.handshakes.groups
    every = replace(made.handshakes, groups=(replace(group, parts=dict.fromkeys(Part, group.parts[Part.REST])),))
    [counts] = ByProcess(KeptResults()).read(replace(made, handshakes=every)).values()
    twice = 1  # the queue of an offload is told with the other parts of its wait, too
    assert sum(isinstance(value, Distribution) for value in counts.values()) == len(Part) + twice


def test_no_fact_is_larger_than_what_it_is_known_of() -> None:
    counts = dict.fromkeys(Fact, 10) | dict.fromkeys(WITHIN.values(), 7) | {Fact.UNPHASED: 0}
    found = bounded(counts, 8)
    assert all(found[fact] == 7 for fact in WITHIN)
    assert found[Fact.FLIGHT_BYTES] == 10
    assert Fact.UNPHASED not in found
    assert bounded({Fact.UNPHASED: 9, Fact.GONE: 1}, 8) == {Fact.UNPHASED: 8}
