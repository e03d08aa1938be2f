# SPDX-License-Identifier: Apache-2.0
"""A Go server that starts itself anew and hands its listener on, to be upgraded: in a new process, after which the old
one ends, or in its own. Each handshake is counted exactly, against the clients, whoever served it."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from tests.live.clients.counted import TIMEOUT_S
from tests.live.commands.export import Export
from tests.live.commands.handshakes import Shakes, endings
from tests.live.commands.trace import losses
from tests.live.go.test_go import NEEDED, built
from tests.live.servers.queues import felt_ns
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
RESTARTS, CLIENTS, TIMES = 3, 3, 10
SERVING_S = 0.1  # by each process


class RestartingServer:
    """tests/go/restarts.go, running. `pids`: its processes so far, the newest last."""

    def __init__(self, name: str) -> None:
        words = [str(built(name)), "restarts"]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pids: list[int] = []
        self._hear()

    def restart(self, how: str) -> None:
        """Has the newest process start the program anew, and waits until that accepts connections."""
        assert self._process.stdin
        self._process.stdin.write(f"{how}\n")
        self._process.stdin.flush()
        self._hear()

    def end(self) -> None:
        """Ends all of its processes; the first one is killed where it doesn't end."""
        try:
            self._process.communicate(timeout=TIMEOUT_S)
        finally:
            self._process.kill()

    def _hear(self) -> None:
        assert self._process.stdout
        pid, self.port = map(int, self._process.stdout.readline().split())
        self.pids.append(pid)


@contextmanager
def serving(name: str) -> Iterator[RestartingServer]:
    """The server, until the end of the block."""
    server = RestartingServer(name)
    try:
        yield server
    finally:
        server.end()


def metric(export: Export, name: str) -> int:
    """The value of a metric without labels, or with these."""
    (line,) = [line for line in export.metrics().splitlines() if line.startswith(f"ssllatency_{name} ")]
    return int(line.split()[-1])


def in_flight(export: Export) -> tuple[int, int]:
    """The handshakes and the calls that run, by the metrics: each handshake is within another call."""
    return metric(export, "handshake_in_flight"), metric(export, "call_in_flight")


def shake_hands(port: int, over: threading.Event) -> int:
    """Makes connections, one after the other, until it is over: how many."""
    number = 0
    while not over.is_set():
        felt_ns(port)
        number += 1
    return number


@pytest.mark.parametrize("name", NEEDED)
def test_each_handshake_is_counted_while_a_new_process_takes_over(name: str) -> None:
    """At any moment, as the clients don't wait for it, and none of their connections fails."""
    over = threading.Event()
    with serving(name) as server, Shakes(server.pids[0]) as shakes, ThreadPoolExecutor() as pool:
        clients = [pool.submit(shake_hands, server.port, over) for _ in range(CLIENTS)]
        try:
            time.sleep(SERVING_S)
            for _ in range(RESTARTS):
                server.restart("child")
                time.sleep(SERVING_S)
        finally:
            over.set()
        completed = sum(client.result() for client in clients)
    assert endings(shakes.document) == {"success": completed}
    assert {single["pid"] for single in shakes.singles} == set(server.pids)
    assert len(set(server.pids)) == RESTARTS + 1
    assert losses(shakes.document) == {}


@pytest.mark.parametrize("name", NEEDED)
def test_each_handshake_is_counted_where_a_process_executes_itself_anew(name: str) -> None:
    """With a handshake under way each time, of a client that says nothing: its goroutine and its connection are gone with the
    old program, and what lies at their addresses then is another's."""
    with serving(name) as server, Shakes(server.pids[0]) as shakes:
        for _ in range(RESTARTS):
            for _ in range(TIMES):
                felt_ns(server.port)
            with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as silent:
                time.sleep(SERVING_S)
                server.restart("exec")
                assert silent.recv(1) == b""
        for _ in range(TIMES):
            felt_ns(server.port)
    assert set(server.pids) == {server.pids[0]}
    assert endings(shakes.document) == {"success": (RESTARTS + 1) * TIMES}
    assert losses(shakes.document).get("unmatched_entries", 0) + shakes.document["handshakes"]["in_flight"] <= RESTARTS
    assert losses(shakes.document).keys() <= {"unmatched_entries"}


@pytest.mark.parametrize("name", NEEDED)
def test_nothing_of_the_program_before_is_in_flight(name: str) -> None:
    """Each time there are calls of silent clients, which end with it."""
    with serving(name) as server, Export(server.pids[0], options=("--exact",)) as export:
        for number in range(1, RESTARTS + 1):
            with ExitStack() as held:
                for _ in range(TIMES):
                    held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S))
                wait_for(lambda: in_flight(export) == (TIMES, 2 * TIMES))
                server.restart("exec")
                felt_ns(server.port)
                wait_for(lambda: in_flight(export) == (0, 0))
            lost = metric(export, 'losses_total{kind="unmatched_entries"}')
            assert lost == number * 2 * TIMES
