# SPDX-License-Identifier: Apache-2.0
"""Services: all of the hosts that are chosen, side by side."""

from __future__ import annotations

from typing import Any

from deploy.grafana.panels import A_SECOND, COUNT, SECONDS, SHARE, lines, rows_by
from deploy.grafana.queries import CALLS, CLIENT_WAIT, DURATION, HOSTS, QUEUE, count, failed, quantile, resumed


def panels() -> list[Any]:
    """The panels of the row, from left to right and from the top."""
    good = f'{HOSTS}, outcome="success"'
    return [
        rows_by(
            "service",
            "Services",
            "Now, on the hosts that are chosen. Times are those of successful handshakes from their first call to their end;"
            " for clients from their ClientHello's arrival on.",
            (
                ("handshakes/s", A_SECOND, count(DURATION, HOSTS, "service")),
                ("p50", SECONDS, quantile(0.5, DURATION, good, "service")),
                ("p99", SECONDS, quantile(0.99, DURATION, good, "service")),
                ("p99 for clients", SECONDS, quantile(0.99, CLIENT_WAIT, good, "service")),
                ("p99 in calls", SECONDS, quantile(0.99, CALLS, good, "service")),
                ("p99 in the queue", SECONDS, quantile(0.99, QUEUE, f'{good}, part="all"', "service")),
                ("not successful", SHARE, failed(HOSTS, "service")),
                ("resumed", SHARE, resumed(HOSTS, "service")),
                ("processes", COUNT, f"sum by (service) (ssllatency_targets{{{HOSTS}}})"),
            ),
        ),
        lines("Handshakes", "By service, however they ended.", A_SECOND, (count(DURATION, HOSTS, "service"), "{{service}}")),
        lines(
            "99th percentile of handshakes",
            "By service: successful handshakes, the wait for the peer included.",
            SECONDS,
            (quantile(0.99, DURATION, good, "service"), "{{service}}"),
        ),
        lines(
            "Share of handshakes that failed or were abandoned",
            "By service.",
            SHARE,
            (failed(HOSTS, "service"), "{{service}}"),
        ),
        lines(
            "Share of resumed handshakes",
            "By service: of the successful ones.",
            SHARE,
            (resumed(HOSTS, "service"), "{{service}}"),
        ),
        lines(
            "Time until certificates expire",
            "By service, port and name: of the first to expire that a process serves now. Below 0 it has expired.",
            SECONDS,
            (
                "min by (service, server_port, tls_server_subject)"
                f" (ssllatency_certificate_not_after_timestamp_seconds{{{HOSTS}}}) - time()",
                "{{service}} {{server_port}} {{tls_server_subject}}",
            ),
            span=24,
        ),
    ]
