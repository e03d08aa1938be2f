#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows where the time goes that `trace` adds: samples of a saturated pump and of an nginx worker, untraced, with empty
programs at the same sites and with `trace`, in rounds in which they take turns; and what threads that count in the same rows
cost each other."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from bench.measuring import command
from bench.measuring.rounds import COST
from bench.measuring.tracers import FLOOR, SSLLATENCY, Tracer, attached, tracers
from bench.measuring.works import WARM_UP, Pump, WorkerWork, build_pump, choose_cpus, worker
from bench.page import machine
from bench.profile import page
from bench.profile.samples import by_symbol, recorded

_TURNS = 10_000


def main() -> int:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="how many rounds, at least 2 (8)")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="how long each is sampled (3)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page to write (none)")
    arguments = parser.parse_args()

    def make_page() -> str:
        measured = _measure(arguments.rounds, arguments.seconds)
        return page.render(*measured, machine(), arguments.seconds)

    return command.run(make_page, arguments.output, "bench-profile")


def _measure(rounds: int, seconds: float) -> tuple[list[page.Round], list[page.Round], list[page.SharedRound]]:
    """Rounds of the pump, of the worker, and of several pumps at once."""
    compared = [Tracer(page.UNTRACED), *(tracer for tracer in tracers() if tracer.name in (FLOOR, SSLLATENCY))]
    cpus = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as directory:
        program, cpu = build_pump(Path(directory)), choose_cpus().server
        pumped, served, shared = [], [], []
        for number in range(1, rounds + 1):
            print(f"==> profile: round {number}", file=sys.stderr)
            shuffled: Sequence[Tracer] = random.sample(compared, len(compared))
            pumped.append({tracer.name: _of_pump(tracer, program, cpu, Path(directory), seconds) for tracer in shuffled})
            served.append(_of_worker(shuffled, Path(directory), seconds))
            shared.append(
                {
                    (tracer.name, is_shared): _at_once(tracer, program, cpus, Path(directory), seconds / 2, is_shared=is_shared)
                    for tracer in shuffled
                    for is_shared in (True, False)
                }
            )
    return pumped, served, shared


def _at_once(tracer: Tracer, program: Path, cpus: int, directory: Path, seconds: float, *, is_shared: bool) -> float:
    """Nanoseconds of CPU time a call where each CPU has a pump: a thread of one process, or a process of its own."""
    with ExitStack() as stack:
        pumps = [Pump(program, cpu, cpus if is_shared else 1) for cpu in range(1 if is_shared else cpus)]
        for pump in pumps:
            stack.enter_context(pump)
        stack.enter_context(attached(tracer, [pump.pid for pump in pumps], directory))
        costs = []
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            for pump in pumps:
                pump.begin(_TURNS)
            costs.append(fmean([pump.took(_TURNS) for pump in pumps]))
        return fmean(costs)


def _of_pump(tracer: Tracer, program: Path, cpu: int, directory: Path, seconds: float) -> page.Profile:
    file = directory / "perf.data"
    file.unlink(missing_ok=True)
    with Pump(program, cpu) as pump, attached(tracer, [pump.pid], directory):
        pump.run(WARM_UP)
        costs = []
        with recorded(cpu, file):
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                costs.append(pump.run(_TURNS))
        return page.Profile(sum(costs) / len(costs), by_symbol(file, pump.pid))


def _of_worker(tracers: Sequence[Tracer], directory: Path, seconds: float) -> page.Round:
    """A round of an nginx worker at full speed, keep-alive."""
    file, cpus, round_ = directory / "perf.data", choose_cpus(), {}
    with worker(directory, cpus) as server:
        work, pid = WorkerWork(server, cpus, directory, seconds), server.worker_pids()[0]
        with work.round():
            for tracer in tracers:
                file.unlink(missing_ok=True)
                with attached(tracer, [server.master_pid], directory), recorded(cpus.server, file):
                    sample = work.untraced()
                round_[tracer.name] = page.Profile(sample[COST], by_symbol(file, pid))
    return round_


if __name__ == "__main__":
    sys.exit(main())
