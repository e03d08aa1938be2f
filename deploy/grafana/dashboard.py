# SPDX-License-Identifier: Apache-2.0
"""Makes the Grafana dashboard deploy/grafana/ssllatency.json of what `ssllatency export` offers: `make dashboard`.

Two variables choose what is shown: hosts (Prometheus' label `instance`) and one service. Most of the offload is counted for a
host, not for a service; its panels say so.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.panels import (
    A_SECOND,
    BYTES,
    CORES,
    COUNT,
    SECONDS,
    SHARE,
    empty_dashboard,
    heat,
    lines,
    rows_by,
    stacked,
    variable,
)

FILE = Path(__file__).with_name("ssllatency.json")
_ABOUT = "TLS handshakes and calls of servers, as ssllatency export counts them. It needs Prometheus' native histograms."
_HOSTS = 'instance=~"$instance"'
_SERVICE = f'{_HOSTS}, service="$service"'
_DURATION, _CALLS = "ssllatency_handshake_duration_seconds", "ssllatency_handshake_calls_seconds"
_QUEUE, _CLIENT_WAIT = "ssllatency_handshake_queue_seconds", "ssllatency_handshake_client_wait_seconds"
_PEER, _SOCKETS = "ssllatency_handshake_peer_seconds", "ssllatency_handshake_sockets_total"
_WINDOW = "[$__rate_interval]"
_OF_HOSTS = "Counted for a host, so of all services on the hosts that are chosen."


def _rate(metric: str, where: str, by: str = "") -> str:
    """What is added each second, in sum or by labels; of a histogram all buckets."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{where}}}{_WINDOW}))"


def _count(metric: str, where: str, by: str = "") -> str:
    """How many durations of a histogram each second."""
    return f"histogram_count({_rate(metric, where, by)})"


def _quantile(q: float, metric: str, where: str, by: str = "") -> str:
    return f"histogram_quantile({q}, {_rate(metric, where, by)})"


def _parts(metric: str, by: str) -> str:
    """The time of each phase or wait in the mean successful handshake, also of those that didn't have it."""
    where = f'{_SERVICE}, outcome="success"'
    return f"histogram_sum({_rate(metric, where, by)}) / on () group_left () {_count(_DURATION, where)}"


def _share(part: str, whole: str) -> str:
    return f"{part} / {whole}"


def _of_all(parts: str, whole: str) -> str:
    """The share of each of several series in one."""
    return f"{parts} / on () group_left () {whole}"


def _part_of(part: str, whole: str, by: str) -> str:
    """The share of handshakes that are of a part; 0 where there are others only."""
    counted = _count(_DURATION, whole, by)
    return f"({_count(_DURATION, part, by)} or {counted} * 0) / {counted}"


def _failed(where: str, by: str) -> str:
    """The share that didn't succeed."""
    return _part_of(f'{where}, outcome!="success"', where, by)


def _resumed(where: str, by: str) -> str:
    """The share of the successful handshakes that were resumed."""
    good = f'{where}, outcome="success"'
    return _part_of(f'{good}, tls_resumed="true"', f'{good}, tls_resumed=~"true|false"', by)


def _overview() -> list[Any]:
    good = f'{_HOSTS}, outcome="success"'
    return [
        rows_by(
            "service",
            "Services",
            "Now, on the hosts that are chosen. Times are those of successful handshakes from their first call to their end;"
            " for clients from their ClientHello's arrival on.",
            (
                ("handshakes/s", A_SECOND, _count(_DURATION, _HOSTS, "service")),
                ("p50", SECONDS, _quantile(0.5, _DURATION, good, "service")),
                ("p99", SECONDS, _quantile(0.99, _DURATION, good, "service")),
                ("p99 for clients", SECONDS, _quantile(0.99, _CLIENT_WAIT, good, "service")),
                ("p99 in calls", SECONDS, _quantile(0.99, _CALLS, good, "service")),
                ("p99 in the queue", SECONDS, _quantile(0.99, _QUEUE, f'{good}, part="all"', "service")),
                ("not successful", SHARE, _failed(_HOSTS, "service")),
                ("resumed", SHARE, _resumed(_HOSTS, "service")),
                ("processes", COUNT, f"sum by (service) (ssllatency_targets{{{_HOSTS}}})"),
            ),
        ),
        lines("Handshakes", "By service, however they ended.", A_SECOND, (_count(_DURATION, _HOSTS, "service"), "{{service}}")),
        lines(
            "99th percentile of handshakes",
            "By service: successful handshakes, the wait for the peer included.",
            SECONDS,
            (_quantile(0.99, _DURATION, good, "service"), "{{service}}"),
        ),
        lines(
            "Share of handshakes that failed or were abandoned",
            "By service.",
            SHARE,
            (_failed(_HOSTS, "service"), "{{service}}"),
        ),
        lines(
            "Share of resumed handshakes",
            "By service: of the successful ones.",
            SHARE,
            (_resumed(_HOSTS, "service"), "{{service}}"),
        ),
    ]


