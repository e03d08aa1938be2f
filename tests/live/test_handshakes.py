# SPDX-License-Identifier: Apache-2.0
"""Whole handshakes of real servers, held against what their clients negotiated: each is there once, rightly labelled, and its
parts add up to the nanosecond."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest

from tests import foreign

from .clients import TLS_1_2, TLS_1_3, Client, Exchange, h2load, s_client, s_time
from .servers import KEY_OPTIONS, Nginx, Settings, make_certificate
from .shakes import Shake, Shakes, assert_books, endings, labels_of

pytestmark = pytest.mark.usefixtures("tracing")

VERSIONS = (TLS_1_2, TLS_1_3)
KINDS = tuple(KEY_OPTIONS)
SIGNATURES = {"rsa": "rsa_pss_rsae_sha256", "ecdsa": "ecdsa_secp256r1_sha256", "ed25519": "ed25519"}
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
    return exchange.version, exchange.cipher, resumed, "x25519", signature, certificate, "server"


LABELS = ("version", "cipher", "resumed", "group", "signature", "client_certificate", "role")


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
