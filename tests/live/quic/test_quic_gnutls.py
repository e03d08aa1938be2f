# SPDX-License-Identifier: Apache-2.0
"""A client of HTTP/3 by GnuTLS, Debian 12's gtlsclient, against Debian 13's haproxy."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import foreign, machine
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.libraries.test_quic import root
from tests.live.servers.debian import frontend_of_haproxy
from tests.live.servers.roots import haproxy_of
from tests.live.victims.obedient import Obedient, obedient

__all__ = ["root"]  # a fixture
pytestmark = pytest.mark.usefixtures("tracing")

TIMES, UNANSWERED = 8, 2


@contextmanager
def shell(libraries: Path) -> Iterator[Obedient]:
    """One that runs each line as a command. It maps GnuTLS, so that this is known before a client is started."""
    run = 'echo ready; while read -r line; do eval "$line" >/dev/null 2>&1; echo done; done'
    with obedient("env", f"LD_LIBRARY_PATH={libraries}", "LD_PRELOAD=libgnutls.so.30", "sh", "-c", run) as found:
        yield found


def test_handshakes_of_a_gnutls_client_over_quic(certificates: Path, root: Path) -> None:
    """Each counts once, as the server counts them, and waits for its peer: for no window, though GnuTLS says so."""
    machine.needs_architecture("x86_64", "as this program of Debian is")
    client = foreign.needed(foreign.find("gtlsclient"))
    with (
        haproxy_of(root, certificates, "ecdsa") as (_, port, statistics),
        shell(client.parents[1] / "lib" / "x86_64-linux-gnu") as (parent, do),
        Shakes(parent, options=("--role", "client", "--by", "alpn,port,peer")) as shakes,
    ):
        for _ in range(TIMES):
            do(f"timeout 20 {client} -q --exit-on-all-streams-close 127.0.0.1 {port} https://localhost:{port}/")
        told = frontend_of_haproxy(statistics)
    assert endings(shakes.document) == {"success": int(told["h3sess"])} == {"success": TIMES}
    labels = ("role", "version", "cipher", "group", "alpn", "port", "peer")
    due = ("client", "TLSv1.3", "TLS_AES_256_GCM_SHA384", "x25519", "h3", None, None)
    assert Counter(labels_of(shakes.singles, *labels)) == {due: TIMES}
    assert len({single["pid"] for single in shakes.singles}) == TIMES
    for single in shakes.singles:
        assert {part for part in single["parts_ns"] if part.startswith(("wait", "queue"))} == {"wait_peer_or_server"}
        assert {"key_exchange", "peer_verification"} <= single["parts_ns"].keys()
    assert_books(shakes)


def test_handshakes_that_nobody_answers_wait_for_their_peer() -> None:
    """Though they end before a protocol is agreed on: GnuTLS shows which sessions take its messages for QUIC."""
    machine.needs_architecture("x86_64", "as this program of Debian is")
    client = foreign.needed(foreign.find("gtlsclient"))
    with (
        socket.socket(type=socket.SOCK_DGRAM) as silent,
        shell(client.parents[1] / "lib" / "x86_64-linux-gnu") as (parent, do),
        Shakes(parent, options=("--role", "client")) as shakes,
    ):
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        for _ in range(UNANSWERED):
            do(f"timeout 20 {client} -q --handshake-timeout=1s 127.0.0.1 {port} https://localhost:{port}/")
    assert endings(shakes.document) == {"abandoned": UNANSWERED}
    for single in shakes.singles:
        assert {part for part in single["parts_ns"] if part.startswith(("wait", "queue"))} == {"wait_peer_or_server"}
    assert_books(shakes)
