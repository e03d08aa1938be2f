# SPDX-License-Identifier: Apache-2.0
"""Servers whose sockets block: a handshake is one call, and what the client takes within it is still the client's."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.clients.slow import PAUSE_S, slow, slow_to_read
from tests.live.commands.handshakes import Shake, Shakes, assert_books, endings, for_peer_ns, split
from tests.live.handshakes.test_odd import shaker  # noqa: F401 - a fixture
from tests.live.servers.debian import apache
from tests.live.servers.nginx import make_certificate
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.live.victims.obedient import with_certificate

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 8
SLEPT = 3  # handshakes that sleep until what they wait for is watched
NAP_NS = 20_000_000  # of shaker.c
POLL_S = 1.0  # at most, between two looks at what was counted

HTTP_SERVER = """
import http.server, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(*sys.argv[1:])
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextmanager
def http_server(certificates: Path) -> Iterator[tuple[int, int]]:
    """Python's http.server, which answers one client after the other: its PID and port."""
    pair = make_certificate("rsa", certificates)
    command = [sys.executable, "-c", HTTP_SERVER, str(pair.certificate), str(pair.key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def assert_waits_for(shakes: Shakes) -> None:
    """Each of the clients was slow, and that is told as a wait for the peer and not as the server's own time."""
    assert endings(shakes.document) == {"success": TIMES}
    assert shakes.document["handshakes"]["slept"] == 0
    for single in shakes.singles:
        assert_waited(single)
    assert_books(shakes)


def assert_waited(single: Shake) -> None:
    """Most of its time is the peer's."""
    parts = single["parts_ns"]
    assert parts["calls"] == parts["wall"] - for_peer_ns(single) - parts.get("queue_server", 0)
    assert parts["calls"] + parts.get("queue_server", 0) < for_peer_ns(single)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_a_slow_client_of_http_server(certificates: Path, version) -> None:  # type: ignore[no-untyped-def]
    with http_server(certificates) as (pid, port), Shakes(pid) as shakes:
        answers = [slow(version, port) for _ in range(TIMES)]
    assert all(answer.startswith(b"HTTP/1.0 501") for answer in answers)
    assert {single["calls"] for single in shakes.singles} == {1}
    assert_waits_for(shakes)


def test_a_slow_client_of_apache(certificates: Path) -> None:
    """Its listeners don't block, and its BIO polls: what it waits for is watched once a few handshakes were seen to sleep, and
    how many slept before is told."""
    with apache(make_certificate("rsa", certificates)) as server, Shakes(server.pid) as shakes:
        for _ in range(SLEPT):
            assert b" 200 OK" in slow(TLS_1_3, server.port)
        time.sleep(2 * POLL_S)
        answers = [slow(TLS_1_3, server.port) for _ in range(TIMES)]
    assert all(b" 200 OK" in answer for answer in answers)
    assert shakes.document["handshakes"]["slept"] == SLEPT
    assert endings(shakes.document) == {"success": SLEPT + TIMES}
    for single in shakes.singles[SLEPT:]:
        assert_waited(single)
    assert_books(shakes)


def test_what_follows_a_blocking_handshake_meets_no_probe(certificates: Path) -> None:
    """What a handshake reads and writes is watched, and not what the application does."""
    pair, hits, more = make_certificate("rsa", certificates), [], 50
    with apache(pair) as server:
        for requests in (1, 1 + more):
            with Shakes(server.pid) as shakes:
                for _ in range(SLEPT):
                    slow(TLS_1_3, server.port)
                time.sleep(2 * POLL_S)
                Client(server.port, TLS_1_3).connect(requests=requests)
            assert endings(shakes.document) == {"success": SLEPT + 1}
            hits.append(shakes.document["cost"]["hits"])
    assert abs(hits[1] - hits[0]) < more


def test_time_off_the_processor_is_that_of_the_calls(certificates: Path) -> None:
    """What is waited for the peer isn't in it."""
    with TlsServer(certificates, TlsSettings(timeout_s=0)) as server, Shakes(server.pid) as shakes:
        for _ in range(TIMES):
            slow(TLS_1_3, server.port)
        assert server.ends() == {"": TIMES}
    assert_waits_for(shakes)
    assert split(shakes.singles)
    assert all(single["parts_ns"].get("off_cpu", 0) < for_peer_ns(single) for single in split(shakes.singles))


def test_writes_that_sleep_for_something_else_are_the_servers_own(
    tmp_path: Path,
    shaker: Path,  # noqa: F811
) -> None:
    """There is room for all that is written, so it isn't the peer that they wait for. The certificates don't fit into the
    library's own buffer."""
    pair = make_certificate("ecdsa", tmp_path)
    pair.certificate.write_bytes(pair.certificate.read_bytes() * 12)
    with with_certificate(shaker, tmp_path) as (pid, do):
        do("listen 1")
        with Shakes(pid) as shakes:
            do(f"drag {TIMES}")
    assert endings(shakes.document) == {"success": TIMES}
    for single in shakes.singles:
        assert "wait_window" not in single["parts_ns"]
        assert single["parts_ns"]["rest_asleep"] >= NAP_NS
    assert_books(shakes)


def test_a_client_that_does_not_read_keeps_a_blocking_server_waiting(tmp_path: Path) -> None:
    """The server's certificates don't fit into the buffers between the two, so that its write waits for room."""
    pair = make_certificate("rsa", tmp_path)
    pair.certificate.write_bytes(pair.certificate.read_bytes() * 40)
    with TlsServer(tmp_path, TlsSettings(timeout_s=0, send_buffer=4608)) as server, Shakes(server.pid) as shakes:
        for _ in range(TIMES):
            slow_to_read(TLS_1_3, server.port)
        assert server.ends() == {"": TIMES}
    assert endings(shakes.document) == {"success": TIMES}
    for single in shakes.singles:
        assert PAUSE_S * 1e9 / 2 < single["parts_ns"]["wait_window"] < single["parts_ns"]["wall"]
    assert_books(shakes)


def test_what_a_callback_waits_for_is_its_own(certificates: Path) -> None:
    """The client is not to blame for what the application asks elsewhere, though that is on a socket, too."""
    nap_s = 0.03
    with TlsServer(certificates, TlsSettings(timeout_s=0, ask_s=nap_s)) as server, Shakes(server.pid) as shakes:
        Client(server.port, TLS_1_3).connect_times(TIMES)
        assert server.ends() == {"": TIMES}
    assert endings(shakes.document) == {"success": TIMES}
    assert all(single["parts_ns"]["callbacks"] >= nap_s * 1e9 for single in shakes.singles)
    assert_books(shakes)


def test_what_sleeps_for_something_else_is_no_wait_for_the_peer(certificates: Path, shaker: Path) -> None:  # noqa: F811
    """Calls come back to wait, and a callback sleeps in one of them: nothing is said to be unknown."""
    with with_certificate(shaker, certificates) as (pid, do), Shakes(pid) as shakes:
        do(f"staple {TIMES}")
    assert endings(shakes.document) == {"success": TIMES}
    assert shakes.document["handshakes"]["slept"] == 0
    assert_books(shakes)


def test_reads_that_sleep_for_something_else_are_the_servers_own(
    certificates: Path,
    shaker: Path,  # noqa: F811
) -> None:
    """Where there is nothing to read they come back at once, so it isn't the client that the others wait for."""
    with with_certificate(shaker, certificates) as (pid, do):
        do("listen 1")
        with Shakes(pid) as shakes:
            do(f"stall {TIMES}")
    assert endings(shakes.document) == {"success": TIMES}
    for single in shakes.singles:
        assert single["parts_ns"]["rest"] >= NAP_NS
        assert single["parts_ns"]["rest_asleep"] >= NAP_NS
    assert split(shakes.singles) == list(shakes.singles)
    assert_books(shakes)


def test_sockets_that_do_not_block_wait_between_calls(certificates: Path) -> None:
    """The same client of the same program with a time limit: Python polls between calls."""
    with TlsServer(certificates) as server, Shakes(server.pid) as shakes:
        for _ in range(TIMES):
            slow(TLS_1_3, server.port)
        assert server.ends() == {"": TIMES}
    assert all(single["calls"] > 1 for single in shakes.singles)
    assert_waits_for(shakes)
