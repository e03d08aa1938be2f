#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares no tracing, an empty BPF program at the same sites, ssllatency and bpftrace's ssllatency.bt, in one run; with
--memory what each command and engine holds instead.

Two works: the TLS pump, and an nginx worker under wrk with keep-alive and with Connection: close. Each round measures all
tracers one after the other on each work. Everything that is started is ended, and nothing is left but the page.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from tests.live.clients.counted import ClientError
from tests.live.servers.nginx import Nginx, ServerError

import figures
import memory
import page
import processes
from ssllatency.engines.attach.links import LINK_EACH_PROCESS
from tracers import ROOT, SNOOP, SSLLATENCY, BenchError, Tracer, attached, forget, tracers
from works import CONNECTIONS, Cpus, Pump, build_pump, choose_cpus, client, measure_pump, measure_worker, worker

PROGRAMS = {"nginx": "nginx-light", "wrk": "wrk", "taskset": "util-linux", "cc": "gcc", "openssl": "openssl"}
KEEP_ALIVE, CLOSE = "keep-alive", "Connection: close"


@dataclass(frozen=True)
class Effort:
    """How much is measured: rounds, seconds of each load, turns of each of the pump's batches, batches; rounds with many
    processes, and how many processes at most."""

    rounds: int
    seconds: int
    turns: int
    batches: int
    growth_rounds: int
    processes: int


THOROUGH = Effort(rounds=7, seconds=3, turns=20_000, batches=5, growth_rounds=3, processes=500)
QUICK = Effort(rounds=3, seconds=1, turns=10_000, batches=3, growth_rounds=1, processes=8)

Table = defaultdict[str, list[float]]


def _table() -> Table:
    return defaultdict(list)


@dataclass
class Results:
    """What was measured, each by tracer, one for each round. `first_s` and `later_s` are from a tracer's start to attached to
    the pump, without plans and with them."""

    pump: Table = field(default_factory=_table)
    rate: dict[str, Table] = field(default_factory=lambda: defaultdict(_table))
    cpu_ns: dict[str, Table] = field(default_factory=lambda: defaultdict(_table))
    first_s: Table = field(default_factory=_table)
    later_s: Table = field(default_factory=_table)
    growth: processes.Growth = field(default_factory=processes.Growth)


def main() -> int:
    """Measure, and print or write the page."""
    arguments = _arguments()
    effort = QUICK if arguments.quick else THOROUGH
    try:
        _check_machine()
        text = _memory_page() if arguments.memory else _page(_measure(effort), effort)
    except (BenchError, ServerError, ClientError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if arguments.output:
        arguments.output.write_text(text)
        print(f"==> written to {arguments.output}", file=sys.stderr)
    print(text)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute, to see that it works; writes no page by itself")
    parser.add_argument("--memory", action="store_true", help="what each command and engine holds, about two minutes")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="the page (docs/benchmarks.md, with --memory docs/memory.md, with --quick none)")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.output is None and not arguments.quick:
        arguments.output = ROOT / "docs" / ("memory.md" if arguments.memory else "benchmarks.md")
    return arguments


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise BenchError("tracing needs root: sudo make bench.")
    os.environ["PATH"] += ":/usr/sbin"
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if missing:
        raise BenchError(f"programs are missing: apt-get install {' '.join(missing)}.")
    doctor = [str(ROOT / "tools" / "ssllatency"), "doctor", "--quiet"]
    done = subprocess.run(doctor, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError((done.stdout + done.stderr).strip())


def _memory_page() -> str:
    held, cpus = {}, choose_cpus()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ssllatency-bench-")))
        server = stack.enter_context(worker(directory, cpus))
        for tracer in memory.rows():
            print(f"==> memory: {tracer.name}", file=sys.stderr)
            held[tracer.name] = memory.measure(server, tracer, cpus, directory)
    return page.MEMORY_PAGE.format(
        machine=page.machine(),
        runs=2 * memory.ROUNDS,
        seconds=memory.LOAD_S,
        connections=CONNECTIONS,
        table=memory.table(held),
    )


def _measure(effort: Effort) -> Results:
    results = Results()
    all_tracers, cpus = tracers(), choose_cpus()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ssllatency-bench-")))
        program = build_pump(directory)
        pump = stack.enter_context(Pump(program, cpus.server))
        server = stack.enter_context(worker(directory, cpus))
        for number in range(1, effort.rounds + 1):
            for tracer in all_tracers:
                print(f"==> round {number} of {effort.rounds}: {tracer.name}", file=sys.stderr)
                _pump_round(results, effort, pump, tracer, directory)
                _worker_round(results, effort, server, cpus, tracer, directory)
        print("==> many processes", file=sys.stderr)
        results.growth = processes.measure(program, cpus, directory, effort.growth_rounds, effort.processes)
    return results


def _pump_round(results: Results, effort: Effort, pump: Pump, tracer: Tracer, directory: Path) -> None:
    forget(tracer, directory)
    cost, run = measure_pump(pump, tracer, directory, effort.turns, effort.batches)
    results.pump[tracer.name].append(cost)
    if tracer.command:
        results.first_s[tracer.name].append(run.attach_s)
        with attached(tracer, pump.pid, directory) as again:
            pass
        results.later_s[tracer.name].append(again.attach_s)


def _worker_round(results: Results, effort: Effort, server: Nginx, cpus: Cpus, tracer: Tracer, directory: Path) -> None:
    loads = {
        KEEP_ALIVE: client(server, cpus, effort.seconds),
        CLOSE: client(server, cpus, effort.seconds, "-H", "Connection: close"),
    }
    for name, what in measure_worker(server, tracer, directory, loads).items():
        results.rate[name][tracer.name].append(what.rate)
        results.cpu_ns[name][tracer.name].append(what.cpu_ns)


def _page(results: Results, effort: Effort) -> str:
    works = {
        "SSL_read and SSL_write in the pump": results.pump,
        "A request with keep-alive": results.cpu_ns[KEEP_ALIVE],
        "A request with Connection: close": results.cpu_ns[CLOSE],
    }
    return page.PAGE.format(
        machine=page.machine(),
        aim=figures.AIM,
        verdict=figures.verdict(works),
        turns=effort.turns,
        batches=effort.batches,
        rounds=effort.rounds,
        connections=CONNECTIONS,
        seconds=effort.seconds,
        pump=figures.pump_table(results.pump),
        keep_alive=figures.worker_table(results.rate[KEEP_ALIVE], results.cpu_ns[KEEP_ALIVE]),
        snoop=figures.against(works, SNOOP, SSLLATENCY),
        close=figures.worker_table(results.rate[CLOSE], results.cpu_ns[CLOSE]),
        limit=LINK_EACH_PROCESS,
        growth=processes.table(results.growth),
        unrelated=processes.unrelated_table(results.growth),
        start=figures.start_table(results.first_s, results.later_s),
    )


if __name__ == "__main__":
    sys.exit(main())
