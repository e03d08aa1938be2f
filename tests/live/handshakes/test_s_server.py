# SPDX-License-Identifier: Apache-2.0
"""`openssl s_server`: what it says itself is the truth about clients that don't speak TLS, and each connection of `-www`, whose
handshake a BIO makes within its first read, is one handshake."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests import foreign
from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3
from tests.live.clients.slow import slow
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.commands.trace import Trace, losses, reasons
from tests.live.servers.nginx import Certificate, make_certificate
from tests.live.servers.s_server import s_server
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 10


@pytest.fixture(params=["host", "debian 13"])
def root(request: pytest.FixtureRequest) -> Path | None:
    """Whose OpenSSL."""
    return None if request.param == "host" else foreign.needed(foreign.second_root()).resolve()


def test_what_is_no_tls(certificates: Path, root: Path | None) -> None:
    """OpenSSL sends no alert for it, and yet it is no peer that went away."""
    with s_server(make_certificate("rsa", certificates), root=root) as server, Shakes(server.pid) as shakes:
        for _ in range(TIMES):
            bad.http(server.port)
            bad.nonsense(server.port)
        bad.reset(server.port)
        bad.end_of_file(server.port)
        errors = server.errors()
    found: Counter[tuple[str, str]] = Counter()
    for cause in shakes.document["handshakes"]["causes"]:
        found[cause["library"], cause["reason"]] += cause["count"] * (cause["ending"] == "failure")
    assert +found == errors
    assert errors["SSL routines", "http request"] == errors["SSL routines", "wrong version number"] == TIMES
    assert sum(endings(shakes.document).values()) == 2 * TIMES + 2
    assert_books(shakes)


@pytest.mark.parametrize("exact", [True, False])
def test_what_fails_below_libssl(tmp_path: Path, *, exact: bool) -> None:
    """A key that is too small for the digest: libssl says "internal error", and the reason is what lies under it in the queue.
    OpenSSL raises others on the way there and clears them, tens of them in each handshake that succeeds: within a budget these
    are watched once a handshake has failed for a reason that libssl doesn't know."""
    every = ["-cipher", "ALL:@SECLEVEL=0", "-tls1_2"]
    small = Certificate(tmp_path / "small.crt", tmp_path / "small.key")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:512", "-sha256", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*make, "-keyout", str(small.key), "-out", str(small.certificate)], check=True, capture_output=True)
    with s_server(small, *every) as server, Shakes(server.pid, exact=exact) as shakes:
        client = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", *every, "-sigalgs", "RSA+SHA512"]
        for number in range(1, TIMES + 1):
            subprocess.run(client, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
            wait_for(lambda number=number: server.errors()["rsa routines", "digest too big for rsa key"] == number)  # type: ignore[misc]
            time.sleep(0.3)  # the tracer looks five times a second
    causes = Counter({(cause["library"], cause["reason"]): cause["count"] for cause in shakes.document["handshakes"]["causes"]})
    known = TIMES if exact else TIMES - 1
    assert causes["rsa routines", "digest too big for rsa key"] == known
    assert causes["SSL routines", "internal error"] == TIMES - known


@pytest.mark.parametrize("engine", ["libbpf", "bcc"])
def test_trace_gives_the_same_reason(certificates: Path, root: Path | None, engine: str) -> None:
    """An error of libssl's own, and not a connection that is gone; what is gone still is."""
    options = ("--engine", engine)
    with s_server(make_certificate("rsa", certificates), root=root) as server, Trace(server.pid, options=options) as trace:
        for _ in range(TIMES):
            bad.http(server.port)
            bad.nonsense(server.port)
        for _ in range(3):
            bad.reset(server.port)
        bad.end_of_file(server.port)
        server.errors()
    assert reasons(trace.document, "SSL_accept", "failure") == {"SSL": 2 * TIMES + 1, "SYSCALL": 3}
    assert losses(trace.document) == {}


def ask(version: ssl.TLSVersion, port: int) -> bytes:
    """A request, and what is answered to the end."""
    with bad.context(version).wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20)) as tls:
        tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: tls.recv(65536), b""))


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def test_a_handshake_within_a_bio(certificates: Path, root: Path | None, version) -> None:  # type: ignore[no-untyped-def]
    with s_server(make_certificate("rsa", certificates), "-www", root=root) as server, Shakes(server.pid) as shakes:
        for _ in range(TIMES):
            assert b" 200 ok" in ask(version, server.port)
    assert endings(shakes.document) == {"success": TIMES}
    assert set(labels_of(shakes.singles, "version", "role")) == {(version.name.replace("_", "."), "server")}
    assert_books(shakes)


def test_slow_and_bad_clients_of_a_bio(certificates: Path, root: Path | None) -> None:
    with s_server(make_certificate("rsa", certificates), "-www", root=root) as server, Shakes(server.pid) as shakes:
        for version in (TLS_1_2, TLS_1_3):
            assert b" 200 ok" in slow(version, server.port)
        bad.unknown_ca(server.port)
        bad.no_shared_cipher(server.port)
    assert endings(shakes.document) == {"success": 2, "failure": 2}
    assert all(single["parts_ns"]["wait_peer"] > single["parts_ns"]["calls"] for single in shakes.ended("success"))
    reasons = {cause["reason"] for cause in shakes.document["handshakes"]["causes"]}
    assert reasons == {"tlsv1 alert unknown ca", "no shared cipher"}
    assert_books(shakes)
