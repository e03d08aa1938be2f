# SPDX-License-Identifier: Apache-2.0
"""What became of what clients offered: tickets and sessions that the server didn't take, and key shares that it asked for anew.
A client that offers nothing makes no session lookup."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from tests import foreign
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client, s_client
from tests.live.commands.handshakes import Shakes, assert_books
from tests.live.servers.nginx import Nginx, Settings

pytestmark = pytest.mark.usefixtures("tracing")
PLAIN = Settings(kinds=("ecdsa",), curve="P-256:X25519")
SHARED_CACHE = "shared:sessions:1m"
FACTS = ("offered", "tickets_refused", "cache_misses", "hello_retry_known", "hello_retries")
VERSIONS = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])


@pytest.fixture(params=["host", "debian 13"])
def root(request: pytest.FixtureRequest) -> Path | None:
    """Whose nginx and OpenSSL."""
    return None if request.param == "host" else foreign.needed(foreign.second_root()).resolve()


def facts(shakes: Shakes) -> tuple[int, ...]:
    """FACTS, of all handshakes."""
    groups = shakes.document["handshakes"]["groups"]
    return tuple(sum(group["facts"].get(fact, 0) for group in groups) for fact in FACTS)


def looked_up(shakes: Shakes) -> list[bool]:
    """Of each handshake, whether it has a session lookup."""
    return ["session_lookup" in single["parts_ns"] for single in shakes.singles]


@VERSIONS
@pytest.mark.parametrize("tickets", [True, False], ids=["tickets", "session ids"])
def test_what_is_offered_is_taken_or_refused(
    certificates: Path, root: Path | None, tickets: bool, version: ssl.TLSVersion
) -> None:
    """Another server of the same kind has neither the keys nor the sessions of the first one."""
    settings = replace(PLAIN, tickets=tickets, session_cache="off" if tickets else SHARED_CACHE)
    with Nginx(certificates, settings, root) as server, Shakes(server.master_pid) as shakes:
        client = Client(server.port["ecdsa"], version)
        first = client.connect()
        assert client.connect(session=first.session).resumed
        server.wait_idle()
    assert facts(shakes) == (1, 0, 0, 2, 0)
    assert looked_up(shakes) == [False, True]
    assert_books(shakes)
    with Nginx(certificates, settings, root) as server, Shakes(server.master_pid) as shakes:
        client.turn_to(server.port["ecdsa"])
        assert not client.connect(session=first.session).resumed
        server.wait_idle()
    assert facts(shakes) == ((1, 1, 0, 1, 0) if tickets else (1, 0, 1, 1, 0))
    assert looked_up(shakes) == [True]
    assert_books(shakes)


def test_a_session_id_for_middleboxes_is_no_session(certificates: Path, root: Path | None) -> None:
    """Every client that offers TLS 1.3 sends one. A server without that version looks it up."""
    settings = replace(PLAIN, protocols="TLSv1.2", session_cache=SHARED_CACHE)
    with Nginx(certificates, settings, root) as server, Shakes(server.master_pid) as shakes:
        s_client(server.port["ecdsa"])
        server.wait_idle()
    assert looked_up(shakes) == [True]
    assert facts(shakes) == (0, 0, 0, 1, 0)


def test_a_key_share_of_another_group_is_asked_for(certificates: Path, root: Path | None) -> None:
    with Nginx(certificates, replace(PLAIN, curve="P-384"), root) as server, Shakes(server.master_pid) as shakes:
        for groups in ("P-384:X25519", "X25519:P-384", "X25519:P-256:P-384"):
            s_client(server.port["ecdsa"], "-groups", groups)
        server.wait_idle()
    assert facts(shakes) == (0, 0, 0, 3, 2)
    assert_books(shakes)
