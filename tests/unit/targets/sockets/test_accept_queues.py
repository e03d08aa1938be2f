# SPDX-License-Identifier: Apache-2.0
"""Connections that find no room, to sockets of our own, and in a network namespace of their own."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ssllatency.accept_queue import AcceptQueue, AcceptQueueReading
from ssllatency.targets.sockets import accept_queues, holders, sock_diag
from ssllatency.targets.sockets.accept_queues import AcceptQueues
from ssllatency.targets.sockets.sock_diag import Listening, ListeningSocket, listening_sockets

OURS = [os.getpid()]
HOLDS = 2
HERE = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
ELSEWHERE = """
import socket, sys
with socket.create_server(("127.0.0.1", 4433), backlog=3):
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def full(family: socket.AddressFamily = socket.AF_INET, connections: int = HOLDS + 1) -> Iterator[socket.socket]:
    """A socket that listens and has so many connections, as many as there is room for, or fewer."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(family))
        listening.bind((HERE[family], 0))
        listening.listen(HOLDS)
        for _ in range(connections):
            stack.enter_context(socket.create_connection(listening.getsockname()[:2], timeout=5))
        yield listening


def knock(listening: socket.socket, times: int) -> None:
    """Connections for which there is no room; none of them tries again."""
    for _ in range(times):
        with socket.socket(listening.family) as client:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.connect(listening.getsockname()[:2])


def at(reading: AcceptQueueReading, listening: socket.socket) -> AcceptQueue | None:
    assert reading.queues is not None
    return next((queue for queue in reading.queues if queue.port == listening.getsockname()[1]), None)


@pytest.mark.parametrize("family", HERE)
def test_connections_without_room_are_counted(family: socket.AddressFamily) -> None:
    """Those that come after the first reading."""
    with full(family) as listening:
        knock(listening, 3)
        queues, port = AcceptQueues(), listening.getsockname()[1]
        assert at(queues.read(OURS), listening) == AcceptQueue(port, HERE[family], HOLDS, 0)
        knock(listening, 5)
        assert at(queues.read(OURS), listening) == AcceptQueue(port, HERE[family], HOLDS, 5)
        knock(listening, 2)
        assert at(queues.read(OURS), listening) == AcceptQueue(port, HERE[family], HOLDS, 7)


def test_connections_with_room_are_not() -> None:
    queues = AcceptQueues()
    with full(connections=0) as listening:
        queues.read(OURS)
        for _ in range(10):
            with socket.create_connection(listening.getsockname(), timeout=5):
                listening.accept()[0].close()
        found = at(queues.read(OURS), listening)
        assert found
        assert found.overflows == 0


def test_a_socket_that_comes_later_counts_from_its_beginning() -> None:
    queues = AcceptQueues()
    queues.read(OURS)
    with full() as listening:
        knock(listening, 4)
        found = at(queues.read(OURS), listening)
        assert found
        assert found.overflows == 4


def test_a_socket_of_others_is_not_told() -> None:
    with full() as listening, subprocess.Popen(["sleep", "60"]) as other:
        try:
            queues = AcceptQueues()
            assert at(queues.read([other.pid]), listening) is None
            knock(listening, 4)
            assert at(queues.read([other.pid]), listening) is None
            assert queues.read([]).queues == ()
        finally:
            other.kill()


def test_what_is_dropped_for_another_reason_is_no_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace's own count bounds that of a socket, whose count goes round."""
    drops, overflows = iter([2**32 - 5, 4]), iter([10, 10, 13, 13])
    with full(connections=0) as listening:
        inode = str(os.fstat(listening.fileno()).st_ino)
        monkeypatch.setattr(
            accept_queues,
            "listening_sockets",
            lambda _: Listening((ListeningSocket(1, inode, 443, "0.0.0.0", 511, next(drops)),)),
        )
        monkeypatch.setattr(accept_queues, "listen_overflows", lambda _: next(overflows))
        queues = AcceptQueues()
        assert queues.read(OURS).queues == (AcceptQueue(443, "0.0.0.0", 511, 0),)
        assert queues.read(OURS).queues == (AcceptQueue(443, "0.0.0.0", 511, 3),)


def test_nothing_is_known_where_the_kernel_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path | None) -> list[ListeningSocket]:
        raise PermissionError

    monkeypatch.setattr(accept_queues, "listening_sockets", refuse)
    with full():
        assert AcceptQueues().read(OURS).queues is not None  # the sum is told by /proc
        monkeypatch.setattr(accept_queues, "listen_overflows", refuse)
        assert AcceptQueues().read(OURS).queues is None


