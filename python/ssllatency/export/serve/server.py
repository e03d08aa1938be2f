# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: /metrics, /-/healthy, /-/ready. A thread for each of a bounded number of connections."""

from __future__ import annotations

import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from ssllatency import __version__
from ssllatency.data_class import dataclass
from ssllatency.engines.resources import trim_heap
from ssllatency.export.metrics.points import NoReading, Reading
from ssllatency.export.serve.ahead import Ahead
from ssllatency.export.serve.connections import IDLE_S, Connections
from ssllatency.export.serve.host_names import may_ask
from ssllatency.export.serve.negotiation import Render, chosen
from ssllatency.export.serve.passwords import Busy, Passwords

_APART_S = 0.1  # from an answer to the next on the same connection, however fast it asks
_TEXT = "text/plain; charset=utf-8"
_COMPRESSION, _GZIP = 1, zlib.MAX_WBITS | 16  # the quickest; with gzip's header
_BATCH = 1 << 16  # bytes that are sent at once
_LATER = ("Retry-After", "1")
_PAGE = "ssllatency: /metrics has the metrics, /-/healthy and /-/ready say how it is.\n"


@dataclass(frozen=True)
class ServedMetrics:
    """The metrics that are served: `read` gives the counts by now, or raises NoReading; `ready` says whether targets are
    traced. `headers` are sent with each answer."""

    read: Callable[[], Reading]
    ready: Callable[[], bool]
    passwords: Passwords | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Server(ThreadingHTTPServer):
    """Answers on a socket that listens, with TLS where there is a context for it. `serve_forever` until `shutdown`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, site: ServedMetrics, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(listener.getsockname()[:2], BaseHTTPRequestHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.site, self._tls = site, tls
        self.connections = Connections()
        self.connections.start()
        self.ahead = Ahead()
        self.ahead.start()
        self._rendering = Lock()
        self._rendered: dict[tuple[str, bool], tuple[Reading, Sequence[bytes]]] = {}
        self._is_trimmed = True

    def rendered(self, content_type: str, render: Render, *, compressed: bool) -> Sequence[bytes]:
        """The metrics by now in that format, in pieces: made once of each reading, whoever asks. They are never one text, as
        megabytes of new memory for each scrape take more than to write most of it. NoReading where there is none."""
        reading = self.site.read()
        with self._rendering:
            kept = self._rendered.get((content_type, compressed))
            if kept and kept[0] is reading:
                return kept[1]
            content = render(reading)
            if compressed:
                content = [b"".join(_compressed(content))]
            self._rendered = {key: kept for key, kept in self._rendered.items() if kept[0] is reading}
            self._rendered[content_type, compressed] = reading, content
            self._is_trimmed = False
        return content

    def trim(self) -> None:
        """To be called when an answer was sent: gives back the megabytes that were free after it had been made, which nobody
        needs until the next scrape. Once for each that was made."""
        with self._rendering:
            if not self._is_trimmed:
                trim_heap()
            self._is_trimmed = True

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for the connection."""
        return self.connections.admit(request, str(client_address[0]))

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread: a client that is slow in its handshake holds up nobody else."""
        request.settimeout(IDLE_S)
        if self._tls is None:
            Handler(request, client_address, self, request)
            return
        with suppress(OSError):
            # A duplicate keeps the descriptor that the connection is known by.
            wrapped = self._tls.wrap_socket(request.dup(), server_side=True)
            with wrapped:
                Handler(wrapped, client_address, self, request)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        self.connections.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: what clients do wrong is no news."""

    def server_close(self) -> None:
        """Frees the socket."""
        self.connections.stop()
        self.ahead.stop()
        super().server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection's requests."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"ssllatency/{__version__}"
    sys_version = ""
    wbufsize = -1

    def __init__(self, request: socket.socket, address: Any, server: Server, known_as: socket.socket) -> None:
        self._known_as = known_as
        self._answered_s = float("-inf")
        super().__init__(request, address, server)

    def handle_one_request(self) -> None:
        """A request counts as begun with its first byte."""
        connections = self.server.connections
        try:
            waits = not self.rfile.peek(1)  # type: ignore[attr-defined]
        except OSError:
            waits = True
        if waits:
            self.close_connection = True
            return
        connections.begin(self._known_as)
        super().handle_one_request()
        connections.rest(self._known_as)
        self._answered_s = time.monotonic()

    def do_GET(self) -> None:
        """Answers."""
        time.sleep(max(0.0, self._answered_s + _APART_S - time.monotonic()))
        site, may_scrape = self.server.site, self.server.connections.answer(self._known_as)
        if not may_ask(self.headers.get("Host", ""), str(self.server.server_address[0])):
            self._send(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, b"This isn't a name of this host's.\n")
            return
        try:
            admitted = not site.passwords or site.passwords.admit(self.headers.get("Authorization", ""))
        except Busy:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"Too many passwords are being checked.\n", _LATER)
            return
        if not admitted:
            self._send(HTTPStatus.UNAUTHORIZED, _TEXT, b"Unauthorized\n", ("WWW-Authenticate", "Basic"))
            return
        path = self.path.partition("?")[0]
        if path == "/metrics" and not may_scrape:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"Too many connections are being answered.\n", _LATER)
        elif path == "/metrics":
            self._send_metrics()
        elif path == "/-/ready" and not site.ready():
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"Not ready: nothing is traced yet.\n")
        elif path in ("/-/healthy", "/-/ready"):
            self._send(HTTPStatus.OK, _TEXT, b"OK\n")
        elif path == "/":
            self._send(HTTPStatus.OK, _TEXT, _PAGE.encode())
        else:
            self._send(HTTPStatus.NOT_FOUND, _TEXT, b"Not found\n")

    do_HEAD = do_GET

    def _send_metrics(self) -> None:
        content_type, render = chosen(self.headers.get("Accept", ""))
        compressed = "gzip" in self.headers.get("Accept-Encoding", "")
        make = partial(self.server.rendered, content_type, render, compressed=compressed)
        self.server.ahead.scraped(make)
        try:
            content = make()
        except NoReading as reason:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{reason}\n".encode())
            return
        self._send_pieces(HTTPStatus.OK, content_type, content, *([("Content-Encoding", "gzip")] if compressed else []))
        self.wfile.flush()
        del content
        self.server.trim()

    def _send(self, status: HTTPStatus, content_type: str, content: bytes, *headers: tuple[str, str]) -> None:
        self._send_pieces(status, content_type, (content,), *headers)

    def _send_pieces(self, status: HTTPStatus, content_type: str, content: Sequence[bytes], *headers: tuple[str, str]) -> None:
        self.send_response(status)
        length = sum(map(len, content))
        for name, value in (("Content-Type", content_type), ("Content-Length", str(length)), *headers):
            self.send_header(name, value)
        for name, value in self.server.site.headers:
            self.send_header(name, value)
        if self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding"):
            self.close_connection = True  # a body that nobody asked for isn't read
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            for batch in _batches(content):
                self.wfile.write(batch)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests aren't logged."""


def _batches(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """The pieces together, as much at a time as is sent at once, or what the largest has more."""
    batch, size = [], 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= _BATCH:
            yield b"".join(batch)
            batch, size = [], 0
    yield b"".join(batch)


def _compressed(pieces: Sequence[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(_COMPRESSION, wbits=_GZIP)
    for batch in _batches(pieces):
        yield compressor.compress(batch)
    yield compressor.flush()
