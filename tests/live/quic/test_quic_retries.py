# SPDX-License-Identifier: Apache-2.0
"""How many handshakes over QUIC came after a Retry, by which their server has the client's address validated, as the packets on
the way tell it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.libraries.test_quic import haproxy_by_retry, quic, root
from tests.live.quic.relays import RetryCount
from tests.live.quic.test_quic_peers import RELAYS, TIMES, WHOLE, Server, caddy_of, each_server, learn
from tests.machine import needs_every_tracepoint
from tests.waiting import wait_for

__all__ = ["root"]  # a fixture
pytestmark = pytest.mark.usefixtures("tracing")

CLIENTS = 3
OF_RETRIES = ("quic_retry_known", "quic_retries")


@pytest.fixture(autouse=True)
def _every_packet() -> None:
    needs_every_tracepoint()


def facts_of(shakes: Shakes, **labels: str) -> list[int]:
    """Of how many handshakes with these labels it is known whether there was a Retry, and of how many there was."""
    sums: Counter[str] = Counter()
    for group in shakes.document["handshakes"]["groups"]:
        if labels.items() <= group["labels"].items():
            sums.update(group.get("facts", {}))
    return [sums[name] for name in OF_RETRIES]


@each_server
def test_handshakes_after_a_retry_are_counted(certificates: Path, root: Path, server: Server, retry: str) -> None:
    """Of each client program the first one, at least: to those that come back with a token of nginx's no Retry is sent."""
    with (
        server(root, certificates, retry) as (pid, port),
        RetryCount(port, RELAYS) as relay,
        Shakes(pid, options=WHOLE) as shakes,
    ):
        with quic(root, certificates) as (_, do):
            first = learn(shakes, do, f"1 0 short {port}")
        for _ in range(CLIENTS):
            with quic(root, certificates) as (_, do):
                do(f"{TIMES} 0 fine {relay.port}")
                do(f"{TIMES} 0 distrust {relay.port}")
        wait_for(lambda: shakes.printed('"ending"') == first + 2 * TIMES * CLIENTS)
    retries = len(relay.retried)
    assert facts_of(shakes, peer=f"{RELAYS}/32") == [2 * TIMES * CLIENTS, retries]
    if retry == "on":
        assert CLIENTS <= retries <= (2 * TIMES * CLIENTS if server is haproxy_by_retry else 2 * TIMES * CLIENTS - 1)
    else:
        assert retries == 0
    if server is not caddy_of:  # goroutines' calls aren't split
        assert_books(shakes)


def test_retries_of_openssls_own_quic(certificates: Path, root: Path) -> None:
    """It validates each client's address; of handshakes that it refuses at their ClientHello that isn't known."""
    with quic(root, certificates) as (pid, do), Shakes(pid, options=WHOLE) as shakes:
        learn(shakes, do, "1 0 fine")
        do(f"{TIMES} 0 fine")
        do(f"{TIMES} 0 protocol")
    known, retries = facts_of(shakes)
    assert known == retries >= TIMES + 1
    assert endings(shakes.document)["failure"] == TIMES
    assert [
        group.get("facts", {}).get("quic_retry_known")
        for group in shakes.document["handshakes"]["groups"]
        if group["ending"] == "failure"
    ] == [None]
    assert_books(shakes)