def test_a_namespace_of_which_the_kernel_tells_no_more_is_not_taken_for_one_without_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = AcceptQueues()
    queues.read(OURS)

    def refuse(_: Path | None) -> list[ListeningSocket]:
        raise PermissionError

    monkeypatch.setattr(accept_queues, "listening_sockets", refuse)
    assert queues.read(OURS).queues is None


def test_a_process_that_goes_into_another_namespace_meanwhile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of it then is of the other one."""
    names = iter(["net:[1]", "net:[2]", "net:[3]"])  # ours, its own, and what it is in after the reading
    monkeypatch.setattr(AcceptQueues, "_namespace_of", lambda *_: next(names))
    monkeypatch.setattr(accept_queues, "listening_sockets", lambda _: Listening(()))
    assert AcceptQueues().read(OURS) == AcceptQueueReading(None)


def test_the_namespace_of_a_process_that_has_not_run_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    read = AcceptQueues._namespace_of
    ran_ns = dict.fromkeys(OURS, 5)
    queues = AcceptQueues(clock_ns=lambda pid: ran_ns[pid])
    monkeypatch.setattr(AcceptQueues, "_namespace_of", lambda self, pid: asked.append(pid) or read(self, pid))
    expected = []
    for ran_on in (False, False, True):
        ran_ns |= {pid: ran_ns[pid] + ran_on for pid in OURS}
        asked.clear()
        assert queues.read(OURS).queues is not None
        expected.append(set(map(str, OURS)) <= set(asked))
    assert expected == [True, False, True]


def test_overflows_may_be_of_processes_whose_descriptors_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> set[str]:
        raise PermissionError

    monkeypatch.setattr(holders, "inodes_of", refuse)
    with full() as listening:
        queues = AcceptQueues()
        assert queues.read(OURS) == AcceptQueueReading((), 0)
        knock(listening, 4)
        reading = queues.read(OURS)
    assert reading.queues == ()
    assert reading.untold >= 4


def test_of_sockets_that_are_gone_only_a_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sock_diag, "_PAST", 8)
    for _ in range(100):
        with full(connections=0):
            there = len(listening_sockets().sockets)
    assert sock_diag._socket.cache_info().currsize <= 2 * there + 8


def test_a_process_that_is_gone_is_passed_over() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert AcceptQueues().read([process.pid]).queues is None


@pytest.mark.parametrize("answer", [b"\x08", struct.pack("=IHHII", 4, 20, 0, 0, 0), struct.pack("=IHHII", 2**31, 20, 0, 0, 0)])
def test_an_answer_that_is_none_is_refused(answer: bytes) -> None:
    with pytest.raises(OSError, match="which sockets listen"):
        list(sock_diag.sockets_of(iter([answer])))


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to enter a network namespace")
def test_another_network_namespace_is_looked_into() -> None:
    """By a thread of its own, so that we stay in ours; what was known of it stays once its processes are gone."""
    home = Path("/proc/self/ns/net").readlink()
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$0" -c "$1"', sys.executable, ELSEWHERE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        network = Path("/proc", str(other.pid), "ns", "net").stat().st_ino
        queues, there = AcceptQueues(), AcceptQueue(4433, "127.0.0.1", 3, 0, network)
        assert queues.read([other.pid]).queues == (there,)
        assert 4433 not in {one.port for one in listening_sockets().sockets}
        assert Path("/proc/self/ns/net").readlink() == Path("/proc/thread-self/ns/net").readlink() == home
        other.communicate()
    assert queues.read([]).queues == (there,)


def test_more_sockets_than_are_looked_at_hide_none_of_the_other_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sock_diag, "_MOST", 1)
    with full(), full(), full(socket.AF_INET6, connections=0):
        found = listening_sockets().sockets
        assert len(found) == 2
        assert {":" in one.address for one in found} == {True, False}


def test_sockets_of_others_beyond_what_is_looked_at_hide_no_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user can open thousands, so that a server's isn't among those that are looked at: then it isn't known whose it is."""
    monkeypatch.setattr(sock_diag, "_MOST", 0)
    with full() as listening:
        queues = AcceptQueues()
        assert queues.read(OURS).untold == 0
        knock(listening, 3)
        reading = queues.read(OURS)
        assert at(reading, listening) is None
        assert reading.untold >= 3
        monkeypatch.setattr(sock_diag, "_MOST", 4096)
        queues = AcceptQueues()
        queues.read(OURS)
        knock(listening, 2)
        assert queues.read(OURS).untold == 0


