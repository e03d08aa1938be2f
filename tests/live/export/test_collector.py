# SPDX-License-Identifier: Apache-2.0
"""`ssllatency export` of a real nginx to a real OpenTelemetry Collector: counts and buckets, also when that was away."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from ssllatency.export.formats import otlp
from ssllatency.export.metrics.points import Point, Reading
from ssllatency.export.push.delivery import Again, Delivery, Refused
from ssllatency.export.push.settings import push_settings
from ssllatency.load.matrix.servers.process import free_ports
from tests.collector.server import collector, needed_collector
from tests.collector.sink import Sink, sink
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.export import Export
from tests.live.servers.nginx import Nginx, make_certificate
from tests.prometheus.programs import WITH_OTLP
from tests.prometheus.server import prometheus, scraping
from tests.waiting import wait_for

EACH = 20
DURATION = "ssllatency.handshake.duration"
_CLASSIC = re.compile(r'^ssllatency_handshake_duration_seconds_bucket\{.*le="(?P<le>[\d.]+)"\} (?P<count>\d+)$', re.MULTILINE)


@pytest.fixture
def taken() -> Iterator[Sink]:
    needed_collector()
    with sink() as made:
        yield made


def counts(taken: Sink) -> list[int]:
    """How many handshakes had succeeded by each request."""
    return [sum(point.count for _, point in points) for points in taken.points(DURATION, outcome="success")]


def below(point: Any, bound_s: float) -> int:
    """How many durations an exponential histogram has up to one of its bounds."""
    buckets, base = point.positive, 2 ** (2**-point.scale)
    bounds = (base ** (buckets.offset + number + 1) for number in range(len(buckets.bucket_counts)))
    sums = zip(bounds, accumulate(buckets.bucket_counts), strict=True)
    return point.zero_count + max((count for bound, count in sums if bound <= bound_s * 1.001), default=0)


@pytest.mark.usefixtures("tracing")
def test_counts_are_exact_also_when_the_collector_was_away(
    certificates: Path, taken: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    pair = make_certificate("ecdsa", certificates)
    tls = {"certificate": pair.certificate, "key": pair.key, "ca": pair.certificate}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"https://localhost:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(pair.certificate))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(pair.certificate))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(pair.key))
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1500")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    with Nginx(certificates) as server, Export(server.master_pid) as export:
        client = Client(server.port["rsa"], TLS_1_3)
        with collector(tmp_path, port, taken.url, **tls):
            client.connect_times(EACH)
            wait_for(lambda: counts(taken)[-1:] == [EACH])
        client.connect_times(EACH)
        wait_for(lambda: re.search(r'otlp_requests_total\{result="(failure|retry)"\} [1-9]', export.metrics()))
        with collector(tmp_path, port, taken.url, **tls):
            wait_for(lambda: counts(taken)[-1] == 2 * EACH)
            text = export.metrics()
            taken.requests.clear()
            wait_for(lambda: taken.requests)
        assert counts(taken)[-1] == 2 * EACH
        ((resource, point),) = taken.points(DURATION, outcome="success")[-1]
    assert (resource["service.name"], resource["deployment.environment"]) == ("nginx", "test")
    assert (point.scale, point.zero_count + sum(point.positive.bucket_counts)) == (4, 2 * EACH)
    assert point.start_time_unix_nano < point.time_unix_nano
    classic = {float(found["le"]): int(found["count"]) for found in _CLASSIC.finditer(text)}
    assert {bound: below(point, bound) for bound in classic} == classic
    assert set(classic.values()) != {2 * EACH}


@pytest.mark.prometheus_with_otlp
@pytest.mark.usefixtures("tracing")
def test_prometheus_gets_the_same_by_otlp_as_by_scraping(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
    configuration = scraping(f"127.0.0.1:{port}", {"web1": "/metrics"}, "1s", WITH_OTLP)
    with (
        Nginx(certificates) as server,
        prometheus(tmp_path, configuration, WITH_OTLP, ("--web.enable-otlp-receiver",)) as asked,
        Export(server.master_pid, options=("--otlp", f"{asked.url}/api/v1/otlp/v1/metrics"), port=port),
    ):
        Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
        ways = {"otlp": 'job="nginx"', "scrape": 'job="ssllatency"'}
        shakes = {way: f'ssllatency_handshake_duration_seconds{{outcome="success",{of}}}' for way, of in ways.items()}
        for name in shakes.values():
            asked.wait_for(lambda name=name: asked.value(f"histogram_count({name})") == EACH)
        for figure in ("histogram_sum({})", *(f"histogram_quantile({q}, {{}})" for q in (0.01, 0.5, 0.99))):
            found = {way: asked.value(figure.format(name)) for way, name in shakes.items()}
            assert found["otlp"] == pytest.approx(found["scrape"], rel=1e-9)
        ciphers = "sum by (tls_cipher) (ssllatency_handshake_ciphers_total{{{}}})"
        assert [asked.value(ciphers.format(of)) for of in ways.values()] == [EACH, EACH]


def test_what_the_collector_answers(taken: Sink, tmp_path: Path) -> None:
    """No tracing: one point, and whoever stands behind the Collector refuses it, or asks for it again."""
    (port,) = free_ports(1)
    points = (Point("ssllatency.targets", (("service", "a"),), 3, 1.0),)
    content = otlp.request(Reading("host", time.time(), points), {}).SerializeToString()
    with collector(tmp_path, port, taken.url):
        for number, compression in enumerate(("gzip", "none"), 1):
            settings = push_settings(f"http://127.0.0.1:{port}", {"OTEL_EXPORTER_OTLP_COMPRESSION": compression})
            assert settings
            delivery = Delivery(settings)
            assert delivery.send(content) == (0, "")
            assert [len(points) for points in taken.points("ssllatency.targets", service="a")] == [1] * number
        for status in (429, 502, 503, 504):
            taken.answers.append((status, {"Retry-After": "1"}))
            with pytest.raises(Again):
                delivery.send(content)
        taken.answers.append((400, {}))
        with pytest.raises(Refused, match=r"it answered 400 \(Permanent error: .*InvalidArgument"):
            delivery.send(content)
        with pytest.raises(Refused, match=r"it answered 400 \(\w.*\)"):
            delivery.send(b"\xff\xfe")
    assert len(taken.requests) == 2
