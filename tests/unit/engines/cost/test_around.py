# SPDX-License-Identifier: Apache-2.0
"""What tracing took, estimated from the processes' CPU time per system call before, during and after tracing."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ssllatency.engines.cost.around import AFTER_S, Around, look
from ssllatency.model.cost import Moment


@dataclass
class Server:
    """A process that takes so many nanoseconds for each system call, of which it makes as many as it can."""

    call_ns: float = 5_000
    now_s: float = 100.0
    done: dict[int, tuple[int, int]] = field(default_factory=lambda: {7: (1_000, 10**9)})

    def look(self, pids: Collection[int]) -> Moment:
        return Moment(self.now_s, {pid: done for pid, done in self.done.items() if pid in pids})

    def work(self, seconds: float) -> None:
        self.now_s += seconds
        if 7 in self.done:
            calls, cpu_ns = self.done[7]
            self.done[7] = calls + round(seconds * 1e9 / self.call_ns), cpu_ns + round(seconds * 1e9)


def share(server: Server, before_ns: float, traced_ns: float, after_ns: float, before_s: float = 0.3) -> float | None:
    around = Around([7], None, server.look, server.work)
    server.call_ns = before_ns
    server.work(before_s)
    around.before_attach()
    around.before_attach()
    server.call_ns = traced_ns
    server.work(0.1)
    around.attached()
    server.work(2)
    assert around.share() is None, "not while it is traced"
    around.before_detach()
    server.work(0.1)
    around.before_detach()
    around.detached()
    server.call_ns = after_ns
    return around.share()


def test_what_the_tracer_takes_to_set_and_remove_probes() -> None:
    """From the first attachment's probes to the last one's, and back; not what it does in between."""
    own_ns = iter([100, 130, 170, 1_000, 1_030, 1_005])
    around = Around([7], None, Server().look, lambda _: None, lambda: next(own_ns))
    assert around.attach_ns == 0
    around.before_attach()
    around.before_attach()
    around.attached()
    around.attached()
    assert around.attach_ns == 70
    around.before_detach()
    around.detached()
    assert around.attach_ns == 70 + 30


def test_the_excess_is_the_share() -> None:
    server = Server()
    assert share(server, 5_000, 10_000, 5_000) == pytest.approx(0.5)
    assert share(Server(), 4_900, 10_000, 5_100) == pytest.approx(0.5)


def test_the_time_after_is_waited_for() -> None:
    server = Server()
    began_s = server.now_s
    share(server, 5_000, 10_000, 5_000)
    assert server.now_s == pytest.approx(began_s + 0.3 + 0.1 + 2 + 0.1 + AFTER_S)


@pytest.mark.parametrize(
    ("before_ns", "traced_ns", "after_ns", "before_s"),
    [
        (5_000, 5_500, 5_000, 0.3),  # too little to be told from noise
        (5_000, 4_000, 5_000, 0.3),
        (5_000, 10_000, 9_000, 0.3),  # another load after than before
        (5_000, 10_000, 5_000, 0.05),  # too short a time before
        (5e6, 10_000, 5e6, 0.3),  # too few calls
    ],
)
def test_what_cannot_be_told_is_not(before_ns: float, traced_ns: float, after_ns: float, before_s: float) -> None:
    assert share(Server(), before_ns, traced_ns, after_ns, before_s) is None


def test_processes_that_have_ended_tell_nothing() -> None:
    server = Server()
    around = Around([7, 8], server.look([7, 8]), server.look, server.work)
    server.work(0.3)
    around.before_attach()
    around.attached()
    server.work(1)
    around.before_detach()
    around.detached()
    del server.done[7]
    assert around.share() is None


def test_a_look_tells_what_the_kernel_does() -> None:
    before = look([os.getpid()]).done[os.getpid()]
    for _ in range(100):
        Path("/dev/null").read_bytes()
    after = look([os.getpid(), 2**22 - 1])
    assert list(after.done) == [os.getpid()]
    assert after.done[os.getpid()][0] >= before[0] + 100
    assert after.done[os.getpid()][1] > before[1]
    assert look(range(1000)).done == {}
