# SPDX-License-Identifier: Apache-2.0
"""Reloads without an end, a Go program that collects garbage without an end, and one of ten thousand goroutines that starts
itself anew: counts stay exact, and neither process of export grows. SSLLATENCY_SOAK_S=3600 does so for an hour each."""

from __future__ import annotations

import itertools
import os
import re
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.live.clients.bad import context
from tests.live.clients.counted import TIMEOUT_S, TLS_1_3, Client
from tests.live.commands.export import Export
from tests.live.export.test_export import reload
from tests.live.go.test_go import NEEDED
from tests.live.go.test_go_queues import server as go_server
from tests.live.go.test_go_restarts import RestartingServer, serving
from tests.live.servers.nginx import Nginx
from tests.live.servers.queues import felt_ns
from tests.machine import leave_out, needs_memory
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

SOAK_S = float(os.environ.get("SSLLATENCY_SOAK_S", "15"))
_GROWTH = 3 << 20  # bytes: an allocator's arenas, not what each of many workers would leave
_COUNTS = {
    outcome: re.compile(rf'^ssllatency_handshake_duration_seconds_count\{{.*outcome="{outcome}".*\}} (\d+)$', re.MULTILINE)
    for outcome in ("success", "abandoned")
}
_IN_FLIGHT = re.compile(r"^ssllatency_handshake_in_flight (\d+)$", re.MULTILINE)
_LOST = re.compile(r'^ssllatency_losses_total\{kind="(\w+)"\} (\d+)$', re.MULTILINE)
# Workers of a reload may map the library before they are seen; on a busy machine a handshake sleeps now and then, and
# goroutines change threads.
_NOT_LOST = {"late_processes", "handshakes_slept", "handshakes_unsplit"}
_OPTIONS = ("--max-groups", "16")
_SILENT, _READING = 9_500, 500  # connections that are held at a time: in their handshakes, and behind them
_FEW = 20
_SERVED_S = SOAK_S / 60  # by each process at least: in a short run, one round of connections
_ROUNDS_TO_SETTLE = 6  # of those: the memory of the allocator is as large by then as ten thousand handshakes at a time need it


