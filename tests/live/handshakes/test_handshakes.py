# SPDX-License-Identifier: Apache-2.0
"""Whole handshakes of real servers, held against what their clients negotiated: each is there once, rightly labelled, and its
parts add up to the nanosecond."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import foreign
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, Exchange, h2load, s_client, s_time
from tests.live.commands.handshakes import LABELS, Shake, Shakes, assert_books, endings, labels_of, spent_ns
from tests.live.servers.nginx import Nginx, Settings, make_certificate

pytestmark = pytest.mark.usefixtures("tracing")

VERSIONS = (TLS_1_2, TLS_1_3)
SIGNATURES = {"rsa": "rsa_pss_rsae_sha256", "ecdsa": "ecdsa_secp256r1_sha256", "ed25519": "ed25519"}
KINDS = tuple(SIGNATURES)
KEYS = {"rsa": "RSA-2048", "ecdsa": "ECDSA P-256", "ed25519": "Ed25519"}
SHARED_CACHE = "shared:sessions:4m"
PLAIN = Settings(kinds=KINDS, curve="X25519")


@pytest.fixture(params=["host", "debian 13"])
def root(request: pytest.FixtureRequest) -> Path | None:
    """Whose nginx and OpenSSL."""
    return None if request.param == "host" else foreign.needed(foreign.second_root()).resolve()


def labels_due(exchange: Exchange, kind: str, certificate: str) -> tuple[str, ...]:
    """What a handshake's labels must be, in the order of LABELS."""
    signature = "none" if exchange.resumed else SIGNATURES[kind]
    resumed = "yes" if exchange.resumed else "no"
    group = "none" if exchange.resumed and exchange.version == "TLSv1.2" else "x25519"
    return exchange.version, exchange.cipher, resumed, group, signature, certificate, "server"


@pytest.mark.parametrize("tickets", [True, False], ids=["tickets", "session ids"])
@pytest.mark.parametrize("certificate", ["not asked", "given", "not given"])
def test_labels(certificates: Path, tmp_path: Path, root: Path | None, tickets: bool, certificate: str) -> None:
    own = make_certificate("rsa", tmp_path)
    settings = replace(PLAIN, tickets=tickets, session_cache="off" if tickets else SHARED_CACHE)
    if certificate != "not asked":
        settings = replace(settings, client_ca=own.certificate)
    due: list[tuple[str, ...]] = []
    with Nginx(certificates, settings, root) as server, Shakes(server.master_pid) as shakes:
        for kind in KINDS:
            for version in VERSIONS:
                client = Client(server.port[kind], version, certificate=own if certificate == "given" else None)
                first = client.connect()
                exchanges = [first, *client.connect_times(2, session=first.session)]
                assert [exchange.resumed for exchange in exchanges] == [False, True, True]
                due += [labels_due(exchange, kind, certificate) for exchange in exchanges]
        server.wait_idle()
    assert labels_of(shakes.singles, *LABELS) == due
    assert_books(shakes)


# What `openssl s_client` calls a group and a signature, and what libssl's own tables do.
GROUPS = {
    "X25519, 253 bits": "x25519",
    "X448, 448 bits": "x448",
    "ECDH, prime256v1, 256 bits": "secp256r1",
    "ECDH, secp384r1, 384 bits": "secp384r1",
    "ECDH, secp521r1, 521 bits": "secp521r1",
    "DH, 2048 bits": "ffdhe2048",
}
SIGNED = {
    ("RSA-PSS", "SHA256"): "rsa_pss_rsae_sha256",
    ("RSA-PSS", "SHA512"): "rsa_pss_rsae_sha512",
    ("RSA", "SHA256"): "rsa_pkcs1_sha256",
    ("RSA", "SHA384"): "rsa_pkcs1_sha384",
    ("ECDSA", "SHA256"): "ecdsa_secp256r1_sha256",
    ("ed25519", ""): "ed25519",
}
OFFERS = [
    ("rsa", "-tls1_3", "-groups", "P-256"),
    ("rsa", "-tls1_3", "-groups", "P-384:X25519", "-sigalgs", "rsa_pss_rsae_sha512"),
    ("rsa", "-tls1_3", "-groups", "ffdhe2048"),
    ("rsa", "-tls1_2", "-groups", "P-521", "-sigalgs", "RSA+SHA256"),
    ("rsa", "-tls1_2", "-groups", "X448", "-sigalgs", "RSA+SHA384"),
    ("ecdsa", "-tls1_2", "-groups", "P-256"),
    ("ecdsa", "-tls1_3", "-groups", "X448"),
    ("ed25519", "-tls1_3", "-groups", "P-521"),
    ("ed25519", "-tls1_2", "-groups", "X25519:P-256"),
]


