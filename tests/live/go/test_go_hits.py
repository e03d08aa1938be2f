# SPDX-License-Identifier: Apache-2.0
"""Handshakes of a Go program are traced without a hit in the data that its connections carry, on kernels that tell what
receives and sends return."""

from __future__ import annotations

import socket
import ssl
import time

import pytest

from ssllatency.host.kernel import release
from tests.live.commands.handshakes import Shakes, endings
from tests.live.commands.trace import losses
from tests.live.go.test_go import NEEDED
from tests.live.go.test_go_queues import server

pytestmark = pytest.mark.usefixtures("tracing")

TIMES, READS = 5, 200
_APART_S = 0.0005  # so that the server waits for most of what it reads


def _talk(port: int, reads: int) -> None:
    """A connection with so many bytes to the server, each for a read of its own."""
    context = ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as connection:
        assert connection.recv(1) == b"x"
        for _ in range(reads):
            connection.send(b"y")
            time.sleep(_APART_S)


def hits(name: str, reads: int) -> int:
    """The hits of as many handshakes, with so many reads behind each."""
    with server(name) as (pid, port), Shakes(pid) as shakes:
        for _ in range(TIMES):
            _talk(port, reads)
    assert endings(shakes.document) == {"success": TIMES}
    assert losses(shakes.document) == {}
    return int(shakes.document["cost"]["hits"])


def test_reads_of_data_hit_nothing() -> None:
    """Before Linux 6.3, and since 7.0, each that waits hits the two sites at which goroutines park."""
    few, many = (hits(NEEDED[-1], reads) for reads in (0, READS))
    assert few > 0
    if (6, 3) <= release() < (7,):
        assert many == few
    else:
        assert few < many <= few + 2 * TIMES * (READS + 1)