def resident(pid: int) -> int:
    """The bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def counted(text: str, outcome: str = "success") -> int:
    """The handshakes with such an outcome, by the metrics."""
    return sum(map(int, _COUNTS[outcome].findall(text)))


def memory_of(export: Export) -> dict[str, int]:
    """The bytes of memory of each process of export."""
    return {"tracer": resident(export.tracer), "speaker": resident(export.speaker)}


def soak(export: Export, make_more: Callable[[], int], cut: AbstractSet[str] = frozenset(), rounds_to_settle: int = 1) -> None:
    """Has handshakes made until the time is over: `make_more` returns how many it has made. Each is counted, none is lost but
    of kinds that are `cut` off, and neither process grows any more from a third of the time on, and once it has gone through
    `rounds_to_settle`."""
    began, made, rounds, settled = time.monotonic(), 0, 0, 0
    before: dict[str, int] = {}
    while (elapsed := time.monotonic() - began) < SOAK_S or not before or rounds < 1.5 * settled:
        made += make_more()
        rounds += 1
        time.sleep(1.0)  # a reading is made anew only after a second
        text = export.metrics()
        assert counted(text) == made
        if not before and elapsed > SOAK_S / 3 and rounds >= rounds_to_settle:
            before, settled = memory_of(export), rounds
    assert 'otel_metric_overflow="true"' not in text
    assert {kind: count for kind, count in _LOST.findall(text) if count != "0"}.keys() <= _NOT_LOST | cut
    grown = {process: now - before[process] for process, now in memory_of(export).items()}
    assert max(grown.values()) < _GROWTH, f"{grown} bytes from {before} on"


@pytest.mark.timeout(SOAK_S + 300)
def test_reloads_leave_nothing_behind(certificates: Path) -> None:
    with Nginx(certificates) as server, Export(server.master_pid, options=_OPTIONS) as export:
        client = Client(server.port["ecdsa"], TLS_1_3)

        def connect_and_reload() -> int:
            client.connect_times(5)
            reload(server)
            return 5

        soak(export, connect_and_reload)


@pytest.mark.timeout(SOAK_S + 300)
def test_collections_without_an_end_leave_nothing_behind() -> None:
    """Each takes goroutines through the sites that are set and taken away with the windows."""
    with go_server(NEEDED[-1], 1, work="collecting") as (pid, port), Export(pid, options=_OPTIONS) as export:

        def connect() -> int:
            for _ in range(20):
                felt_ns(port)
            return 20

        soak(export, connect)


class HeldConnections:
    """Ten thousand connections to a server, most of whose clients say nothing. `shaken`: the handshakes that clients have made;
    `left`: those that they have left; `cut`: the most calls of the server's that its end has cut off."""

    def __init__(self) -> None:
        self._silent: list[socket.socket] = []
        self._reading: list[ssl.SSLSocket] = []
        self.shaken = self.left = self.cut = 0

    def open(self, port: int) -> None:
        """Opens all that are missing."""
        while len(self._silent) < _SILENT:
            self._silent.append(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
        while len(self._reading) < _READING:
            self._shake_hands(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))

    def speak(self) -> None:
        """Has a few of the silent clients make their handshakes, and as many others of each kind leave."""
        for _ in range(_FEW):
            self._shake_hands(self._silent.pop())
            self._silent.pop().close()
            self._reading.pop(0).close()
        self.left += _FEW

    def restart(self, server: RestartingServer, how: str) -> None:
        """Has the server start itself anew, and closes all connections: a new process leaves the old one to its clients, a new
        program in the same process ends it."""
        server.restart(how)
        if how == "exec":
            self.cut += 2 * len(self._silent) + len(self._reading)  # a call for data that makes the handshake, and that
        else:
            self.left += len(self._silent)
        self.close()

    def close(self) -> None:
        """Closes all."""
        for connection in (*self._silent, *self._reading):
            connection.close()
        self._silent, self._reading = [], []

    def _shake_hands(self, connection: socket.socket) -> None:
        self._reading.append(context().wrap_socket(connection))
        assert self._reading[-1].recv(1) == b"x"
        self.shaken += 1


@contextmanager
def many_files(number: int) -> Iterator[None]:
    """This process may open so many files within the block, and so may those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(number, before[0]), max(number, before[1])))
    except (PermissionError, ValueError):
        leave_out(f"this machine allows a process {before[1]} open files, and {number} are needed")
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.timeout(SOAK_S + 300)
def test_ten_thousand_goroutines_and_restarts_leave_nothing_behind() -> None:
    """Stacks grow in handshakes, most of which wait all the while; a new process takes over, and the old one ends with them, or
    the process executes its program anew, which ends them all."""
    needs_memory(1 << 30, "ten thousand connections may take at both of their ends")
    options = (*_OPTIONS, "--exact", "--max-in-flight", str(4 * _SILENT))  # a while after a start those before are there still
    held, hows = HeldConnections(), itertools.cycle(("exec", "child"))
    with (
        many_files(_SILENT + _READING + 1000),
        serving(NEEDED[-1]) as server,
        Export(server.pids[0], options=options) as export,
        closing(held),
    ):
        restarted = time.monotonic()

        def in_flight() -> int:
            return int(_IN_FLIGHT.findall(export.metrics())[0])

        def connect() -> int:
            nonlocal restarted
            before = held.shaken
            if time.monotonic() - restarted > _SERVED_S:
                held.restart(server, next(hows))
                restarted = time.monotonic()
            held.open(server.port)
            wait_for(lambda: in_flight() == _SILENT)
            held.speak()
            for _ in range(_FEW):
                felt_ns(server.port)
            return held.shaken - before + _FEW

        soak(export, connect, {"unmatched_entries"}, _ROUNDS_TO_SETTLE)
        assert int(dict(_LOST.findall(export.metrics()))["unmatched_entries"]) <= held.cut
        wait_for(lambda: counted(export.metrics(), "abandoned") == held.left)
