# SPDX-License-Identifier: Apache-2.0
"""Takes metrics by OTLP over HTTP, on loopback, and keeps them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.answering import answering

Answer = tuple[int, dict[str, str]]


@dataclass
class Sink:
    """The requests that were taken, and the answers that are still to be given; 200 once they are used up."""

    url: str = ""
    requests: list[Any] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def points(self, name: str, **attributes: str) -> list[list[tuple[dict[str, str], Any]]]:
        """Of each request the points of the metric that have these attributes, with those of their resource."""
        return [list(_points(request, name, attributes)) for request in list(self.requests)]


def _points(request: Any, name: str, wanted: dict[str, str]) -> Iterator[tuple[dict[str, str], Any]]:
    for of_resource in request.resource_metrics:
        for scope in of_resource.scope_metrics:
            for metric in scope.metrics:
                points = getattr(metric, metric.WhichOneof("data")).data_points if metric.name == name else ()
                for point in points:
                    if wanted.items() <= _texts(point).items():
                        yield _texts(of_resource.resource), point


def _texts(of: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in of.attributes}


@contextmanager
def sink() -> Iterator[Sink]:
    """One on a free port."""
    kept = Sink()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status, headers = kept.answers.pop(0) if kept.answers else (200, {})
            if status == 200:
                kept.requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    with answering(server):
        yield kept
