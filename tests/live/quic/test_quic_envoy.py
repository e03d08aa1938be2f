# SPDX-License-Identifier: Apache-2.0
"""HTTP/3 of Envoy, which has BoringSSL within, without symbols: at which port it is asked, and who its peers are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.libraries.test_quic import quic, root
from tests.live.quic.test_quic_peers import PEERS, TIMES, WHOLE
from tests.live.servers.envoy import envoy
from tests.live.servers.nginx import make_certificate
from tests.machine import needs_every_tracepoint
from tests.waiting import wait_for

__all__ = ["root"]  # a fixture
pytestmark = pytest.mark.usefixtures("tracing")

MOST = 200


def test_peers_of_envoys_http3(certificates: Path, tmp_path: Path, root: Path) -> None:
    """Of each client whose ClientHello is one packet. It takes each apart by connections of its own, which it gives up."""
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
    assert endings(shakes.document)["success"] == len(ended) == first + TIMES * len(PEERS)
    due = [(str(server.port), f"{peer}/32") for peer in PEERS]
    told = Counter(labels_of(ended[first:], "port", "peer"))
    # Nothing may be told of one that was answered with its repetition on a slow machine: that the kernel is to cut.
    assert all(TIMES - 1 <= told[each] <= TIMES for each in due)
    assert {peer for _, peer in told} <= {None, *(peer for _, peer in due)}
    assert {peer for (peer,) in labels_of(shakes.singles, "peer")} == {None, *(f"{peer}/32" for peer in PEERS)}
    assert_books(shakes)
