# SPDX-License-Identifier: Apache-2.0
"""The processor time of processes, those that end meanwhile included: of real processes, against what each says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ssllatency.engines.read import cpu_time
from ssllatency.engines.read.cpu_time import ProcessTimes

BEYOND_ALL_PIDS = 1 << 22
# Burns so many milliseconds of processor time by each line it reads, itself or by a child, and says what it has burnt so far.
BURNER = """
import os, sys, time

def burn(ms):
    end = time.process_time_ns() + ms * 1_000_000
    while time.process_time_ns() < end:
        pass

for line in sys.stdin:
    who, ms = line.split()
    if who == "child":
        pid = os.fork()
        if not pid:
            burn(int(ms))
            os._exit(0)
        os.waitpid(pid, 0)
    else:
        burn(int(ms))
    print(time.process_time_ns(), flush=True)
"""


class Burner:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def burn(self, who: str, ms: int) -> int:
        assert self._process.stdin
        assert self._process.stdout
        print(who, ms, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextmanager
def burner() -> Iterator[Burner]:
    with subprocess.Popen(
        [sys.executable, "-I", "-c", BURNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Burner(process)


def test_what_was_used_before_does_not_count() -> None:
    with burner() as process:
        before_ns = process.burn("self", 60)
        times = ProcessTimes()
        times.begin([process.pid])
        after_ns = process.burn("self", 40)
        times.see([])
    used = times.of(process.pid)
    assert used is not None
    assert 40e6 <= used <= after_ns - before_ns + 20e6 + 40e6
    assert times.total_ns == used


def test_a_child_counts_once_its_parent_has_waited_for_it() -> None:
    with burner() as process:
        process.burn("self", 1)
        times = ProcessTimes()
        times.begin([process.pid])
        process.burn("child", 100)
        times.see([])
        own = times.of(process.pid)
    assert own is not None
    assert own < 90e6
    assert times.total_ns >= 80e6  # the kernel tells of children in hundredths of a second


def test_one_that_started_later_counts_from_its_start_and_stays_counted_when_it_has_ended() -> None:
    times = ProcessTimes()
    times.begin([])
    with burner() as process:
        said_ns = process.burn("self", 60)
        times.see([process.pid])
        assert times.total_ns >= said_ns
    times.see([])
    assert times.of(process.pid) is None
    assert times.total_ns >= said_ns


def test_a_traced_child_of_a_traced_parent_is_not_counted_twice() -> None:
    times = ProcessTimes()
    times.begin([os.getpid()])
    with burner() as process:
        said_ns = process.burn("self", 150)
        times.see([process.pid])
        both_ns = times.total_ns
    times.see([])
    assert both_ns >= said_ns
    grown_ns = times.total_ns - both_ns
    assert grown_ns < 120e6  # by what both did meanwhile, and not by the child's 150 ms again


def test_the_clock_of_a_process_that_was_seen_is_read_once_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other, asked = os.getpid(), os.getppid(), list[int]()

    def clock(pid: int) -> int:
        asked.append(pid)
        return len(asked)

    monkeypatch.setattr(cpu_time, "process_clock_ns", clock)
    times = ProcessTimes()
    times.begin([own])
    assert [times.clock_ns(own), times.clock_ns(own), times.clock_ns(other)] == [1, 1, 2]
    times.see([])
    assert times.clock_ns(own) == 3
    assert asked == [own, other, own]


def test_a_process_that_is_not_there_has_no_time() -> None:
    times = ProcessTimes()
    times.begin([BEYOND_ALL_PIDS])
    assert times.of(BEYOND_ALL_PIDS) is None
    assert times.clock_ns(BEYOND_ALL_PIDS) is None
    assert times.total_ns == 0


def test_who_has_the_pid_of_one_that_has_ended_counts_from_its_own_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are two processes, however soon the second one came."""
    running = {"started": BEYOND_ALL_PIDS, "own_ns": 10}
    monkeypatch.setattr(cpu_time, "process_clock_ns", lambda _: running["own_ns"])
    monkeypatch.setattr(cpu_time, "_look", lambda _, own_ns: (1, running["started"], (own_ns, 0)))
    times = ProcessTimes()
    times.see([7])
    running["own_ns"] = 100
    times.see([7])
    running |= {"started": BEYOND_ALL_PIDS + 1, "own_ns": 5}
    times.see([7])
    assert (times.of(7), times.total_ns) == (5, 105)
