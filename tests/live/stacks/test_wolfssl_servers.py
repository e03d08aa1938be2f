# SPDX-License-Identifier: Apache-2.0
"""Servers that link wolfSSL, one that blocks and one that waits for all of its sockets: every call and handshake, what it was
like, and why those failed that the server says did."""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.live.clients import bad
from tests.live.clients.counted import TIMEOUT_S, TLS_1_2, TLS_1_3, Client
from tests.live.clients.slow import PAUSE_S, slow
from tests.live.commands.handshakes import Shakes, assert_books, endings, for_peer_ns, labels_of
from tests.live.commands.trace import Trace, count, counts, losses, reasons
from tests.live.servers.debian import lighttpd
from tests.live.servers.nginx import Certificate, make_certificate
from tests.live.stacks.wolfssl_programs import wolfssl_server

pytestmark = pytest.mark.usefixtures("tracing")
TIMES, REQUESTS = 4, 2
VERSIONS = (TLS_1_2, TLS_1_3)
# wolfSSL's codes, as the server writes them, and what we say of them; "" where the connection ended without an error.
CODES = {
    "-501": "match suite error",
    "-313": "alert received: unknown CA",
    "-306": "parse error",
    "-341": "length error",
    "-308": "",
    "-305": "verify MAC",
    "-180": "AES-GCM authentication",
    "-326": "version error",
}


def untrusting(port: int) -> None:
    """Trusts nobody, and says so by TLS 1.2."""
    made = ssl.create_default_context()
    made.maximum_version = TLS_1_2
    with bad.plain(port) as plain, pytest.raises(ssl.SSLError):
        made.wrap_socket(plain.dup(), server_hostname="localhost")


FAILING: tuple[Callable[[int], object], ...] = (
    bad.foreign_cipher,
    untrusting,
    bad.nonsense,
    bad.http,
    bad.end_of_file,
    bad.reset,
    partial(bad.flipped_bit, TLS_1_2),
    partial(bad.flipped_bit, TLS_1_3),
    bad.old_version,
)


