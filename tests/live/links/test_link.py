# SPDX-License-Identifier: Apache-2.0
"""The link itself: its delay, its losses, and that nothing of it stays behind."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import pytest

from tests.live.links.link import TO_CLIENT, TO_SERVER, Link, awake

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 30


@contextmanager
def echoes(link: Link) -> Iterator[socket.socket]:
    """A connection through the link, whose other end sends back what comes."""
    with ExitStack() as stack:
        with link.at_server():
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        with link.at_client():
            near = stack.enter_context(socket.create_connection(listener.getsockname(), timeout=20))
        far = listener.accept()[0]

        def echo() -> None:
            with far:
                while piece := far.recv(100):
                    far.sendall(piece)

        thread = threading.Thread(target=echo)
        thread.start()
        yield near
        near.shutdown(socket.SHUT_WR)
        thread.join()


def round_trip_s(connection: socket.socket) -> float:
    began = time.monotonic()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    return time.monotonic() - began


@pytest.mark.parametrize("delay_s", [0.005, 0.01])
def test_a_round_trip_takes_the_delay_twice(delay_s: float) -> None:
    with awake(), Link() as link, echoes(link) as connection:
        own_s = median(round_trip_s(connection) for _ in range(TIMES))
        link.set(delay_s)
        planted = [round_trip_s(connection) for _ in range(TIMES)]
    assert 2 * delay_s <= min(planted) <= own_s + 2 * delay_s * 1.05  # whatever else the machine does only adds to it


@pytest.mark.parametrize("way", [TO_SERVER, TO_CLIENT])
def test_the_segment_that_is_named_is_lost_once(way: int) -> None:
    with Link() as link, echoes(link) as connection:
        link.drop(way, 2)
        for _ in range(3):
            round_trip_s(connection)
        segments = [each for each in link.segments() if each.way == way]
    (lost,) = (each for each in segments if not each.delivered_ns)
    assert [each.sequence - segments[0].sequence for each in segments if each.delivered_ns] == [0, 1, 2]
    assert segments.index(lost) == 1


def test_the_same_seed_loses_the_same() -> None:
    lost = []
    for seed in (1, 1, 2):
        with Link() as link, echoes(link) as connection:
            link.set(loss=0.2, seed=seed)
            for _ in range(12):
                round_trip_s(connection)
            lost.append([index for index, each in enumerate(link.segments()) if not each.delivered_ns])
    assert lost[0] == lost[1] != lost[2]


def test_nothing_stays_behind_an_error() -> None:
    before = Path("/proc/thread-self/ns/net").readlink()
    link = Link()
    with pytest.raises(RuntimeError, match="net:"), link, link.at_client():
        raise RuntimeError(Path("/proc/thread-self/ns/net").readlink())
    assert Path("/proc/thread-self/ns/net").readlink() == before
    assert not Path(f"/proc/{link.pid}").exists()
