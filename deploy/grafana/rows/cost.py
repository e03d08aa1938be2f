# SPDX-License-Identifier: Apache-2.0
"""What tracing and exporting cost."""

from __future__ import annotations

from typing import Any

from deploy.grafana.panels import A_SECOND, CORES, COUNT, SECONDS, SHARE, lines, stacked
from deploy.grafana.queries import HOSTS, rate

_REFERENCE = "1 % of the traced processes' own"


def panels() -> list[Any]:
    """The panels of the row, from left to right and from the top."""
    return [*_what_is_paid(), *_the_exporter()]


def _what_is_paid() -> list[Any]:
    return [
        lines(
            "What tracing takes of the traced processes' CPU",
            "Since the last reading.",
            SHARE,
            (f"ssllatency_overhead_ratio{{{HOSTS}}}", "{{instance}}"),
        ),
        stacked(
            "CPU that tracing takes, by who pays for it",
            "In cores: traced processes, others that use the same files, and the kernel elsewhere.",
            CORES,
            (rate("ssllatency_overhead_cpu_seconds_total", HOSTS, "payer"), "{{payer}}"),
            (rate("ssllatency_traced_cpu_seconds_total", HOSTS) + " * 0.01", _REFERENCE),
            beside=_REFERENCE,
        ),
        lines(
            "Losses",
            "What should have been counted and was not, by kind; and handshakes whose phases a budget has left in rest.",
            A_SECOND,
            (rate("ssllatency_losses_total", HOSTS, "kind"), "{{kind}}"),
            (rate("ssllatency_handshake_unphased_total", HOSTS, "outcome"), "phases in rest: {{outcome}}"),
        ),
        lines(
            "Part of the time for which functions are watched",
            "1 unless a budget has reads and writes watched in windows only.",
            SHARE,
            (f"min by (function) (ssllatency_observed_ratio{{{HOSTS}}})", "{{function}}"),
        ),
    ]


def _the_exporter() -> list[Any]:
    requests = rate("ssllatency_otlp_requests_total", HOSTS, "instance, result")
    return [
        lines(
            "Series",
            "Of each host's exposition, and those that had no room in it.",
            COUNT,
            (f"ssllatency_series{{{HOSTS}}}", "{{instance}}"),
            (f"sum by (instance) (ssllatency_series_dropped_total{{{HOSTS}}})", "{{instance}} dropped"),
            span=8,
        ),
        lines(
            "Time of a reading and of a scrape",
            "The first is the tracer's part of the second.",
            SECONDS,
            (f"ssllatency_reading_seconds{{{HOSTS}}}", "{{instance}} reading"),
            (f'scrape_duration_seconds{{job="ssllatency", {HOSTS}}}', "{{instance}} scrape"),
            span=8,
        ),
        lines(
            "Processes that are traced, and those that can't be",
            "By host.",
            COUNT,
            (f"sum by (instance) (ssllatency_targets{{{HOSTS}}})", "{{instance}}"),
            (f"sum by (instance) (ssllatency_targets_refused_total{{{HOSTS}}})", "{{instance}} refused"),
            (f"sum by (instance) (ssllatency_targets_spared{{{HOSTS}}})", "{{instance}} left alone"),
            span=8,
        ),
        lines(
            "OTLP",
            "Requests by result and points that were rejected; nothing where no receiver is set.",
            A_SECOND,
            (requests, "{{instance}} {{result}}"),
            (rate("ssllatency_otlp_rejected_total", HOSTS, "instance"), "{{instance}} points rejected"),
        ),
        lines(
            "Versions of ssllatency",
            "How many hosts have which, with which engine.",
            COUNT,
            (f"count by (version, engine) (ssllatency_build_info{{{HOSTS}}})", "{{version}} {{engine}}"),
        ),
    ]
