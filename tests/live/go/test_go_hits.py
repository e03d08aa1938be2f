# SPDX-License-Identifier: Apache-2.0
"""Handshakes of a Go program are traced without a hit in the data that its connections carry, on kernels that tell what
receives and sends return, to programs at two tracepoints. All processes of the machine hit these: they are there while there
is a Go program to trace, and for some seconds longer; and what came before they are back isn't told as work."""

from __future__ import annotations

import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.live.clients.counted import TLS_1_2
from tests.live.clients.slow import slow_to_shake_hands
from tests.live.commands.handshakes import Shakes, endings, spent_ns
from tests.live.commands.trace import losses, tracepoints
from tests.live.go.test_go import NEEDED, built
from tests.live.go.test_go_queues import server
from tests.live.go.test_go_transports import OWN_WORK
from tests.live.handshakes.test_queue import said
from tests.machine import needs_tracepoints, tells_receives
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

TIMES, READS = 5, 200
TRACEPOINTS = {"sock_recv_length", "sock_send_length"}
LATE, LATE_S = 8, 0.05
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
    if tells_receives():
        assert many == few
    else:
        assert few < many <= few + 2 * TIMES * (READS + 1)


def shake_late(port: int) -> None:
    """Handshakes of clients that take their time each."""
    for _ in range(LATE):
        slow_to_shake_hands(TLS_1_2, port, lambda: time.sleep(LATE_S))


def wait_until_told(shakes: Shakes, times: int) -> None:
    """Waits until so many handshakes have ended at the server, too."""
    wait_for(lambda: shakes.printed('"ended_s"') >= times)


@contextmanager
def tracing() -> Iterator[Shakes]:
    """Programs of that name are traced; one had run before, and some handshakes with it were told."""
    with ExitStack() as first:
        _, port = first.enter_context(server(NEEDED[-1]))
        with Shakes(options=("--comm", built(NEEDED[-1]).name[:15])) as shakes:
            assert tracepoints(shakes.pid) >= TRACEPOINTS
            shake_late(port)
            wait_until_told(shakes, LATE)
            first.close()
            assert tracepoints(shakes.pid) >= TRACEPOINTS, "not before it is sure that it doesn't just restart"
            wait_for(lambda: not tracepoints(shakes.pid) & TRACEPOINTS)
            yield shakes


def test_they_go_with_the_last_go_program_and_come_back_with_the_next() -> None:
    needs_tracepoints()
    with tracing() as shakes:
        with server(NEEDED[-1]) as (_, port):
            wait_for(lambda: tracepoints(shakes.pid) >= TRACEPOINTS)
            shake_late(port)
            wait_until_told(shakes, 2 * LATE)
        wait_for(lambda: not tracepoints(shakes.pid) & TRACEPOINTS)
    assert endings(shakes.document) == {"success": 2 * LATE}
    assert len({single["pid"] for single in shakes.singles}) == 2
    for single in shakes.singles:
        assert spent_ns([single], "wait_peer") > 0.8 * LATE_S * 1e9
        assert spent_ns([single], "calls") < 0.8 * LATE_S * 1e9
    assert shakes.document["handshakes"]["slept"] == 0
    assert losses(shakes.document) == {}


def test_handshakes_that_come_before_they_are_back_may_have_waited() -> None:
    """Of a program that starts while the tool doesn't run; one handshake goes on when it does again."""
    needs_tracepoints()
    with tracing() as shakes:
        shakes.send(signal.SIGSTOP)
        with server(NEEDED[-1]) as (_, port):
            shake_late(port)

            def go_on() -> None:
                shakes.send(signal.SIGCONT)
                wait_for(lambda: tracepoints(shakes.pid) >= TRACEPOINTS)

            slow_to_shake_hands(TLS_1_2, port, go_on)
            shake_late(port)
            wait_until_told(shakes, 3 * LATE + 1)
    assert endings(shakes.document) == {"success": 3 * LATE + 1}
    assert shakes.document["handshakes"]["slept"] == LATE + 1
    for single in shakes.singles[LATE : 2 * LATE]:
        assert spent_ns([single], "wait_peer") == 0
        assert spent_ns([single], "rest") > 0.8 * LATE_S * 1e9
    for single in (*shakes.singles[:LATE], *shakes.singles[-LATE:]):
        assert spent_ns([single], "wait_peer") > 0.8 * LATE_S * 1e9
    assert not OWN_WORK & {sentence.rule.name for sentence in said(shakes)}
    assert losses(shakes.document) == {}
