# SPDX-License-Identifier: Apache-2.0
"""Metrics sent to a receiver on loopback: what it gets, when it gets it again, and what it says of it."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from tests.answering import answering

from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import Point, Reading
from ssllatency.export.push.delivery import Again, Delivery, Refused, seconds_after
from ssllatency.export.push.pusher import Pusher
from ssllatency.export.push.settings import PushSettings, push_settings

READING = Reading("host", 60.0, (Point("ssllatency.targets", (("service", "a"),), 3, 0.0),))


@dataclass
class Receiver:
    """What has come, and the answers that are still to be given; 200 without a body once they are used up."""

    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    port: int = 0


@contextmanager
def receiver(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[Receiver]:
    found = Receiver(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.paths.append(self.path)
            found.headers.append(dict(self.headers))
            found.requests.append(ExportMetricsServiceRequest.FromString(body))
            status, headers, content = found.answers.pop(0) if found.answers else (200, {}, b"")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    with answering(server):
        yield found


def settings(port: int, environment: dict[str, str] | None = None) -> PushSettings:
    made = push_settings(f"http://127.0.0.1:{port}/v1/metrics", environment or {})
    assert made
    return made


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def pusher(made: PushSettings, clock: Clock, *readings: Reading) -> Pusher:
    left = list(readings)
    return Pusher(made, Delivery(made), lambda: left.pop(0) if left else READING, clock.sleep, lambda: clock.now)


def attributes(of: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in of.attributes}


def test_a_reading_arrives_with_headers_and_resource() -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, tenant=a",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test,team=a%2Cb",
    }
    with receiver() as found:
        assert pusher(settings(found.port, environment), Clock()).push_once(60)
    (headers,), (request,) = found.headers, found.requests
    assert found.paths == ["/v1/metrics"]
    assert (headers["authorization"], headers["tenant"], headers["Content-Encoding"]) == ("Bearer x", "a", "gzip")
    assert headers["Content-Type"] == "application/x-protobuf"
    resource = attributes(request.resource_metrics[0].resource)
    assert (resource["service.name"], resource["deployment.environment"], resource["team"]) == ("a", "test", "a,b")


def test_it_is_sent_again_while_the_receiver_asks_for_that() -> None:
    busy = (503, {"Retry-After": "7"}, b"")
    clock = Clock()
    with receiver(busy, (429, {}, b""), (502, {}, b"")) as found:
        sender = pusher(settings(found.port), clock)
        assert sender.push_once(600)
    assert len(found.requests) == 4
    assert found.requests[0] == found.requests[3]  # the counts of that moment, once
    assert sender.counted.requests == {"success": 1, "retry": 3, "failure": 0}
    assert clock.slept[0] == 7
    assert clock.slept[2] > 0


def test_it_is_given_up_when_the_next_reading_is_due() -> None:
    clock = Clock()
    with receiver(*[(503, {"Retry-After": "40"}, b"")] * 5) as found:
        sender = pusher(settings(found.port), clock)
        assert not sender.push_once(60)
    assert (len(found.requests), sender.counted.requests["failure"]) == (2, 1)


def test_what_is_refused_is_not_sent_again(capfd: pytest.CaptureFixture[str]) -> None:
    with receiver((400, {}, b"bad \x1b[2J metrics\n")) as found:
        sender = pusher(settings(found.port), Clock())
        assert not sender.push_once(60)
    assert (len(found.requests), sender.counted.requests) == (1, {"success": 0, "retry": 0, "failure": 1})
    said = capfd.readouterr().err
    assert "it answered 400 (bad ?[2J metrics)" in said


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"\x08\x03\x12\x09too \x1bmany\x1a\x02\x0a\x00", "too ?many"), (b"\x12\x7fcut", ""), (b"", "")],
)
def test_a_refusal_is_told_in_the_words_of_its_status(body: bytes, words: str) -> None:
    with receiver((400, {"Content-Type": "application/x-protobuf"}, body)) as found, pytest.raises(Refused) as caught:
        Delivery(settings(found.port)).send(b"")
    assert str(caught.value) == f"it answered 400 ({words})"


def test_partial_success_is_counted_and_exported(capfd: pytest.CaptureFixture[str]) -> None:
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points, answer.partial_success.error_message = 5, "too old"
    with receiver((200, {}, answer.SerializeToString()), (200, {}, b"\xff\xff")) as found:
        sender = pusher(settings(found.port), Clock())
        assert sender.push_once(60)
        assert sender.push_once(60)
    assert sender.counted.rejected == 5
    assert "it rejected 5 data points (too old)" in capfd.readouterr().err
    points = {
        metric.name: metric.sum.data_points
        for resource in found.requests[1].resource_metrics
        for metric in resource.scope_metrics[0].metrics
    }
    assert points["ssllatency.otlp.rejected"][0].as_int == 5


def test_a_series_that_ends_is_told_once() -> None:
    gone = replace(READING, points=())
    with receiver((500, {}, b"")) as found:
        sender = pusher(settings(found.port), Clock(), READING, READING, gone, gone)
        assert [sender.push_once(60) for _ in range(4)] == [False, True, True, True]
    told = [
        [
            point.flags
            for resource in request.resource_metrics
            for metric in resource.scope_metrics[0].metrics
            if metric.name == "ssllatency.targets"
            for point in metric.gauge.data_points
        ]
        for request in found.requests
    ]
    assert told == [[0], [0], [1], []]


def test_no_receiver_is_tried_again() -> None:
    with receiver() as found:
        port = found.port
    with pytest.raises(Again):
        Delivery(settings(port)).send(b"")


def test_a_stranger_with_tls_is_refused() -> None:
    with receiver() as found:
        made = replace(settings(found.port), scheme="https")
        with pytest.raises((Again, Refused)):
            Delivery(made).send(b"")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("", 0.0), ("-1", 0.0), ("x", 0.0), ("99999999999", 300.0), ("1 Dec 0088888888888888 3:9 GMT", 0.0)],
)
def test_how_long_to_wait(text: str, seconds: float) -> None:
    assert seconds_after(text) == seconds
    assert seconds_after("Wed, 21 Oct 2065 07:28:00 GMT") == 300.0
    assert seconds_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


def test_the_environment_names_the_receiver() -> None:
    base = push_settings("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"})
    assert base
    assert base.shown == "http://collector:4318/v1/metrics"
    both = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://b/x?key=secret"}
    of_metrics = push_settings("", both)
    assert of_metrics
    assert (of_metrics.shown, of_metrics.path) == ("https://b:443/x", "/x?key=secret")
    assert push_settings("", {}) is None
    timed = push_settings("http://a", {"OTEL_EXPORTER_OTLP_TIMEOUT": "2500", "OTEL_METRIC_EXPORT_INTERVAL": "15000"})
    assert timed
    assert (timed.timeout_s, timed.interval_s, timed.path) == (2.5, 15.0, "/v1/metrics")


WRONG = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
    "OTEL_METRIC_EXPORT_INTERVAL": "0",
    "OTEL_EXPORTER_OTLP_HEADERS": "no pair",
    "OTEL_RESOURCE_ATTRIBUTES": "=x",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "a=b%0d%0ac",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_done_is_said(name: str) -> None:
    with pytest.raises(SsllatencyError, match="OTEL_") as caught:
        push_settings("http://a/v1/metrics", {name: WRONG[name]})
    assert caught.value.status == 2


@pytest.mark.parametrize("url", ["ftp://a", "a:4318", "http://", "http://u:p@a/", "http://a:99999/", "http://[/"])
def test_what_is_no_url_is_said(url: str) -> None:
    with pytest.raises(SsllatencyError, match="isn't the URL"):
        push_settings(url, {})


@pytest.mark.parametrize(
    "piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: y\r\n"], ids=["continues", "drips"]
)
def test_an_answer_without_end_is_given_up_in_time(piece: bytes) -> None:
    """Each piece comes in time; all of it never does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(piece)
                    while True:
                        connection.sendall(piece if b"100" in piece else b"X")
                        time.sleep(0.02)

        Thread(target=drip, daemon=True).start()
        made = replace(settings(listener.getsockname()[1]), timeout_s=0.5)
        with pytest.raises(Again, match=r"no answer \("):
            Delivery(made).send(b"")
