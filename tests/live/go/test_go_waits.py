# SPDX-License-Identifier: Apache-2.0
"""How waits of Go's handshakes are seen within a budget: by reads that find nothing, for which no other connection pays. They
are those that are seen where goroutines park."""

from __future__ import annotations

import os
import socket
import time

import pytest

from tests.live.clients.counted import TLS_1_3
from tests.live.commands.handshakes import PHASES, WAITS, Shake, Shakes
from tests.live.go.test_go import NEEDED
from tests.live.go.test_go_handshakes import started
from tests.live.go.test_go_queues import server
from tests.live.servers.queues import context
from tests.machine import leave_out

pytestmark = pytest.mark.usefixtures("tracing")
IN_BUDGET = ("--budget", "90%")  # of which no phase has to go into windows
MORE = 100
FOR_PEER = {"wait_peer", "queue_server", "wait_peer_or_server"}


def send(port: int, lines: int) -> None:
    """A connection on which so many lines are sent, each of which the server waits for, until it has read all."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    with context(TLS_1_3).wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=True) as tls:
        assert tls.recv(1) == b"x"
        for _ in range(lines):
            tls.sendall(b"a line\n")
            time.sleep(0.001)
        tls.unwrap().close()


def test_what_follows_a_handshake_of_go_meets_no_probe() -> None:
    """A connection pays for its handshake alone, however much is read on it, and waited for."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 3):
        leave_out("before Linux 6.3 reads aren't told")
    hits = []
    with server(NEEDED[-1]) as (pid, port):
        for lines in (0, MORE):
            with Shakes(pid, options=IN_BUDGET) as shakes:
                send(port, lines)
            assert [single["ending"] for single in shakes.singles] == ["success"]
            hits.append(shakes.document["cost"]["hits"])
    assert abs(hits[1] - hits[0]) < MORE / 10, "phases may be watched more or less"


@pytest.mark.parametrize("name", NEEDED)
def test_the_same_waits_are_seen_without_probes_where_goroutines_park(name: str) -> None:
    with (
        started(name) as program,
        Shakes(program.pid, options=("--role", "any")) as exact,
        Shakes(program.pid, options=("--role", "any", *IN_BUDGET)) as shakes,
    ):
        program.run()
    assert shakes.document["losses"] == exact.document["losses"]
    assert shakes.document["handshakes"]["slept"] == exact.document["handshakes"]["slept"] == 0
    assert len(shakes.singles) == len(exact.singles)
    for parts in (single["parts_ns"] for single in shakes.singles):
        assert parts["wall"] == parts["calls"] + sum(parts.get(wait, 0) for wait in WAITS)
        assert parts["calls"] == sum(parts.get(phase, 0) for phase in PHASES)
        assert parts.keys() & {*WAITS} <= FOR_PEER
    assert len(waited(shakes.singles)) == len(waited(exact.singles)) > len(exact.singles) / 2
    assert shakes.document["cost"]["hits"] < exact.document["cost"]["hits"]


def waited(singles: list[Shake]) -> list[Shake]:
    """Those that have waited for their peer, or its bytes for them."""
    return [single for single in singles if single["parts_ns"].keys() & FOR_PEER]
