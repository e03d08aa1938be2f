# SPDX-License-Identifier: Apache-2.0
"""Handshakes that their server frees before they are over: whether the client had left, and whether its last bytes, an alert
that refuses the certificate for instance, ever came to the library. What SSL_get_error says of the server's last call is the
truth about the library, the order in which the two ends act about the rest."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_2, TLS_1_3
from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.servers.nginx import make_certificate

pytestmark = pytest.mark.usefixtures("tracing")

PROGRAM = Path(__file__).parents[1] / "servers" / "python" / "leaving_program.py"
SSL_ERROR_WANT_READ = 2
GONE, RESET = select.POLLRDHUP, select.POLLHUP


@dataclass(frozen=True)
class Act:
    """What a client does once it has the server's flight; `until`: how the server's socket shows that it has."""

    until: int
    alert: bool
    leaves: bool

    def known(self) -> tuple[bool, bool]:
        """What is to be said of it: whether the peer had left, and whether the library was never given its last bytes."""
        return self.leaves, self.alert


ACTS = {
    "refuses and closes": Act(GONE, alert=True, leaves=True),
    "refuses and resets": Act(RESET, alert=True, leaves=True),
    "closes": Act(GONE, alert=False, leaves=True),
    "resets": Act(RESET, alert=False, leaves=True),
    "refuses and stays": Act(select.POLLIN, alert=True, leaves=False),
    "stays": Act(0, alert=False, leaves=False),
}


class LeavingServer:
    """leaving_program.py, from `with` to the end of the block."""

    def __init__(self, certificates: Path) -> None:
        pair = make_certificate("ecdsa", certificates)
        settings = {"certificate": str(pair.certificate), "key": str(pair.key)}
        self._command = [sys.executable, PROGRAM, json.dumps(settings)]

    def __enter__(self) -> LeavingServer:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid, self.port = self._process.pid, int(self.line())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def serve(self, **order: int) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()

    def line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


@contextlib.contextmanager
def acting(server: LeavingServer, version: ssl.TLSVersion, act: Act) -> Iterator[None]:
    """A client that doesn't trust the server, up to where it has acted; one that stays is there until the end of the block."""
    context = ssl.create_default_context()
    context.minimum_version = context.maximum_version = version
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(received, sent, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        connection.sendall(sent.read())
        assert server.line() == "answered"
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(tls, connection, received)
        if act.alert:
            connection.sendall(sent.read())
        if act.until == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if act.leaves:
            connection.close()
        yield


def shake(tls: ssl.SSLObject, connection: socket.socket, received: ssl.MemoryBIO) -> None:
    while True:
        try:
            return tls.do_handshake()
        except ssl.SSLWantReadError:
            received.write(connection.recv(65536))


def one_freed(
    server: LeavingServer, version: ssl.TLSVersion, act: Act, *, reads: bool, closes_first: bool, by_hand: bool = False
) -> None:
    server.serve(until=act.until, reads=reads and act.until, closes_first=closes_first, takes_another=0, by_hand=by_hand)
    with acting(server, version, act):
        assert server.line() == str(SSL_ERROR_WANT_READ)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_a_server_that_frees_says_whether_its_client_had_left(certificates: Path, version: ssl.TLSVersion) -> None:
    due: Counter[tuple[bool, bool]] = Counter()
    with LeavingServer(certificates) as server, Shakes(server.pid) as shakes:
        for act, reads, closes_first in product(ACTS.values(), (False, True), (False, True)):
            one_freed(server, version, act, reads=reads, closes_first=closes_first)
            due[act.known()] += 1
    assert endings(shakes.document) == {"abandoned": due.total()}
    causes = shakes.document["handshakes"]["causes"]
    assert {(cause["reason"], cause["alert"]) for cause in causes} == {("freed", "")}
    assert {(cause["peer_left"], cause["undelivered"]): cause["count"] for cause in causes} == due
    assert Counter((single["peer_left"], single["undelivered"]) for single in shakes.singles) == due
    assert_books(shakes)


def test_a_socket_that_is_another_connections_by_then_does_not_speak_for_it(certificates: Path) -> None:
    """The descriptor surely is, and the kernel's own socket often: then nothing is known, or what was noted before that. Those
    that have taken its place are open, and have sent nothing."""
    acts = [act for act in ACTS.values() if act.leaves] * 5
    due: Counter[tuple[bool, bool]] = Counter()
    with LeavingServer(certificates) as server, Shakes(server.pid) as shakes, contextlib.ExitStack() as open_ones:
        for act in acts:
            server.serve(until=act.until, reads=0, closes_first=1, takes_another=1, by_hand=0)
            with acting(server, TLS_1_3, act):
                open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                assert server.line() == str(SSL_ERROR_WANT_READ)
            due[act.known()] += 1
    assert endings(shakes.document) == {"abandoned": due.total()}
    told = Counter((single["peer_left"], single["undelivered"]) for single in shakes.singles if "peer_left" in single)
    assert told <= due
    assert_books(shakes)


def test_a_server_that_moves_the_bytes_itself_says_no_less(certificates: Path) -> None:
    """Its sockets are known once the trace looks at what threads read: of those before that, nothing is said."""
    acts = list(product(ACTS.values(), (False, True)))
    with LeavingServer(certificates) as server, Shakes(server.pid) as shakes:
        while not shakes.printed('"peer_left"'):
            one_freed(server, TLS_1_3, ACTS["closes"], reads=False, closes_first=False, by_hand=True)
            time.sleep(0.02)
        for act, closes_first in acts:
            one_freed(server, TLS_1_3, act, reads=False, closes_first=closes_first, by_hand=True)
    known = [(single["peer_left"], single["undelivered"]) for single in shakes.singles if "peer_left" in single]
    assert known[-len(acts) :] == [act.known() for act, _ in acts]
    assert set(known[: -len(acts)]) == {ACTS["closes"].known()}
    assert_books(shakes)
