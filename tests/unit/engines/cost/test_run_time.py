# SPDX-License-Identifier: Apache-2.0
"""The windows in which the kernel measures BPF programs: when they are open, and what is made of what it says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from ssllatency.engines.cost.run_time import ENOUGH_RUNS, RunTime

PROBE, TRACEPOINT = 3, 4
TICK_S = 0.005


@dataclass
class Kernel:
    """Programs whose runs take 200 ns at the probe and 50 ns at the tracepoint, and are measured while that is enabled."""

    now_s: float = 100.0
    runs_a_second: float = 10_000
    refuses: bool = False
    measuring: int = -1
    measured_s: float = 0.0
    interrupted_ns: int = 0
    runs: dict[int, int] = field(default_factory=lambda: {PROBE: 7, TRACEPOINT: 70})

    def enable(self) -> int:
        if self.refuses:
            return -1
        self.measuring = os.open("/dev/null", os.O_RDONLY)
        return self.measuring

    def is_measuring(self) -> bool:
        try:
            os.fstat(self.measuring)
        except OSError:
            return False
        return True

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds
        if self.is_measuring():
            self.measured_s += seconds
            for program in self.runs:
                self.runs[program] += round(self.runs_a_second * seconds)

    def statistics_of(self, program: int) -> tuple[int, int]:
        runs = self.runs[program]
        return runs * (200 if program == PROBE else 50) + self.interrupted_ns, runs


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def start(kernel: Kernel) -> Iterator[Callable[[], RunTime]]:
    started: list[RunTime] = []

    def make() -> RunTime:
        started.append(RunTime(kernel.enable, kernel.statistics_of, lambda: kernel.now_s))
        started[-1].add([PROBE], [TRACEPOINT])
        return started[-1]

    yield make
    for run_time in started:
        run_time.close()


def run(kernel: Kernel, run_time: RunTime, seconds: float) -> None:
    for _ in range(round(seconds / TICK_S)):
        run_time.tick()
        kernel.pass_by(TICK_S)
    run_time.tick()


def test_nothing_is_known_before_anything_was_measured(kernel: Kernel, start: Callable[[], RunTime]) -> None:
    kernel.runs_a_second = 0
    run_time = start()
    run(kernel, run_time, 2)
    assert run_time.mean_ns is None
    assert run_time.elsewhere == 0


def test_it_measures_until_it_has_enough_runs_and_then_in_windows(kernel: Kernel, start: Callable[[], RunTime]) -> None:
    run_time = start()
    run(kernel, run_time, ENOUGH_RUNS / kernel.runs_a_second + 2 * TICK_S)
    begun_s = kernel.measured_s
    run(kernel, run_time, 100)
    assert 0.005 < (kernel.measured_s - begun_s) / 100 < 0.05
    assert run_time.mean_ns == 200
    assert run_time.elsewhere == pytest.approx(kernel.runs_a_second * 50e-9, rel=1e-3)


def test_few_runs_are_all_measured(kernel: Kernel, start: Callable[[], RunTime]) -> None:
    kernel.runs_a_second = 200
    run_time = start()
    run(kernel, run_time, 4)
    assert kernel.measured_s == pytest.approx(4)
    assert run_time.mean_ns == 200


def test_a_run_that_was_interrupted_isnt_taken_for_what_all_cost(kernel: Kernel, start: Callable[[], RunTime]) -> None:
    """A hypervisor gives the processor to another guest for 30 ms amid one of the first runs."""
    kernel.runs_a_second = 2_000
    run_time = start()
    for _ in range(40):
        run(kernel, run_time, TICK_S)
        kernel.interrupted_ns = 30_000_000
        assert run_time.settled_mean_ns in {None, 200}
    assert run_time.settled_mean_ns == run_time.mean_ns == 200


def test_the_first_runs_are_said_but_not_settled(kernel: Kernel, start: Callable[[], RunTime]) -> None:
    kernel.runs_a_second = 2_000
    run_time = start()
    run(kernel, run_time, TICK_S)
    assert run_time.mean_ns == 200
    assert run_time.settled_mean_ns is None


def test_where_the_kernel_refuses_nothing_is_known_and_it_is_not_asked_again(
    kernel: Kernel, start: Callable[[], RunTime]
) -> None:
    kernel.refuses = True
    run_time = start()
    run_time.tick()
    kernel.refuses = False
    run(kernel, run_time, 2)
    assert not kernel.is_measuring()
    assert run_time.mean_ns is None


def test_programs_that_are_freed_are_asked_no_more(kernel: Kernel, start: Callable[[], RunTime]) -> None:
    """A handshake's session frees its programs before the functions' beside it, while a window may be open."""
    run_time = start()
    run_time.tick()
    kernel.pass_by(0.01)
    run_time.leave_out([PROBE])
    del kernel.runs[PROBE]
    run_time.tick()
    assert run_time.mean_ns == 200
    run_time.close()


def test_closing_ends_the_measuring(kernel: Kernel, start: Callable[[], RunTime]) -> None:
    run_time = start()
    run_time.tick()
    assert kernel.is_measuring()
    kernel.pass_by(0.01)
    run_time.close()
    assert not kernel.is_measuring()
    assert run_time.mean_ns == 200
    run_time.close()
