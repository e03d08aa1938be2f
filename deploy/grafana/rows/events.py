# SPDX-License-Identifier: Apache-2.0
"""What happens in a service's handshakes and calls: failures, kinds of handshakes, rates."""

from __future__ import annotations

from typing import Any

from deploy.grafana.panels import A_SECOND, COUNT, SECONDS, SHARE, lines, stacked
from deploy.grafana.queries import DURATION, HOSTS, OF_HOSTS, SERVICE, count, quantile, rate, resumed


def panels() -> list[Any]:
    """The panels of the row, from left to right and from the top."""
    return [*_what_goes_wrong(), *_kinds(), *_calls()]


def _what_goes_wrong() -> list[Any]:
    errors = rate("ssllatency_handshake_errors_total", SERVICE, "outcome, error_type, tls_alert")
    return [
        stacked(
            "Calls that failed, by reason",
            "Of the service.",
            A_SECOND,
            (rate("ssllatency_call_failures_total", SERVICE, "function, reason"), "{{function}}: {{reason}}"),
        ),
        stacked(
            "Handshakes that failed or were abandoned, by cause",
            "Of the service.",
            A_SECOND,
            (errors, "{{outcome}}: {{error_type}} {{tls_alert}}"),
        ),
        stacked(
            "Retries, by what they wait for",
            "Calls that have to be made again: no failures.",
            A_SECOND,
            (rate("ssllatency_call_retries_total", SERVICE, "function, reason"), "{{function}}: {{reason}}"),
        ),
    ]


def _kinds() -> list[Any]:
    return [
        lines(
            "Share of resumed handshakes, by version",
            "Of the service's successful ones.",
            SHARE,
            (resumed(SERVICE, "tls_protocol_version"), "{{tls_protocol_version}}"),
        ),
        stacked(
            "Versions",
            "Of the service's successful handshakes.",
            A_SECOND,
            (count(DURATION, f'{SERVICE}, outcome="success"', "tls_protocol_version"), "{{tls_protocol_version}}"),
            span=8,
        ),
        stacked(
            "Groups of the key exchange",
            "Of the service's successful handshakes.",
            A_SECOND,
            (rate("ssllatency_handshake_curves_total", SERVICE, "tls_curve"), "{{tls_curve}}"),
            span=8,
        ),
        stacked(
            "Cipher suites",
            "Of the service's successful handshakes.",
            A_SECOND,
            (rate("ssllatency_handshake_ciphers_total", SERVICE, "tls_cipher"), "{{tls_cipher}}"),
            span=8,
        ),
    ]


def _calls() -> list[Any]:
    return [
        lines(
            "99th percentile of calls",
            "Of the service's calls, by function: those that succeeded, and those of unknown outcome.",
            SECONDS,
            (
                quantile(0.99, "ssllatency_call_duration_seconds", f'{SERVICE}, outcome=~"success|unknown"', "function"),
                "{{function}}",
            ),
        ),
        lines(
            "In flight",
            OF_HOSTS,
            COUNT,
            (f"sum (ssllatency_handshake_in_flight{{{HOSTS}}})", "handshakes"),
            (f"sum (ssllatency_call_in_flight{{{HOSTS}}})", "calls"),
        ),
        lines(
            "Accept queues that were full",
            f"{OF_HOSTS} How often a connection found no room: its client tries again 0.2 s or more later, and no time of a"
            " handshake includes that.",
            A_SECOND,
            (rate("ssllatency_accept_queue_overflows_total", HOSTS, "instance"), "{{instance}}"),
            (rate("ssllatency_accept_queue_untold_total", HOSTS, "instance"), "{{instance}}, perhaps others'"),
        ),
    ]