def _latency() -> list[Any]:
    good = f'{_SERVICE}, outcome="success"'
    percentiles = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"))
    return [
        heat(
            "Handshake latency",
            "How many successful handshakes took how long, in buckets of 4.4 %, as they were counted in the kernel.",
            _rate(_DURATION, good),
        ),
        lines(
            "Percentiles of handshakes",
            "Successful handshakes, the wait for the peer included; for clients the queue before the first call as well.",
            SECONDS,
            *((_quantile(q, _DURATION, good), name) for q, name in percentiles),
            (_quantile(0.99, _CLIENT_WAIT, good), "p99 for clients"),
        ),
        stacked(
            "The mean handshake",
            "What the library's calls did in the mean successful handshake, and what it waited for between them.",
            SECONDS,
            (_parts("ssllatency_handshake_phase_seconds", "phase"), "{{phase}}"),
            (_parts("ssllatency_handshake_wait_seconds", "wait"), "wait: {{wait}}"),
        ),
        lines(
            "The server's queue",
            "How long clients' bytes lay in the server's sockets in a successful handshake, 99th percentile: in all, before its"
            " first call, and by what the server's thread did.",
            SECONDS,
            (_quantile(0.99, _QUEUE, good, "part"), "{{part}}"),
        ),
        lines(
            "The wait for the client",
            "In a successful handshake, 99th percentile: for its ClientHello once the connection was there, for its answers,"
            " and what round trips and losses explain of these.",
            SECONDS,
            (_quantile(0.99, "ssllatency_handshake_wait_seconds", f'{good}, wait="peer"'), "answers"),
            (_quantile(0.99, _PEER, f'{good}, part!="left"', "part"), "{{part}}"),
        ),
        lines(
            "99th percentile by phase",
            "Of the successful handshakes that had the phase, and of their time in calls.",
            SECONDS,
            (_quantile(0.99, "ssllatency_handshake_phase_seconds", good, "phase"), "{{phase}}"),
            (_quantile(0.99, _CALLS, good), "all calls"),
        ),
        lines(
            "The processor in calls",
            "How long the thread had one in a successful handshake's calls, and how long it had none, 99th percentile: in all,"
            " ready to run, of that held by a CPU quota, and asleep in none of the phases.",
            SECONDS,
            (_quantile(0.99, "ssllatency_handshake_processor_seconds", good, "part"), "{{part}}"),
        ),
    ]


def _what_happens() -> list[Any]:
    return [*_what_goes_wrong(), *_kinds(), *_calls()]


def _what_goes_wrong() -> list[Any]:
    errors = _rate("ssllatency_handshake_errors_total", _SERVICE, "outcome, error_type, tls_alert")
    return [
        stacked(
            "Calls that failed, by reason",
            "Of the service.",
            A_SECOND,
            (_rate("ssllatency_call_failures_total", _SERVICE, "function, reason"), "{{function}}: {{reason}}"),
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
            (_rate("ssllatency_call_retries_total", _SERVICE, "function, reason"), "{{function}}: {{reason}}"),
        ),
    ]


def _kinds() -> list[Any]:
    return [
        lines(
            "Share of resumed handshakes",
            "Of the service's successful ones, by version.",
            SHARE,
            (_resumed(_SERVICE, "tls_protocol_version"), "{{tls_protocol_version}}"),
        ),
        stacked(
            "Versions",
            "Of the service's successful handshakes.",
            A_SECOND,
            (_count(_DURATION, f'{_SERVICE}, outcome="success"', "tls_protocol_version"), "{{tls_protocol_version}}"),
            span=8,
        ),
        stacked(
            "Groups of the key exchange",
            "Of the service's successful handshakes.",
            A_SECOND,
            (_rate("ssllatency_handshake_curves_total", _SERVICE, "tls_curve"), "{{tls_curve}}"),
            span=8,
        ),
        stacked(
            "Cipher suites",
            "Of the service's successful handshakes.",
            A_SECOND,
            (_rate("ssllatency_handshake_ciphers_total", _SERVICE, "tls_cipher"), "{{tls_cipher}}"),
            span=8,
        ),
    ]


