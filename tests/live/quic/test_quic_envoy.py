# SPDX-License-Identifier: Apache-2.0
"""HTTP/3 of Envoy, which has BoringSSL within, without symbols: at which port it is asked, and who its peers are; and that the
connections of BoringSSL's by which quiche looks into each ClientHello count as no handshakes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.libraries.test_quic import causes, quic, root
from tests.live.quic.first_packets import another_message, client_hello, damaged, send
from tests.live.quic.test_quic_peers import PEERS, TIMES, WHOLE
from tests.live.servers.envoy import envoy
from tests.live.servers.nginx import make_certificate
from tests.machine import needs_every_tracepoint
from tests.waiting import wait_for

__all__ = ["root"]  # a fixture
pytestmark = pytest.mark.usefixtures("tracing")

MOST = 200
FEW = 6
CLOSES = "http3.downstream.tx.quic_connection_close_error_code_"


def test_peers_of_envoys_http3(certificates: Path, tmp_path: Path, root: Path) -> None:
    """Of each client whose ClientHello is one packet."""
    needs_every_tracepoint()
    with (
        envoy(make_certificate("ecdsa", certificates), tmp_path) as server,
        quic(root, certificates) as (_, do),
        Shakes(server.pid, options=WHOLE) as shakes,
    ):

        def shake(peer: str, times: int, before: int) -> None:
            do(f"{times} 0 short {server.port} {peer}")
            wait_for(lambda: shakes.printed('"ending": "success"') == before + times)

        first = 0
        while not shakes.printed(f'"peer": "{PEERS[0]}/32"'):
            assert first < MOST
            shake(PEERS[0], 1, first)
            first += 1
        for number, peer in enumerate(PEERS):
            shake(peer, TIMES, first + number * TIMES)
    ended = shakes.ended("success")
    assert endings(shakes.document) == {"success": len(ended)}
    assert len(ended) == first + TIMES * len(PEERS)
    assert shakes.document["handshakes"]["inspections"] == len(ended)
    due = [(str(server.port), f"{peer}/32") for peer in PEERS]
    told = Counter(labels_of(ended[first:], "port", "peer"))
    # Nothing may be told of one that was answered with its repetition on a slow machine: that the kernel is to cut.
    assert all(TIMES - 1 <= told[each] <= TIMES for each in due)
    assert {peer for _, peer in told} <= {None, *(peer for _, peer in due)}
    assert {peer for (peer,) in labels_of(shakes.singles, "peer")} == {None, *(f"{peer}/32" for peer in PEERS)}
    assert_books(shakes)


def test_looks_into_client_hellos_are_no_handshakes(certificates: Path, tmp_path: Path, root: Path) -> None:
    """Two of each ClientHello that takes two packets, one of which is freed early. Handshakes that Envoy refuses, and those
    whose clients go away, are still there."""
    with (
        envoy(make_certificate("ecdsa", certificates), tmp_path) as server,
        quic(root, certificates) as (_, do),
        Shakes(server.pid) as shakes,
    ):
        for number, how in enumerate(("short", "fine", "distrust", "protocol"), 1):
            do(f"{FEW} 0 {how} {server.port}")
            wait_for(lambda: shakes.printed('"ending"') == number * FEW)  # noqa: B023 - it is over before the next
        assert server.statistics("downstream_cx_total", "quic") == {"": 4 * FEW}
        assert server.statistics(CLOSES, "quic") == {"QUIC_HANDSHAKE_FAILED": FEW}
    assert endings(shakes.document) == {"success": 2 * FEW, "abandoned": FEW, "failure": FEW}
    assert {reason for ending, reason, _, _ in causes(shakes) if ending == "failure"} == {"no application protocol"}
    assert shakes.document["handshakes"]["inspections"] == (1 + 3 * 2) * FEW
    assert_books(shakes)


def test_refused_client_hellos_are_handshakes_that_failed(certificates: Path, tmp_path: Path) -> None:
    """Those that Envoy's callback refuses before it has given the connection what tells that it is a real one, as they lack
    parameters, or name no possible host; and those that can't be read, of which there is no other connection."""
    hello = client_hello()
    with envoy(make_certificate("ecdsa", certificates), tmp_path) as server, Shakes(server.pid) as shakes:
        refused = ([hello], [hello[:100], hello[100:]], [client_hello("localhost")], [damaged(hello)], [another_message(hello)])
        for number, pieces in enumerate(refused, 1):
            send(server.port, pieces)
            wait_for(lambda: shakes.printed('"ending"') == number)  # noqa: B023 - it is over before the next
        send(server.port, [hello[:100]])
        assert server.statistics("downstream_cx_total", "quic") == {"": 3}
        assert server.statistics(CLOSES, "quic") == {"QUIC_HANDSHAKE_FAILED": 3}
    told = shakes.document["handshakes"]
    assert endings(shakes.document) == {"failure": len(refused)}
    assert Counter(reason for ending, reason, _, _ in causes(shakes).elements())["connection rejected"] == 3
    # One of each that a connection was made for, but two of what came in two pieces, and of half of one, which is kept a while.
    assert told["inspections"] + told["in_flight"] == 1 + 2 + 1 + 2
    assert_books(shakes)
