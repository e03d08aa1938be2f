# SPDX-License-Identifier: Apache-2.0
"""Expositions on loopback, as `ssllatency export` writes them, of readings that a test makes up: one path a host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ssllatency.export.metrics.points import Reading
from ssllatency.export.serve.negotiation import chosen
from tests.answering import answering


class _Quiet(ThreadingHTTPServer):
    """Says nothing of a Prometheus that ends in the middle of a scrape."""

    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def exporters(readings: Mapping[str, Callable[[], Reading]]) -> Iterator[str]:
    """Serves each path's readings; the address, as HOST:PORT."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            read = readings.get(self.path)
            if read is None:
                self.send_error(404)
                return
            content_type, render = chosen(self.headers.get("Accept", ""))
            body = b"".join(render(read()))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = _Quiet(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with answering(server):
        yield f"127.0.0.1:{server.server_address[1]}"
