# SPDX-License-Identifier: Apache-2.0
"""The network of a service's handshakes, and resumption."""

from __future__ import annotations

from typing import Any

from deploy.grafana.panels import A_SECOND, BYTES, COUNT, SHARE, lines
from deploy.grafana.queries import CALLS, PEER, SERVICE, SOCKETS, of_all, rate, share


def panels() -> list[Any]:
    """The panels of the row, from left to right and from the top."""
    return [*_connections(), *_flights()]


def _connections() -> list[Any]:
    """Shares are of the handshakes of which it is known, so there is none where it isn't."""
    events, sockets = rate("ssllatency_handshake_connection_events_total", SERVICE, "event"), rate(SOCKETS, SERVICE)
    retries, known = (rate(f"ssllatency_handshake_hello_retries{end}_total", SERVICE) for end in ("", "_known"))
    quic_retries, quic_known = (rate(f"ssllatency_handshake_quic_retries{end}_total", SERVICE) for end in ("", "_known"))
    refusals = rate("ssllatency_handshake_session_refusals_total", SERVICE, "reason")
    offers, left = rate("ssllatency_handshake_session_offers_total", SERVICE), rate(PEER, f'{SERVICE}, part="left"')
    return [
        lines(
            "What happens to connections",
            "Share of the handshakes, however they ended: with a flight larger than the congestion window, with losses, with a"
            " peer that left before they were over, with a HelloRetryRequest, with a Retry of QUIC.",
            SHARE,
            (of_all(events, sockets), "{{event}}"),
            (share(retries, known), "hello retry"),
            (share(quic_retries, quic_known), "QUIC retry"),
        ),
        lines(
            "Sessions that were refused",
            "Share of the successful handshakes whose client offered a session: its ticket couldn't be used, or its session"
            " wasn't in the cache.",
            SHARE,
            (of_all(refusals, offers), "{{reason}}"),
        ),
        lines(
            "Sessions that were offered",
            "Successful handshakes whose client offered a session.",
            A_SECOND,
            (offers, "offered"),
            span=8,
        ),
        lines(
            "Work for peers that had left",
            "Share of the time in handshakes' calls, however they ended, spent in calls that began after the peer had left.",
            SHARE,
            (share(f"histogram_sum({left})", f"histogram_sum({rate(CALLS, SERVICE)})"), "in vain"),
            span=8,
        ),
        lines(
            "Segments sent again",
            "By this side, while handshakes waited for their peer.",
            A_SECOND,
            (rate("ssllatency_handshake_retransmissions_total", SERVICE), "segments"),
            span=8,
        ),
    ]


def _flights() -> list[Any]:
    good = f'{SERVICE}, outcome="success"'
    sockets = rate(SOCKETS, good)
    return [
        lines(
            "Largest flight",
            "What this side sent at once at most, in the mean successful handshake. About 14 kB fit into the first congestion"
            " window; what is more waits for a round trip.",
            BYTES,
            (share(rate("ssllatency_handshake_largest_flight_bytes_total", good), sockets), "sent at once"),
        ),
        lines(
            "Flights that were awaited",
            "From the peer, in the mean successful handshake, its ClientHello not included: each takes a round trip.",
            COUNT,
            (share(rate("ssllatency_handshake_flights_total", good), sockets), "flights"),
        ),
    ]
