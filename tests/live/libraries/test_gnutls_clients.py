# SPDX-License-Identifier: Apache-2.0
"""Clients that link GnuTLS, from their first handshake on: as many as were made, and why those failed that they say did."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import programs
from tests.live.clients.accepting import accepting
from tests.live.clients.counted import TIMEOUT_S
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.servers.nginx import Certificate, make_certificate
from tests.live.servers.s_server import s_server

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 5
OPTIONS = ("--comm", "wget", "--comm", "gnutls-cli", "--wait", "--role", "client", "--by", "version,sni,alpn")
CLOSED = "connection reset or closed by the peer"
HANDSHAKE_FAILURE = b"\x15\x03\x03\x00\x02\x02\x28"
# What a server without TLS does instead of answering the ClientHello, the sentence in which GnuTLS says so, and our reason.
ANSWERS = {
    "alert": (HANDSHAKE_FAILURE, "A TLS fatal alert has been received.", "alert received: handshake failure"),
    "http": (b"HTTP/1.0 400 Bad Request\r\n\r\n", "An unexpected TLS packet was received.", "unexpected packet"),
    "end": (b"", "The TLS connection was non-properly terminated.", CLOSED),
    "reset": (None, "Error in the pull function.", CLOSED),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the server."""
    return make_certificate("ecdsa", tmp_path_factory.mktemp("certificates"))


@contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """A server that answers each ClientHello with this, and closes; with a reset where there is no answer. Its port."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        if answer is None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.sendall(answer)

    with accepting(serve) as port:
        yield port


def wget(port: int) -> str:
    """One request by wget; what it says."""
    command = [*programs.needed("wget"), "--no-check-certificate", "--tries=1", "-O", "-", f"https://localhost:{port}/"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S).stderr


def gnutls_cli(port: int, *options: str) -> str:
    """One connection by gnutls-cli; what it says."""
    command = [*programs.needed("gnutls-cli"), "--insecure", *options, "-p", str(port), "localhost"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    return done.stdout + done.stderr


def test_each_of_their_handshakes_counts_and_fails_as_they_say(pair: Certificate) -> None:
    said: Counter[str] = Counter()
    with s_server(pair, "-www") as server, Shakes(options=OPTIONS) as shakes:
        for _ in range(TIMES):
            assert "written to stdout" in wget(server.port)
        for version in ("1.2", "1.3"):
            priority = ("--priority", f"NORMAL:-VERS-ALL:+VERS-TLS{version}")
            assert "This is a resumed session" in gnutls_cli(server.port, *priority, "--resume")
        for answer, sentence, _ in ANSWERS.values():
            with answering(answer) as port:
                said[sentence] += sentence in wget(port)
    assert said == {sentence: 1 for _, sentence, _ in ANSWERS.values()}
    succeeded = shakes.ended("success")
    assert labels_of(succeeded, "version", "resumed") == [
        *[("TLSv1.3", "no")] * TIMES,
        *[("TLSv1.2", None)] * 2,  # which it tells by comparing sessions
        ("TLSv1.3", "no"),
        ("TLSv1.3", "yes"),
    ]
    assert set(labels_of(succeeded, "role", "sni", "alpn", "client_certificate")) == {("client", "localhost", "none", None)}
    assert len({single["pid"] for single in succeeded}) == TIMES + 2
    assert all(single["parts_ns"]["key_exchange"] > 0 for single in succeeded[:TIMES])
    failed = [single["reason"] for single in shakes.singles if single["ending"] != "success"]
    assert failed == [reason for _, _, reason in ANSWERS.values()]
    assert endings(shakes.document) == {"success": len(succeeded), "failure": 2, "abandoned": 2}
    assert_books(shakes)
