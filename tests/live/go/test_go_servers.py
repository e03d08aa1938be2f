# SPDX-License-Identifier: Apache-2.0
"""Real programs of Go, stripped: Caddy, which takes a new configuration without a new process, OAuth2 Proxy, CoreDNS, and etcd,
a server of gRPC."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.foreign import TOP
from tests.live.clients import bad
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3, Client, h2load
from tests.live.commands.handshakes import Shakes, endings, labels_of
from tests.live.commands.trace import losses
from tests.live.go.servers import NEWEST, Caddy, caddy, coredns, etcd, oauth2_proxy
from tests.live.servers.nginx import Certificate, make_certificate
from tests.machine import needs_architecture, tells_receives
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

EACH, PARALLEL = 10, 8
NAME = b"\x07example\x03org\x00"
QUESTION = bytes.fromhex("0000 0100 0001 0000 0000 0000") + NAME + bytes.fromhex("0001 0001")  # for an address
CADDIES = ["bookworm", "trixie", *([NEWEST] if (TOP / "build/go/caddy").is_file() else [])]
FAILING: dict[tuple[str, str], Callable[[int], object]] = {
    ("bad record mac", "bad record mac"): bad.unknown_ca,  # whose alert isn't encrypted
    ("client offered only unsupported versions", "protocol version"): bad.old_version,
    ("first record does not look like TLS", ""): bad.nonsense,
    ("connection reset or closed by the peer", ""): bad.end_of_file,
}


@pytest.fixture(autouse=True)
def _of_this_machine() -> None:
    needs_architecture("x86_64", "as these programs of Debian are")


@pytest.fixture
def pair(certificates: Path) -> Certificate:
    """Of the servers."""
    return make_certificate("ecdsa", certificates)


def by_http3(server: Caddy, shakes: Shakes) -> int:
    """Requests on connections of QUIC until it is known at which port they come in, and EACH more; how many before these."""

    def learned() -> bool:
        nonlocal made
        request_by_http3(server)
        made += EACH
        return shakes.printed(f'"alpn": "h3", "port": "{server.port}"') > 0

    made = 0
    wait_for(learned)
    request_by_http3(server)
    return made


def request_by_http3(server: Caddy) -> None:
    """A request on each of some connections of QUIC."""
    command = [server.program, "http3", f"https://127.0.0.1:{server.port}/", str(EACH)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def assert_each_failed_once(shakes: Shakes) -> None:
    """Of each kind in FAILING one handshake, and none was lost."""
    failed = [single for single in shakes.singles if single["ending"] != "success"]
    assert Counter((single["reason"], single["alert"]) for single in failed) == dict.fromkeys(FAILING, 1)
    assert losses(shakes.document) == {}
    assert shakes.document["handshakes"]["in_flight"] == 0


@pytest.mark.parametrize("release", CADDIES)
def test_each_handshake_of_caddy_is_counted(release: str, pair: Certificate) -> None:
    with caddy(release, pair) as server, Shakes(server.pid, options=("--by", "alpn,port")) as shakes:
        h2load(server.port, 5 * EACH, parallel=PARALLEL)
        server.reload()
        for version in (TLS_1_2, TLS_1_3):
            Client(server.port, version).connect_times(EACH)
        for fail in FAILING.values():
            fail(server.port)
        before = by_http3(server, shakes) if release == NEWEST and tells_receives() else 0
    assert_each_failed_once(shakes)
    kinds = labels_of(shakes.ended("success"), "version", "alpn", "port")
    port = str(server.port)
    own = {("TLSv1.3", "http/1.1", port): 5 * EACH, ("TLSv1.2", "none", port): EACH, ("TLSv1.3", "none", port): EACH}
    assert Counter(kind for kind in kinds if kind[1] != "h3") == own
    quic = [kind for kind in kinds if kind[1] == "h3"]
    assert len(quic) == (before + EACH if before else 0)
    assert set(quic[:before]) <= {("TLSv1.3", "h3", None), ("TLSv1.3", "h3", port)}
    assert quic[before:] == (EACH if before else 0) * [("TLSv1.3", "h3", port)]
    resumed = Counter(labels_of(shakes.ended("success"), "alpn", "resumed"))
    assert resumed["http/1.1", "no"] == PARALLEL, "then each client of h2load resumes"
    assert resumed["http/1.1", "yes"] == 5 * EACH - PARALLEL


def test_each_handshake_of_a_reverse_proxy_is_counted(pair: Certificate) -> None:
    with oauth2_proxy(pair) as (pid, port), Shakes(pid, options=("--by", "alpn,port")) as shakes:
        h2load(port, 5 * EACH, parallel=PARALLEL)
        for version in (TLS_1_2, TLS_1_3):
            Client(port, version).connect_times(EACH)
        for fail in FAILING.values():
            fail(port)
    assert_each_failed_once(shakes)
    own = {("TLSv1.3", "http/1.1"): 5 * EACH, ("TLSv1.2", "none"): EACH, ("TLSv1.3", "none"): EACH}
    kinds = Counter(labels_of(shakes.ended("success"), "version", "alpn", "port"))
    assert kinds == {(*kind, str(port)): number for kind, number in own.items()}


def ask(port: int, version: ssl.TLSVersion, protocol: str, query: bytes) -> bytes:
    """What the server answers, on a connection of its own."""
    context = bad.context(version)
    context.set_alpn_protocols([protocol])
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain, context.wrap_socket(plain) as connection:
        connection.sendall(query)
        return connection.recv(65536)


def test_each_handshake_of_a_name_server_is_counted(pair: Certificate) -> None:
    """Over TLS, and over HTTPS."""
    over_http = b"GET /dns-query?dns=%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % base64.urlsafe_b64encode(QUESTION).rstrip(b"=")
    with coredns(pair) as (pid, tls, https), Shakes(pid, options=("--by", "alpn,port")) as shakes:
        for _ in range(EACH):
            for version in (TLS_1_2, TLS_1_3):
                assert NAME in ask(tls, version, "dot", len(QUESTION).to_bytes(2, "big") + QUESTION)
            assert ask(https, TLS_1_3, "http/1.1", over_http).startswith(b"HTTP/1.1 200")
        for fail in FAILING.values():
            fail(tls)
    assert_each_failed_once(shakes)
    kinds = Counter(labels_of(shakes.ended("success"), "version", "alpn", "port"))
    assert kinds == {
        ("TLSv1.2", "none", str(tls)): EACH,
        ("TLSv1.3", "none", str(tls)): EACH,
        ("TLSv1.3", "http/1.1", str(https)): EACH,
    }


def test_each_handshake_of_a_grpc_server_is_counted(pair: Certificate) -> None:
    with etcd("trixie", pair) as (pid, port):
        with Shakes(pid, options=("--by", "sni,alpn")) as shakes:
            words = [str(port), str(pair.certificate), str(EACH), "3"]
            command = [sys.executable, "-m", "tests.live.clients.grpc_calls", *words]
            subprocess.run(command, check=True, capture_output=True, cwd=TOP, timeout=60)
        assert losses(shakes.document) == {}
        shaken = Counter(labels_of(shakes.singles, "version", "sni", "alpn"))
        own = shaken.pop(("TLSv1.3", "none", "h2"), 0)  # its gateway's to itself, by address, which may come only now
        assert shaken == {("TLSv1.3", "localhost", "h2"): EACH}
        assert own <= 1
        assert endings(shakes.document) == {"success": EACH + own}
