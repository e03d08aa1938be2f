# SPDX-License-Identifier: Apache-2.0
"""Envoy, a stripped program that BoringSSL is linked into: handshakes are as many as its own statistics say, of each version,
cipher suite and group."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.servers.envoy import envoy
from tests.live.servers.nginx import make_certificate
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

TIMES = 10
FAILING = {
    bad.no_shared_cipher: "no shared cipher",
    bad.nonsense: "wrong version number",
    bad.http: "http request",
    partial(bad.flipped_bit, TLS_1_3): "decryption failed or bad record mac",
    bad.old_version: "unsupported protocol",
}
LEAVING = (bad.end_of_file, bad.reset)


def test_ports_and_peers_of_its_clients(certificates: Path, tmp_path: Path) -> None:
    """It reads its sockets in the handshakes' calls, and BoringSSL shows none: the kernel tells which, but for the first."""
    sources = ("127.0.0.1", "127.1.2.3", "127.1.2.4", "127.1.2.3")
    with (
        envoy(make_certificate("ecdsa", certificates), tmp_path) as server,
        Shakes(server.pid, options=("--by", "port,peer", "--peer-prefix", "32,128")) as shakes,
    ):
        shakes.learn_port(server.port, lambda: Client(server.port, TLS_1_3).connect())
        for source in sources:
            with bad.plain(server.port, source) as plain, bad.context(TLS_1_2).wrap_socket(plain.dup()) as tls:
                tls.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    shown = labels_of(shakes.singles, "port", "peer")
    assert Counter(shown[-len(sources) :]) == Counter((str(server.port), f"{source}/32") for source in sources)
    assert {*shown[: -len(sources)]} <= {(None, None), (str(server.port), "127.0.0.1/32")}


def test_envoys_own_statistics(certificates: Path, tmp_path: Path) -> None:
    with (
        envoy(make_certificate("rsa", certificates), tmp_path) as server,
        Shakes(server.pid, options=("--by", "alpn")) as shakes,
    ):
        client = Client(server.port, TLS_1_2)
        session = client.connect().session
        client.connect_times(TIMES, session=session)
        Client(server.port, TLS_1_3).connect_times(TIMES)
        for fails in (*FAILING, *LEAVING):
            fails(server.port)
        connections = 1 + 2 * TIMES + len(FAILING) + len(LEAVING)
        wait_for(lambda: server.statistics("downstream_cx_").get("destroy") == connections)
        told = server.statistics("ssl.")
    assert (told["handshake"], told["session_reused"], told["connection_error"]) == (1 + 2 * TIMES, TIMES, len(FAILING))
    # It counts as its errors those of TLS, not that a peer has gone.
    assert endings(shakes.document) == {
        "success": told["handshake"],
        "failure": told["connection_error"],
        "abandoned": len(LEAVING),
    }
    causes = shakes.document["handshakes"]["causes"]
    failed = {cause["reason"]: cause["count"] for cause in causes if cause["ending"] == "failure"}
    assert failed == dict.fromkeys(FAILING.values(), 1)
    signed = [single for single in shakes.ended("success") if "private_key" in single["parts_ns"]]
    assert len(signed) == told["handshake"] - told["session_reused"]
    assert labels_of(signed, "signature", "client_certificate") == len(signed) * [("rsa_pss_rsae_sha256", "not asked")]
    served = shakes.document["handshakes"]["certificates"]
    # The first connections have no port: what threads read is watched once sockets are found to be unknown.
    assert [one["certificate"]["key"] for one in served] == len(served) * ["RSA-2048"]
    assert {one.get("port") for one in served} <= {None, server.port}
    assert sum(one["count"] - one["unsuccessful"] for one in served) == len(signed)
    assert shakes.document["handshakes"]["certificates_untold"] == 0
    agreed = [single for single in shakes.ended("success") if "key_exchange" in single["parts_ns"]]
    assert agreed == signed  # of those that were resumed all are of TLS 1.2
    assert not any("peer_verification" in single["parts_ns"] for single in shakes.singles)
    shown = shakes.ended("success")
    for label, kind in (("version", "versions."), ("cipher", "ciphers.")):
        due = {name.removeprefix(kind): number for name, number in told.items() if name.startswith(kind)}
        assert Counter(value for (value,) in labels_of(shown, label)) == due
    # Its curve is the session's, also where that was made by another handshake.
    assert Counter(labels_of(shown, "resumed", "group")) == {
        ("no", "x25519"): 1 + TIMES,
        ("yes", "none"): told["session_reused"],
    }
    assert told["curves.X25519"] == told["handshake"]
    assert set(labels_of(shown, "alpn")) == {("none",)}  # which this client doesn't offer
    assert_books(shakes)
