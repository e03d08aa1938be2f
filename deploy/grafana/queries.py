# SPDX-License-Identifier: Apache-2.0
"""PromQL of what `ssllatency export` offers, for the panels of the dashboard."""

from __future__ import annotations

HOSTS = 'instance=~"$instance"'
SERVICE = f'{HOSTS}, service="$service"'
DURATION, CALLS = "ssllatency_handshake_duration_seconds", "ssllatency_handshake_calls_seconds"
QUEUE, CLIENT_WAIT = "ssllatency_handshake_queue_seconds", "ssllatency_handshake_client_wait_seconds"
PEER, SOCKETS = "ssllatency_handshake_peer_seconds", "ssllatency_handshake_sockets_total"
WINDOW = "[$__rate_interval]"
OF_HOSTS = "Counted for a host, so of all services on the hosts that are chosen."


def rate(metric: str, where: str, by: str = "") -> str:
    """What is added each second, in sum or by labels; of a histogram all buckets."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{where}}}{WINDOW}))"


def count(metric: str, where: str, by: str = "") -> str:
    """How many durations of a histogram each second."""
    return f"histogram_count({rate(metric, where, by)})"


def quantile(q: float, metric: str, where: str, by: str = "") -> str:
    """A quantile of a histogram's durations."""
    return f"histogram_quantile({q}, {rate(metric, where, by)})"


def parts(metric: str, by: str) -> str:
    """The time of each phase or wait in the mean successful handshake, also of those that didn't have it."""
    where = f'{SERVICE}, outcome="success"'
    return f"histogram_sum({rate(metric, where, by)}) / on () group_left () {count(DURATION, where)}"


def share(part: str, whole: str) -> str:
    """The share of a part in a whole."""
    return f"{part} / {whole}"


def of_all(parts: str, whole: str) -> str:
    """The share of each of several series in one."""
    return f"{parts} / on () group_left () {whole}"


def part_of(part: str, whole: str, by: str) -> str:
    """The share of handshakes that are of a part; 0 where there are others only."""
    counted = count(DURATION, whole, by)
    return f"({count(DURATION, part, by)} or {counted} * 0) / {counted}"


def failed(where: str, by: str) -> str:
    """The share that didn't succeed."""
    return part_of(f'{where}, outcome!="success"', where, by)


def resumed(where: str, by: str) -> str:
    """The share of the successful handshakes that were resumed."""
    good = f'{where}, outcome="success"'
    return part_of(f'{good}, tls_resumed="true"', f'{good}, tls_resumed=~"true|false"', by)