def _calls() -> list[Any]:
    return [
        lines(
            "99th percentile of calls",
            "Of the service's successful calls, by function.",
            SECONDS,
            (
                _quantile(0.99, "ssllatency_call_duration_seconds", f'{_SERVICE}, outcome="success"', "function"),
                "{{function}}",
            ),
        ),
        lines(
            "In flight",
            _OF_HOSTS,
            COUNT,
            (f"sum (ssllatency_handshake_in_flight{{{_HOSTS}}})", "handshakes"),
            (f"sum (ssllatency_call_in_flight{{{_HOSTS}}})", "calls"),
        ),
        lines(
            "Accept queues that were full",
            f"{_OF_HOSTS} How often a connection found no room: its client tries again 0.2 s or more later, and no time of a"
            " handshake includes that.",
            A_SECOND,
            (_rate("ssllatency_accept_queue_overflows_total", _HOSTS, "instance"), "{{instance}}"),
        ),
    ]


def _network() -> list[Any]:
    return [*_connections(), *_flights()]


def _connections() -> list[Any]:
    """Shares are of the handshakes of which it is known, so there is none where it isn't."""
    events, sockets = _rate("ssllatency_handshake_connection_events_total", _SERVICE, "event"), _rate(_SOCKETS, _SERVICE)
    retries, known = (_rate(f"ssllatency_handshake_hello_retries{end}_total", _SERVICE) for end in ("", "_known"))
    refusals = _rate("ssllatency_handshake_session_refusals_total", _SERVICE, "reason")
    offers, left = _rate("ssllatency_handshake_session_offers_total", _SERVICE), _rate(_PEER, f'{_SERVICE}, part="left"')
    return [
        lines(
            "What happens to connections",
            "Share of the handshakes, however they ended: with a flight larger than the congestion window, with losses, with a"
            " peer that left before they were over, with a HelloRetryRequest.",
            SHARE,
            (_of_all(events, sockets), "{{event}}"),
            (_share(retries, known), "hello retry"),
        ),
        lines(
            "Sessions that were refused",
            "Share of the successful handshakes whose client offered a session: its ticket couldn't be used, or its session"
            " wasn't in the cache.",
            SHARE,
            (_of_all(refusals, offers), "{{reason}}"),
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
            (_share(f"histogram_sum({left})", f"histogram_sum({_rate(_CALLS, _SERVICE)})"), "in vain"),
            span=8,
        ),
        lines(
            "Segments sent again",
            "By this side, while handshakes waited for their peer.",
            A_SECOND,
            (_rate("ssllatency_handshake_retransmissions_total", _SERVICE), "segments"),
            span=8,
        ),
    ]


def _flights() -> list[Any]:
    good = f'{_SERVICE}, outcome="success"'
    sockets = _rate(_SOCKETS, good)
    return [
        lines(
            "Largest flight",
            "What this side sent at once at most, in the mean successful handshake. About 14 kB fit into the first congestion"
            " window; what is more waits for a round trip.",
            BYTES,
            (_share(_rate("ssllatency_handshake_largest_flight_bytes_total", good), sockets), "sent at once"),
        ),
        lines(
            "Flights that were awaited",
            "From the peer, in the mean successful handshake, its ClientHello not included: each takes a round trip.",
            COUNT,
            (_share(_rate("ssllatency_handshake_flights_total", good), sockets), "flights"),
        ),
    ]


def _offload() -> list[Any]:
    operations = _rate("ssllatency_private_key_operations_total", _SERVICE, "operation, key")
    seconds = _rate("ssllatency_private_key_time_seconds_total", _SERVICE, "operation, key")
    lanes = "ssllatency_offload_lanes_total"
    used = _share(_rate(lanes, _HOSTS + ', lanes="used"', "function"), _rate(lanes, _HOSTS, "function"))
    return [
        lines(
            "Waits for the offload",
            "Of the service: 99th percentile until the work is completed, then until the handshake's next call.",
            SECONDS,
            (_quantile(0.99, "ssllatency_offload_wait_seconds", _SERVICE, "part"), "{{part}}"),
        ),
        lines(
            "Pauses for the offload, and what it left out",
            _OF_HOSTS,
            A_SECOND,
            (_rate("ssllatency_offload_pauses_total", _HOSTS), "pauses"),
            (_rate("ssllatency_offload_handshakes_total", _HOSTS), "handshakes that paused"),
            (_rate("ssllatency_offload_software_total", _HOSTS), "operations by OpenSSL itself"),
            (_rate("ssllatency_offload_unseen_total", _HOSTS), "waits whose completion wasn't seen"),
        ),
        lines(
            "Handshakes that wait for the offload now",
            _OF_HOSTS,
            COUNT,
            (f"sum by (instance) (ssllatency_offload_waiting{{{_HOSTS}}})", "{{instance}}"),
            span=8,
        ),
        lines(
            "Share of lanes used",
            f"Of the batches of multi-buffer functions. {_OF_HOSTS}",
            SHARE,
            (used, "{{function}}"),
            span=8,
        ),
        lines(
            "Batches",
            f"Calls of multi-buffer functions. {_OF_HOSTS}",
            A_SECOND,
            (_rate("ssllatency_offload_batches_total", _HOSTS, "function"), "{{function}}"),
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
            (_share(seconds, operations), "{{operation}} {{key}}"),
        ),
    ]