def told(*readings: tuple[int, dict[int, int]], untold: list[int] | None = None) -> list[dict[int, int]]:
    """What is told of the queues at ports by each reading: ListenOverflows, and by port what its socket has dropped; those at
    negative ports are others'. `untold` gets how many it isn't known of whose they are."""
    namespace = accept_queues._Namespace(readings[0][0])
    with ExitStack() as stack:
        inodes = {}
        for port in {port for _, drops in readings for port in drops}:
            inodes[port] = str(os.fstat(stack.enter_context(socket.create_server(("127.0.0.1", 0))).fileno()).st_ino)
        results = []
        for overflows, drops in readings:
            sockets = [
                ListeningSocket(port, inodes[port] if port > 0 else "0", port, "::", 511, number)
                for port, number in drops.items()
            ]
            namespace.take(Listening(sockets), overflows, OURS, Path("/proc"))
            results.append({queue.port: queue.overflows for queue in namespace.queues})
            if untold is not None:
                untold.append(namespace.untold)
    return results


def test_overflows_that_may_be_of_others_are_not_told_as_the_processes() -> None:
    """A user may have the queue of his own overflow, and the server drop what is no connection at all."""
    untold: list[int] = []
    assert told((0, {443: 0, -1: 0}), (100, {443: 100, -1: 100}), untold=untold)[-1] == {443: 0}
    assert untold == [0, 100]
    untold.clear()  # who drops something now and then takes no more than that away, and hides nothing later
    readings = [(0, {443: 0, -1: 0}), (40, {443: 38, -1: 2}), (40, {443: 38, -1: 5000}), (70, {443: 68, -1: 5000})]
    assert told(*readings, untold=untold)[1:] == [{443: 38}, {443: 38}, {443: 68}]
    assert untold[-1] == 0
    untold.clear()
    assert told((0, {443: 0, -1: 0}), (10, {443: 10, -1: 3}), (10, {443: 10, -1: 3}), untold=untold)[-1] == {443: 7}
    assert untold == [0, 3, 3]


def test_overflows_of_a_socket_that_is_gone_are_not_those_of_later_drops() -> None:
    assert told((0, {443: 0}), (50, {443: 0}), (50, {443: 0}), (50, {443: 50}))[-1] == {443: 0}


def test_a_socket_whose_owner_is_asked_for_later_counts_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    with full(connections=0) as ours, full(connections=0) as another:
        inodes = [str(os.fstat(each.fileno()).st_ino) for each in (ours, another)]
        asked = iter([(set(), True), (set(), False), (set(), False), ({inodes[1]}, True)])
        monkeypatch.setattr(holders.Holders, "ask", lambda *_, **__: next(asked))
        namespace = accept_queues._Namespace(0)
        for overflows, drops in ((0, ()), (4, (4,)), (4, (4,)), (4, (4,))):
            sockets = [ListeningSocket(7, inodes[1], 443, "::", 511, number) for number in drops]
            namespace.take(Listening(sockets), overflows, OURS, Path("/proc"))
        assert [queue.overflows for queue in namespace.queues] == [4]
        assert namespace.untold == 0


def test_no_more_is_told_than_the_kernel_counts_in_all() -> None:
    """And what one reading has too early is made up by the next."""
    assert told((7, {80: 1, 443: 2}), (57, {80: 101, 443: 52}))[-1] == {80: 50, 443: 0}
    assert told((7, {80: 1, 443: 2}), (57, {80: 31, 443: 22}))[-1] == {80: 30, 443: 20}
    assert told((0, {443: 0}), (5, {443: 6}), (6, {443: 6}))[1:] == [{443: 5}, {443: 6}]
    assert told((0, {443: 0}), (5, {443: 9}), (5, {443: 9}), (9, {443: 9}))[-1] == {443: 5}
    assert told((10, {443: 0}), (3, {443: 4}))[-1] == {443: 0}


def test_a_socket_that_is_closed_keeps_what_it_had() -> None:
    assert told((0, {80: 0, 443: 0}), (9, {80: 0, 443: 9}), (9, {80: 0}))[-1] == {80: 0, 443: 9}


def test_places_without_a_socket_are_told_together_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept_queues, "_MOST", 2)
    readings = [(0, dict.fromkeys(range(1, 5), 0)), (8, dict.fromkeys(range(1, 5), 2)), (8, {4: 2})]
    assert told(*readings)[-1] == {0: 6, 4: 2}
