# SPDX-License-Identifier: Apache-2.0
"""The server with TLS against clients that don't finish their handshakes, or begin others."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.answering import answering
from tests.waiting import wait_for

from ssllatency.export.metrics.points import Point, Reading
from ssllatency.export.serve import connections
from ssllatency.export.serve.connections import IDLE_S, Connections
from ssllatency.export.serve.server import ServedMetrics, Server
from ssllatency.export.serve.web_config import read
from ssllatency.load.matrix.servers.certificates import make_certificate

READING = Reading("host", 60.0, (Point("ssllatency.targets", (("service", "a"),), 3, 0.0),))
HANDSHAKE, CLIENT_HELLO, LARGEST_RECORD = 0x16, 1, 1 << 14


@pytest.fixture
def server_context(tmp_path: Path) -> ssl.SSLContext:
    made = make_certificate("ECDSA-P-256", tmp_path, "server")
    (tmp_path / "web.yml").write_text(f"tls_server_config: {{cert_file: {made.certificate}, key_file: {made.key}}}\n")
    context = read(str(tmp_path / "web.yml")).tls
    assert context
    return context


@contextmanager
def served(context: ssl.SSLContext) -> Iterator[Server]:
    server = Server(socket.create_server(("127.0.0.1", 0)), ServedMetrics(lambda: READING, lambda: True), context)
    with answering(server):
        yield server


def connected(server: Server) -> socket.socket:
    return socket.create_connection(server.server_address[:2], timeout=20)


def status(server: Server) -> bytes:
    """The first line of the answer to one who shakes hands and asks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connected(server) as plain, context.wrap_socket(plain) as tls:
        tls.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return tls.recv(100).partition(b"\r\n")[0]


def record(content: bytes) -> bytes:
    return struct.pack(">BHH", HANDSHAKE, 0x0301, len(content)) + content


def hello_of(length: int) -> bytes:
    """The header of a ClientHello that is to be so long."""
    return bytes([CLIENT_HELLO]) + length.to_bytes(3, "big")


def test_handshakes_that_have_begun_keep_nobody_out(server_context: ssl.SSLContext) -> None:
    """More of them than anyone may have connections: those that have waited longest make room."""
    with served(server_context) as server:
        begun = [connected(server) for _ in range(40)]
        for one in begun[-server.connections.share :]:
            one.sendall(record(hello_of(500))[:-1])
        assert [status(server) for _ in range(20)] == [b"HTTP/1.1 200 OK"] * 20
        assert server.connections.number <= server.connections.share
        for one in begun:
            one.close()


def test_a_handshake_that_goes_on_and_on_is_ended(server_context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.2)
    with served(server_context) as server, connected(server) as slow:
        slow.sendall(record(hello_of(500)))
        slow.sendall(record(bytes(1)))
        assert slow.recv(100) == b""
        wait_for(lambda: server.connections.number == 0)


@pytest.mark.parametrize("length", [1 << 18, (1 << 24) - 1])
def test_a_client_hello_beyond_all_bounds_is_refused_by_its_length(server_context: ssl.SSLContext, length: int) -> None:
    """Before any of it is kept."""
    with served(server_context) as server, connected(server) as plain:
        plain.sendall(record(hello_of(length) + bytes(1000)))
        alert = plain.recv(100)
        assert alert[:1] == b"\x15"
        assert status(server) == b"HTTP/1.1 200 OK"


def test_clients_cannot_have_the_handshake_made_again(server_context: ssl.SSLContext) -> None:
    assert server_context.options & ssl.OP_NO_RENEGOTIATION


def test_nobody_rests_for_ever_who_sends_something_that_is_no_request() -> None:
    """As updates of keys, with which a client may keep the library busy without a byte for us."""
    now_s = [0.0]
    kept = Connections(clock=lambda: now_s[0])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert kept.admit(ours, "192.0.2.1")
        kept.answer(ours)
        kept.rest(ours)
        now_s[0] += IDLE_S - 1
        kept.end_slow()
        assert kept.number == 1
        now_s[0] += 2
        kept.end_slow()
        assert kept.number == 0
        assert theirs.recv(1) == b""