def told(words: str, text: str) -> str:
    """What s_client says of this, "" where nothing."""
    found = re.search(rf"^{words}: (.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def test_groups_and_signatures_that_s_client_tells(certificates: Path, root: Path | None) -> None:
    settings = replace(PLAIN, curve="X25519:X448:P-256:P-384:P-521:ffdhe2048")
    with Nginx(certificates, settings, root) as server, Shakes(server.master_pid) as shakes:
        texts = [s_client(server.port[kind], *options) for kind, *options in OFFERS]
        server.wait_idle()
    due = [
        (GROUPS[told("Server Temp Key", text)], SIGNED[told("Peer signature type", text), told("Peer signing digest", text)])
        for text in texts
    ]
    assert labels_of(shakes.singles, "group", "signature") == due
    assert len(set(due)) == len(OFFERS)
    assert_books(shakes)


def test_old_versions_sign_over_two_hashes(certificates: Path, root: Path | None) -> None:
    """Such a signature has no code point, and yet it is one."""
    settings = replace(PLAIN, protocols="TLSv1 TLSv1.1", directives="ssl_ciphers ALL:@SECLEVEL=0;")
    offers = [("rsa", "-tls1"), ("rsa", "-tls1_1"), ("ecdsa", "-tls1_1")]
    with Nginx(certificates, settings, root) as server, Shakes(server.master_pid) as shakes:
        for kind, version in offers:
            s_client(server.port[kind], version, "-cipher", "ECDHE:@SECLEVEL=0")
        server.wait_idle()
    due = [("TLSv1", "rsa_pkcs1_md5_sha1"), ("TLSv1.1", "rsa_pkcs1_md5_sha1"), ("TLSv1.1", "ecdsa_sha1")]
    assert labels_of(shakes.singles, "version", "signature") == due
    assert_books(shakes)


def test_a_hybrid_group(certificates: Path) -> None:
    """By Debian 13's own s_client, as the host's has no ML-KEM."""
    root = foreign.needed(foreign.second_root()).resolve()
    with Nginx(certificates, replace(PLAIN, curve="X25519MLKEM768"), root) as server, Shakes(server.master_pid) as shakes:
        command = ["chroot", root, "openssl", "s_client", "-connect", f"127.0.0.1:{server.port['rsa']}"]
        done = subprocess.run(command, input=b"Q\n", capture_output=True, timeout=20, check=False)
        assert b"Negotiated TLS1.3 group: X25519MLKEM768" in done.stdout
        server.wait_idle()
    assert labels_of(shakes.singles, "group") == [("X25519MLKEM768",)]
    assert_books(shakes)


@pytest.mark.parametrize("kind", KINDS)
def test_phases(certificates: Path, root: Path | None, kind: str) -> None:
    """Each phase is in those handshakes that must have it, and in no other."""
    with Nginx(certificates, PLAIN, root) as server, Shakes(server.master_pid) as shakes:
        due = []
        for version in VERSIONS:
            client = Client(server.port[kind], version)
            first = client.connect()
            due += [first, *client.connect_times(3, session=first.session)]
        server.wait_idle()
    for exchange, single in zip(due, shakes.singles, strict=True):
        parts = set(single["parts_ns"])
        assert ("private_key" in parts) == (not exchange.resumed)
        assert ("key_exchange" in parts) == (exchange.version == "TLSv1.3" or not exchange.resumed)
        assert "session_lookup" in parts or not exchange.resumed
        assert "peer_verification" not in parts
    assert [(use["operation"], use["key"], use["count"]) for use in keys_of(shakes)] == [("sign", KEYS[kind], 2)]


def keys_of(shakes: Shakes) -> list[dict[str, Any]]:
    """The table of keys; its time is that of the private key in the handshakes."""
    found: list[dict[str, Any]] = shakes.document["handshakes"]["keys"]
    assert sum(use["total_ns"] for use in found) == spent_ns(shakes.ended("success"), "private_key")
    return found


def test_peer_verification_is_for_client_certificates(certificates: Path, tmp_path: Path, root: Path | None) -> None:
    own = make_certificate("rsa", tmp_path)
    due = []
    with Nginx(certificates, replace(PLAIN, client_ca=own.certificate), root) as server, Shakes(server.master_pid) as shakes:
        for version in VERSIONS:
            for certificate in (own, None):
                client = Client(server.port["rsa"], version, certificate=certificate)
                first = client.connect()
                due += [certificate is not None, *(False for _ in client.connect_times(2, session=first.session))]
        server.wait_idle()
    assert ["peer_verification" in single["parts_ns"] for single in shakes.singles] == due
    assert_books(shakes)


def test_the_key_exchange_of_rsa_decrypts(certificates: Path, root: Path | None) -> None:
    with Nginx(certificates, PLAIN, root) as server, Shakes(server.master_pid) as shakes:
        Client(server.port["rsa"], TLS_1_2, "AES128-GCM-SHA256").connect_times(5)
        server.wait_idle()
    assert labels_of(shakes.singles, "cipher", "group", "signature") == [("AES128-GCM-SHA256", "none", "none")] * 5
    assert [(use["operation"], use["key"], use["count"]) for use in keys_of(shakes)] == [("decrypt", "RSA-2048", 5)]
    assert not any("key_exchange" in single["parts_ns"] for single in shakes.singles)
    assert_books(shakes)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_what_h2load_completed(certificates: Path, root: Path | None, protocol: str) -> None:
    """Each of its clients makes one full handshake and resumes that session from then on."""
    settings = replace(PLAIN, protocols=protocol, workers=2, reuseport=True)
    connections, parallel = 500, 10
    options = ("--by", "version,cipher,resumed,group,process")
    with Nginx(certificates, settings, root) as server:
        with Shakes(server.master_pid, options=options) as shakes:
            for kind in KINDS:
                assert h2load(server.port[kind], connections, parallel=parallel) == connections
            server.wait_idle()
        workers = {f"nginx({pid})" for pid in server.worker_pids()}
    full, resumed = parallel * len(KINDS), (connections - parallel) * len(KINDS)
    assert Counter(labels_of(shakes.singles, "resumed")) == {("no",): full, ("yes",): resumed}
    assert shakes.document["handshakes"]["mix"]["resumed"] == {"yes": resumed, "no": full}
    assert {group["labels"]["process"] for group in shakes.document["handshakes"]["groups"]} <= workers
    assert Counter({use["key"]: use["count"] for use in keys_of(shakes)}) == {KEYS[kind]: parallel for kind in KINDS}
    assert endings(shakes.document) == {"success": full + resumed}
    assert_books(shakes)


def test_what_s_time_completed(certificates: Path) -> None:
    with Nginx(certificates, PLAIN) as server, Shakes(server.master_pid, options=("--by", "version,resumed")) as shakes:
        full = s_time(server.port["ecdsa"], 1, "-tls1_2")
        resumed = s_time(server.port["ecdsa"], 1, "-tls1_3", resume=True)
        server.wait_idle()
    counts = {tuple(group["labels"].values()): group["count"] for group in shakes.document["handshakes"]["groups"]}
    assert counts == {("TLSv1.2", "no"): full, ("TLSv1.3", "no"): 1, ("TLSv1.3", "yes"): resumed - 1}
    assert_books(shakes)


@pytest.mark.parametrize("most", [1, 3])
def test_rows_are_bounded(certificates: Path, most: int) -> None:
    """The first that come have a row of their own; all others count under "other"."""
    options = ("--by", "version,cipher,signature", "--max-groups", str(most))
    with Nginx(certificates, PLAIN) as server, Shakes(server.master_pid, options=options) as shakes:
        for version in VERSIONS:
            for kind in KINDS:
                Client(server.port[kind], version).connect_times(3)
        server.wait_idle()
    groups = shakes.document["handshakes"]["groups"]
    assert [group["count"] for group in groups if not group.get("other")] == [3] * most
    assert [group["count"] for group in groups if group.get("other")] == [3 * (6 - most)]
    assert_books(shakes)


def waited_ns(single: Shake) -> int:
    """How long the client of this handshake waited."""
    return int(single["parts_ns"]["wall"] + single["parts_ns"].get("queue_start", 0))


@pytest.mark.smoke
def test_the_slowest(certificates: Path) -> None:
    with Nginx(certificates, PLAIN) as server, Shakes(server.master_pid, options=("--slowest", "7")) as shakes:
        h2load(server.port["rsa"], 300, parallel=10)
        server.wait_idle()
    slowest = sorted(map(waited_ns, shakes.singles), reverse=True)[:7]
    assert list(map(waited_ns, shakes.document["handshakes"]["slowest"])) == slowest
    assert_books(shakes)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_what_follows_a_handshake_meets_no_probe(certificates: Path, root: Path | None, kind: str) -> None:
    """A connection pays for its handshake alone, however much is read and written on it."""
    hits, more = [], 100
    with Nginx(certificates, Settings(kinds=(kind,)), root) as server:
        for requests in (1, 1 + more):
            with Shakes(server.master_pid) as shakes:
                Client(server.port[kind], TLS_1_3).connect(requests=requests)
                server.wait_idle()
            assert endings(shakes.document) == {"success": 1}
            hits.append(shakes.document["cost"]["hits"])
    assert abs(hits[1] - hits[0]) < more  # a handshake takes a call more or less, by what has arrived when