@pytest.fixture(scope="module", params=["rsa", "ecdsa"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the servers."""
    return make_certificate(str(request.param), tmp_path_factory.mktemp("certificates"))


def ask(port: int, made: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
    """One connection with one request; the session."""
    with (
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain,
        made.wrap_socket(plain, session=session) as tls,
    ):
        tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert tls.recv(65536)
        return tls.session


@pytest.mark.parametrize("options", [(), ("lazy",)], ids=["accepting", "reading"])
def test_its_calls_and_handshakes_are_those_that_it_tells(pair: Certificate, tmp_path: Path, options: tuple[str, ...]) -> None:
    good, failing = TIMES * len(VERSIONS), len(FAILING)
    with wolfssl_server(pair, tmp_path, *options) as server, Trace(server.pid) as trace, Shakes(server.pid) as shakes:
        for version in VERSIONS:
            for _ in range(TIMES):
                Client(server.port, version).connect(requests=REQUESTS)
        for fail in FAILING:
            fail(server.port)
        told = server.told(good + failing)
    assert Counter(kind for kind, *_ in told) == {"success": good, "failure": failing}
    document = trace.document
    assert [count(document, "wolfSSL_accept", outcome) for outcome in ("success", "failure")] == [good, failing]
    assert count(document, "wolfSSL_read") == count(document, "wolfSSL_write") == good * REQUESTS
    assert reasons(document, "wolfSSL_read", "closed") == {"ZERO_RETURN": good}
    assert count(document, "wolfSSL_negotiate") == (good if options else 0)
    assert losses(document) == {}
    versions = [single["labels"]["version"] for single in shakes.ended("success")]
    assert versions == [version for kind, version, *_ in told if kind == "success"]
    codes = [words[1] for words in told if words[0] == "failure"]
    unsuccessful = [single for single in shakes.singles if single["ending"] != "success"]
    assert [single["reason"] if single["ending"] == "failure" else "" for single in unsuccessful] == [
        CODES[code] for code in codes
    ]
    assert_books(shakes)


def test_its_handshakes_have_labels_and_phases(pair: Certificate, tmp_path: Path) -> None:
    with wolfssl_server(pair, tmp_path) as server, Shakes(server.pid, options=("--by", "port")) as shakes:
        for version in VERSIONS:
            made, session = bad.context(version), None
            for _ in range(TIMES):
                session = ask(server.port, made, session)
        for version in VERSIONS:
            made = bad.context(version)
            made.set_ecdh_curve("prime256v1")
            ask(server.port, made)
        told = server.told(2 * TIMES + 2)
    assert endings(shakes.document) == {"success": 2 * TIMES + 2}
    labels = labels_of(shakes.singles, "version", "resumed", "role", "port")
    resumed = [("no", "yes")[int(words[3])] for words in told]
    assert labels == [(words[1], was, "server", str(server.port)) for words, was in zip(told, resumed, strict=True)]
    assert resumed == ["no", *["yes"] * (TIMES - 1)] * 2 + ["no", "no"]
    full = [single for single in shakes.singles if single["labels"]["resumed"] == "no"]
    assert [single["labels"]["group"] for single in full] == ["x25519", "x25519", "secp256r1", "secp256r1"]
    signed = [single for single in shakes.singles if single["parts_ns"].get("private_key")]
    assert signed == full
    assert all(single["parts_ns"].get("key_exchange") for single in full)
    assert not any(single["parts_ns"].get("peer_verification") for single in shakes.singles)
    assert {single["labels"]["cipher"].split("_")[0] for single in shakes.singles} == {"TLS"}
    assert_books(shakes)


def test_a_connection_that_is_cleared_for_the_next_client(pair: Certificate, tmp_path: Path) -> None:
    """In these versions only for TLS 1.2, and until something fails."""
    with wolfssl_server(pair, tmp_path, "reuse") as server, Shakes(server.pid) as shakes:
        Client(server.port, TLS_1_2).connect_times(TIMES)
        bad.end_of_file(server.port)
        told = server.told(TIMES + 1)
    assert [kind for kind, *_ in told] == ["success"] * TIMES + ["failure"]
    assert endings(shakes.document) == {"success": TIMES, "abandoned": 1}
    assert_books(shakes)


def test_a_server_that_waits_for_all_of_its_sockets(pair: Certificate) -> None:
    number = TIMES * len(VERSIONS)
    with lighttpd(pair, "wolfssl") as web, Trace(web.pid) as trace, Shakes(web.pid) as shakes:
        for version in VERSIONS:
            for _ in range(TIMES):
                Client(web.port, version).connect(requests=REQUESTS)
            slow(version, web.port)
        for fail in (bad.foreign_cipher, untrusting, bad.end_of_file):
            fail(web.port)
    assert endings(shakes.document) == {"success": number + len(VERSIONS), "failure": 2, "abandoned": 1}
    document = trace.document
    assert counts(document, ["wolfSSL_accept", "wolfSSL_negotiate"]) == dict.fromkeys(
        ("wolfSSL_accept", "wolfSSL_negotiate"), number + len(VERSIONS)
    )
    retries = sum(single["calls"] - 1 for single in shakes.singles if single["ending"] != "abandoned")
    assert reasons(document, "wolfSSL_accept", "retry").keys() == {"WANT_READ"}
    assert reasons(document, "wolfSSL_accept", "retry")["WANT_READ"] >= retries >= len(VERSIONS)  # slow ones are waited for
    assert {single["reason"] for single in shakes.ended("failure")} == {"match suite error", "alert received: unknown CA"}
    waited = [for_peer_ns(single) > PAUSE_S * 1e9 / 2 for single in shakes.ended("success")]
    assert waited[TIMES :: TIMES + 1] == [True] * len(VERSIONS)
    assert losses(document) == {}
    assert_books(shakes)


def show(shown: Certificate | None, version: ssl.TLSVersion, port: int) -> None:
    """One connection with one request of a client that has this certificate, until the server has closed it."""
    made = bad.context(version)
    if shown:
        made.load_cert_chain(shown.certificate, shown.key)
    with bad.plain(port) as plain, suppress(OSError), made.wrap_socket(plain.dup()) as tls:
        tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
        tls.recv(65536)
        tls.unwrap()


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_certificates_of_clients_are_checked(kind: str, tmp_path: Path) -> None:
    """The server's own vouches for itself alone."""
    (tmp_path / "other").mkdir()
    pair, stranger = make_certificate(kind, tmp_path), make_certificate(kind, tmp_path / "other")
    with wolfssl_server(pair, tmp_path, "certificate") as server, Shakes(server.pid) as shakes:
        for version in VERSIONS:
            for shown in (pair, stranger, None):
                show(shown, version, server.port)
        told = server.told(3 * len(VERSIONS))
    assert [words[:2] for words in told] == [
        words
        for version in VERSIONS
        for words in (["success", version.name.replace("_", ".")], ["failure", "-275"], ["failure", "-345"])
    ]
    ended = [(single["ending"], single["reason"]) for single in shakes.singles]
    assert ended == [("success", ""), ("failure", "ASN self signed"), ("failure", "no peer certificate")] * len(VERSIONS)
    assert all(single["parts_ns"]["peer_verification"] > 0 for single in shakes.ended("success"))
    assert_books(shakes)
