# SPDX-License-Identifier: Apache-2.0
"""One process with two libraries: a server of crypto/tls that has a port of OpenSSL as well, by cgo. Each handshake and each
call is its own library's, at the same time as the other's, and within it."""

from __future__ import annotations

import json
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, labels_of
from tests.live.commands.trace import Trace, count, losses
from tests.live.go.test_go import BUILT
from tests.live.servers.nginx import Certificate, make_certificate
from tests.machine import leave_out

pytestmark = pytest.mark.usefixtures("tracing")
EACH, REQUESTS = 10, 3
FAILING: tuple[Callable[[int], object], ...] = (bad.unknown_ca, bad.nonsense, bad.end_of_file)
CALLS = {"Go": ("tls.Conn.Read", "tls.Conn.Write"), "OpenSSL": ("SSL_read", "SSL_write")}


class Server:
    """The program, and its ports by library."""

    def __init__(self, pair: Certificate) -> None:
        if not (BUILT / "openssl").is_file():
            leave_out("run tools/for-tests/setup-go openssl")
        words = [BUILT / "openssl", pair.certificate, pair.key]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        assert self._process.stdout
        self.ports: dict[str, int] = json.loads(self._process.stdout.readline())

    def end(self) -> dict[str, int]:
        """Ends it; the handshakes that it has counted, by library and side."""
        said, _ = self._process.communicate(timeout=20)
        assert self._process.returncode == 0
        counted: dict[str, int] = json.loads(said)
        return counted

    def kill(self) -> None:
        """Ends it where it hasn't ended."""
        self._process.kill()
        self._process.wait()


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """The server, until the end of the block."""
    server = Server(make_certificate("ecdsa", folder))
    try:
        yield server
    finally:
        server.kill()


def connect(port: int) -> None:
    """Connections of both versions, and some that fail."""
    for version in (TLS_1_2, TLS_1_3):
        Client(port, version).connect_times(EACH, requests=REQUESTS)
    for fail in FAILING:
        fail(port)


def connect_nested(port: int) -> None:
    """One for which the server connects to its other port within the handshake."""
    with bad.context().wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="nested.test") as tls:
        tls.unwrap()


def test_handshakes_and_calls_of_both_libraries_are_counted(certificates: Path) -> None:
    with serving(certificates) as server:
        every = ("--role", "any")
        with Trace(server.pid, options=every) as trace, Shakes(server.pid, options=(*every, "--by", "role,port")) as shakes:
            with ThreadPoolExecutor() as pool:
                list(pool.map(connect, server.ports.values()))
            for _ in range(EACH):
                connect_nested(server.ports["Go"])
        own = server.end()
    libraries = {str(port): library for library, port in server.ports.items()}
    seen = Counter(
        f"{libraries[port or '']} {role}{'' if single['ending'] == 'success' else ' failed'}"
        for single, (role, port) in zip(shakes.singles, labels_of(shakes.singles, "role", "port"), strict=True)
    )
    assert seen == own
    assert own["Go server"] == own["OpenSSL server"] == 3 * EACH
    assert own["OpenSSL client"] == EACH
    for names in CALLS.values():
        assert [count(trace.document, name) for name in names] == [2 * EACH * REQUESTS] * len(names)
    assert losses(shakes.document) == losses(trace.document) == {}
    uses = Counter({(use["operation"], use["key"]): use["count"] for use in shakes.document["handshakes"]["keys"]})
    assert uses == {("sign", "ECDSA P-256"): own["Go server"] + own["OpenSSL server"]}
