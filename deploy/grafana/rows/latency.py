# SPDX-License-Identifier: Apache-2.0
"""Where the time of a service's handshakes goes."""

from __future__ import annotations

from typing import Any

from deploy.grafana.panels import SECONDS, heat, lines, stacked
from deploy.grafana.queries import CALLS, CLIENT_WAIT, DURATION, PEER, QUEUE, SERVICE, parts, quantile, rate


def panels() -> list[Any]:
    """The panels of the row, from left to right and from the top."""
    good = f'{SERVICE}, outcome="success"'
    percentiles = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"))
    return [
        heat(
            "Handshake latency",
            "How many successful handshakes took how long, in buckets of 4.4 %, as they were counted in the kernel.",
            rate(DURATION, good),
        ),
        lines(
            "Percentiles of handshakes",
            "Successful handshakes, the wait for the peer included; for clients the queue before the first call as well.",
            SECONDS,
            *((quantile(q, DURATION, good), name) for q, name in percentiles),
            (quantile(0.99, CLIENT_WAIT, good), "p99 for clients"),
        ),
        stacked(
            "The mean handshake",
            "What the library's calls did in the mean successful handshake, and what it waited for between them.",
            SECONDS,
            (parts("ssllatency_handshake_phase_seconds", "phase"), "{{phase}}"),
            (parts("ssllatency_handshake_wait_seconds", "wait"), "wait: {{wait}}"),
        ),
        lines(
            "The server's queue",
            "How long clients' bytes lay in the server's sockets in a successful handshake, 99th percentile: in all, before its"
            " first call, and by what the server's thread did.",
            SECONDS,
            (quantile(0.99, QUEUE, good, "part"), "{{part}}"),
        ),
        lines(
            "The wait for the client",
            "In a successful handshake, 99th percentile: for its ClientHello once the connection was there, for its answers,"
            " and what round trips and losses explain of these.",
            SECONDS,
            (quantile(0.99, "ssllatency_handshake_wait_seconds", f'{good}, wait="peer"'), "answers"),
            (quantile(0.99, PEER, f'{good}, part!="left"', "part"), "{{part}}"),
        ),
        lines(
            "99th percentile by phase",
            "Of the successful handshakes that had the phase, and of their time in calls.",
            SECONDS,
            (quantile(0.99, "ssllatency_handshake_phase_seconds", good, "phase"), "{{phase}}"),
            (quantile(0.99, CALLS, good), "all calls"),
        ),
        lines(
            "The processor in calls",
            "How long the thread had one in a successful handshake's calls, and how long it had none, 99th percentile: in all,"
            " ready to run, of that held by a CPU quota, and asleep in none of the phases.",
            SECONDS,
            (quantile(0.99, "ssllatency_handshake_processor_seconds", good, "part"), "{{part}}"),
        ),
    ]
