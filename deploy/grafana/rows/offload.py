# SPDX-License-Identifier: Apache-2.0
"""Private keys, and operations that are offloaded."""

from __future__ import annotations

from typing import Any

from deploy.grafana.panels import A_SECOND, COUNT, SECONDS, SHARE, lines, stacked
from deploy.grafana.queries import HOSTS, OF_HOSTS, SERVICE, quantile, rate, share


def panels() -> list[Any]:
    """The panels of the row, from left to right and from the top."""
    operations = rate("ssllatency_private_key_operations_total", SERVICE, "operation, key")
    seconds = rate("ssllatency_private_key_time_seconds_total", SERVICE, "operation, key")
    lanes = "ssllatency_offload_lanes_total"
    used = share(rate(lanes, HOSTS + ', lanes="used"', "function"), rate(lanes, HOSTS, "function"))
    return [
        lines(
            "Waits for the offload",
            "Of the service: 99th percentile until the work is completed, then until the handshake's next call.",
            SECONDS,
            (quantile(0.99, "ssllatency_offload_wait_seconds", SERVICE, "part"), "{{part}}"),
        ),
        lines(
            "Pauses for the offload, and what it left out",
            OF_HOSTS,
            A_SECOND,
            (rate("ssllatency_offload_pauses_total", HOSTS), "pauses"),
            (rate("ssllatency_offload_handshakes_total", HOSTS), "handshakes that paused"),
            (rate("ssllatency_offload_software_total", HOSTS), "operations by OpenSSL itself"),
            (rate("ssllatency_offload_unseen_total", HOSTS), "waits whose completion wasn't seen"),
        ),
        lines(
            "Handshakes that wait for the offload now",
            OF_HOSTS,
            COUNT,
            (f"sum by (instance) (ssllatency_offload_waiting{{{HOSTS}}})", "{{instance}}"),
            span=8,
        ),
        lines(
            "Share of lanes used",
            f"Of the batches of multi-buffer functions. {OF_HOSTS}",
            SHARE,
            (used, "{{function}}"),
            span=8,
        ),
        lines(
            "Batches",
            f"Calls of multi-buffer functions. {OF_HOSTS}",
            A_SECOND,
            (rate("ssllatency_offload_batches_total", HOSTS, "function"), "{{function}}"),
            span=8,
        ),
        stacked(
            "Private-key operations",
            "Of the service's successful handshakes.",
            A_SECOND,
            (operations, "{{operation}} {{key}}"),
        ),
        lines(
            "Time of a private-key operation",
            "The mean of the service's.",
            SECONDS,
            (share(seconds, operations), "{{operation}} {{key}}"),
        ),
    ]