def _own_cost() -> list[Any]:
    return [*_what_is_paid(), *_the_exporter()]


def _what_is_paid() -> list[Any]:
    return [
        lines(
            "What tracing takes of the traced processes' CPU",
            "Since the last reading.",
            SHARE,
            (f"ssllatency_overhead_ratio{{{_HOSTS}}}", "{{instance}}"),
        ),
        stacked(
            "CPU that tracing takes, by who pays for it",
            "In cores: traced processes, others that use the same files, and the kernel elsewhere.",
            CORES,
            (_rate("ssllatency_overhead_cpu_seconds_total", _HOSTS, "payer"), "{{payer}}"),
            (_rate("ssllatency_traced_cpu_seconds_total", _HOSTS) + " * 0.01", "1 % of the traced processes' own"),
        ),
        lines(
            "Losses",
            "What should have been counted and was not, by kind; and handshakes whose phases a budget has left in rest.",
            A_SECOND,
            (_rate("ssllatency_losses_total", _HOSTS, "kind"), "{{kind}}"),
            (_rate("ssllatency_handshake_unphased_total", _HOSTS, "outcome"), "phases in rest: {{outcome}}"),
        ),
        lines(
            "Part of the time for which functions are watched",
            "1 unless a budget has reads and writes watched in windows only.",
            SHARE,
            (f"min by (function) (ssllatency_observed_ratio{{{_HOSTS}}})", "{{function}}"),
        ),
    ]


def _the_exporter() -> list[Any]:
    requests = _rate("ssllatency_otlp_requests_total", _HOSTS, "instance, result")
    return [
        lines(
            "Series",
            "Of each host's exposition, and those that had no room in it.",
            COUNT,
            (f"ssllatency_series{{{_HOSTS}}}", "{{instance}}"),
            (f"sum by (instance) (ssllatency_series_dropped_total{{{_HOSTS}}})", "{{instance}} dropped"),
            span=8,
        ),
        lines(
            "Time of a reading and of a scrape",
            "The first is the tracer's part of the second.",
            SECONDS,
            (f"ssllatency_reading_seconds{{{_HOSTS}}}", "{{instance}} reading"),
            (f'scrape_duration_seconds{{job="ssllatency", {_HOSTS}}}', "{{instance}} scrape"),
            span=8,
        ),
        lines(
            "Processes that are traced, and those that can't be",
            "By host.",
            COUNT,
            (f"sum by (instance) (ssllatency_targets{{{_HOSTS}}})", "{{instance}}"),
            (f"sum by (instance) (ssllatency_targets_refused_total{{{_HOSTS}}})", "{{instance}} refused"),
            span=8,
        ),
        lines(
            "OTLP",
            "Requests by result and points that were rejected; nothing where no receiver is set.",
            A_SECOND,
            (requests, "{{instance}} {{result}}"),
            (_rate("ssllatency_otlp_rejected_total", _HOSTS, "instance"), "{{instance}} points rejected"),
        ),
        lines(
            "Versions of ssllatency",
            "How many hosts have which, with which engine.",
            COUNT,
            (f"count by (version, engine) (ssllatency_build_info{{{_HOSTS}}})", "{{version}} {{engine}}"),
        ),
    ]


def dashboard() -> str:
    """The dashboard as JSON."""
    made = empty_dashboard("TLS latency", "ssllatency", _ABOUT)
    made = made.with_variable(variable("instance", "Host", "label_values(ssllatency_build_info, instance)", several=True))
    services = f"label_values(ssllatency_targets{{{_HOSTS}}}, service)"
    made = made.with_variable(variable("service", "Service", services, several=False))
    rows = (
        ("Services", _overview()),
        ("$service: where the time goes", _latency()),
        ("$service: what happens", _what_happens()),
        ("$service: the network and resumption", _network()),
        ("Private keys and offload", _offload()),
        ("What the exporter costs", _own_cost()),
    )
    numbers = count(1)
    for title, panels in rows:
        made = made.with_row(Row(title).id(next(numbers)))
        for panel in panels:
            made = made.with_panel(panel.id(next(numbers)))
    return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(made.build())), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m deploy.grafana.dashboard --write")
    FILE.write_text(dashboard())
