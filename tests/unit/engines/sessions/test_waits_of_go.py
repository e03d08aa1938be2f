# SPDX-License-Identifier: Apache-2.0
"""When receives and sends are watched: while there is a process of a Go program, and for some time longer."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.processes import Processes
from ssllatency.engines.base import Request
from ssllatency.engines.bpf.loadable import Closable
from ssllatency.engines.sessions import arrivals
from ssllatency.engines.sessions.arrivals import Arrivals

NOBODY = 1 << 22  # no process has this number
LIVE = (6, 3)


class Links:
    """An attachment that keeps its links; one program is refused."""

    def __init__(self, refused: str = "") -> None:
        self.processes = Processes(Request(images=(), targets=()))
        self.open: list[str] = []
        self._refused = refused

    def attach_tracepoint(self, program: str) -> Closable:
        if program == self._refused:
            raise OSError
        self.open.append(program)
        return cast("Closable", program)

    def remove_links(self, links: list[Closable]) -> None:
        self.open = [program for program in self.open if program not in cast("list[str]", links)]
        links.clear()


class Clock:
    """The time that the module sees."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)


def watching(monkeypatch: pytest.MonkeyPatch, links: Links) -> tuple[Arrivals, Any, Clock]:
    """Waits that are watched, the kernel side's counters, and the time."""
    clock = Clock()
    monkeypatch.setattr(arrivals, "time", clock)
    monkeypatch.setattr(arrivals, "release", lambda: LIVE)
    watched = Arrivals(cast("Attachment", links), wants_sockets=False)
    counters = SimpleNamespace(watches_transfers=0, transfers_since_ns=0, without_socket=0, without_port=0)
    monkeypatch.setattr(watched, "_counters", counters, raising=False)
    watched.watch_waits()
    return watched, counters, clock


def pass_s(watched: Arrivals, clock: Clock, seconds: int) -> None:
    for _ in range(4 * seconds):
        clock.now_s += 0.25
        watched.poll()


def test_links_stay_while_a_process_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    links = Links()
    links.processes.of_go = {NOBODY, os.getpid()}
    watched, counters, clock = watching(monkeypatch, links)
    pass_s(watched, clock, 60)
    assert links.open == ["at_receive", "at_send"]
    assert (counters.watches_transfers, counters.transfers_since_ns) == (1, 0)
    assert links.processes.of_go == {os.getpid()}


def test_links_go_some_time_after_the_last_process_and_come_back_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    links = Links()
    links.processes.of_go = {NOBODY}
    watched, counters, clock = watching(monkeypatch, links)
    pass_s(watched, clock, 9)
    assert links.open
    links.processes.of_go = {os.getpid()}  # it has restarted
    pass_s(watched, clock, 9)
    links.processes.of_go = set()
    pass_s(watched, clock, 9)
    assert links.open
    assert counters.transfers_since_ns == 0
    pass_s(watched, clock, 3)
    assert not links.open
    assert (counters.watches_transfers, counters.transfers_since_ns) == (0, (1 << 64) - 1)
    links.processes.of_go = {os.getpid()}
    watched.poll()
    assert links.open == ["at_receive", "at_send"]
    assert (counters.watches_transfers, counters.transfers_since_ns) == (1, clock.monotonic_ns())


def test_links_are_back_before_the_probes_of_a_new_file(monkeypatch: pytest.MonkeyPatch) -> None:
    links = Links()
    watched, counters, clock = watching(monkeypatch, links)
    pass_s(watched, clock, 12)
    assert not links.open
    watched.watch_waits()
    assert links.open == ["at_receive", "at_send"]
    assert counters.transfers_since_ns == clock.monotonic_ns()
    pass_s(watched, clock, 9)
    assert links.open, "its process may only be known later"


def test_a_kernel_without_one_of_them_has_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    links = Links(refused="at_send")
    watched, counters, clock = watching(monkeypatch, links)
    pass_s(watched, clock, 12)
    assert links.open == []
    assert not watched.sees_waits
    assert (counters.watches_transfers, counters.transfers_since_ns) == (0, 0)
