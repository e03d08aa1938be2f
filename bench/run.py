#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares no tracing, empty BPF programs at the same sites, ssllatency and bpftrace's ssllatency.bt, in one run; with
--memory what each command and engine holds instead.

The works: a TLS pump, an nginx worker under wrk with keep-alive and with Connection: close, a pump among many, and one that
isn't traced. Everything that is started is ended, and nothing is left but the page.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))


from bench import figures, memory, page, processes
from bench.measuring import command, hits, others, stated
from bench.measuring.rounds import Effort, Measured, Work, measure
from bench.measuring.tracers import (
    AGAIN,
    FLOOR,
    HANDSHAKES,
    ROOT,
    SNOOP,
    SSLLATENCY,
    BenchError,
    Tracer,
    attached,
    engines,
    forget,
    left_out,
    pricing,
    tracers,
)
from bench.measuring.works import (
    CLOSE_EACH,
    CONNECTIONS,
    Batches,
    Cpus,
    Pump,
    PumpWork,
    WorkerWork,
    build_pump,
    choose_cpus,
    worker,
)

PROGRAMS = {"nginx": "nginx-light", "wrk": "wrk", "taskset": "util-linux", "cc": "gcc", "openssl": "openssl"}
ENGINES = "Engines"
PUMP, KEEP_ALIVE, CLOSE = "SSL_read and SSL_write in the pump", "A request with keep-alive", "A request with Connection: close"
CLOSE_PRICED = f"{CLOSE}, by fewer tracers"  # in more rounds, as what they add is a small part of such a request
GROWTH, UNRELATED = "Many processes", "An unrelated process"


@dataclass(frozen=True)
class Scale:
    """The effort of each work, the seconds of a window of the worker, the pump's batches; starts of each tracer, and how many
    processes at most."""

    efforts: dict[str, Effort]
    seconds: dict[str, float]
    batches: Batches
    starts: int
    processes: int


THOROUGH = Scale(
    efforts={
        PUMP: Effort(at_least=8, budget_s=80, within=0.005),
        ENGINES: Effort(at_least=4, budget_s=80, within=0.03),
        KEEP_ALIVE: Effort(at_least=8, budget_s=140, within=0.005),
        CLOSE: Effort(at_least=8, budget_s=285, within=0.003),
        CLOSE_PRICED: Effort(at_least=8, budget_s=690, within=0.001),
        GROWTH: Effort(at_least=4, budget_s=90, within=0.03),
        UNRELATED: Effort(at_least=8, budget_s=60, within=0.01),
    },
    seconds={KEEP_ALIVE: 0.8, CLOSE: 1.5},
    batches=Batches(turns=10_000, number=5),
    starts=5,
    processes=500,
)
QUICK = Scale(
    efforts={
        PUMP: Effort(at_least=3, budget_s=30, within=0.03),
        ENGINES: Effort(at_least=2, budget_s=0, within=0.03),
        KEEP_ALIVE: Effort(at_least=3, budget_s=40, within=0.03),
        CLOSE: Effort(at_least=3, budget_s=40, within=0.01),
        CLOSE_PRICED: Effort(at_least=3, budget_s=30, within=0.01),
        GROWTH: Effort(at_least=3, budget_s=20, within=0.03),
        UNRELATED: Effort(at_least=3, budget_s=15, within=0.03),
    },
    seconds={KEEP_ALIVE: 0.4, CLOSE: 0.6},
    batches=Batches(turns=5_000, number=3),
    starts=2,
    processes=8,
)


@dataclass
class Results:
    """What was measured: the rounds of each work, and beside them what a hit of a probe cost and how many other processes held
    probes; seconds from each tracer's start to attached, without plans kept from before and with them."""

    works: dict[str, Measured] = field(default_factory=dict)
    hits: dict[str, hits.Hits] = field(default_factory=lambda: defaultdict(hits.Hits))
    others: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    first_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    later_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def main() -> int:
    """Measure, and print or write the page."""
    arguments = _arguments()
    scale = QUICK if arguments.quick else THOROUGH

    def make_page() -> str:
        _check_machine()
        return _memory_page() if arguments.memory else _page(_measure(scale, Random(arguments.seed)), scale, arguments.seed)

    return command.run(make_page, arguments.output, "bench")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three minutes, to see that it works; writes no page by itself")
    parser.add_argument("--memory", action="store_true", help="what each command and engine holds, about two minutes")
    parser.add_argument("--seed", type=int, metavar="N", default=SystemRandom().randrange(1_000_000),
                        help="of the orders in which the tracers take turns (another one each time)")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="the page (docs/measured/benchmarks.md; --memory: memory.md there; --quick: none)")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.output is None and not arguments.quick:
        arguments.output = ROOT / "docs" / "measured" / ("memory.md" if arguments.memory else "benchmarks.md")
    return arguments


def _check_machine() -> None:
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


def _measure(scale: Scale, random: Random) -> Results:
    results, cpus = Results(), choose_cpus()

    def rounds_of(name: str, work: Work, rows: Sequence[Tracer]) -> None:
        results.works[name] = measure(work, rows, scale.efforts[name], random, between=_before_round(results, name))

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ssllatency-bench-")))
        program = build_pump(directory)
        _measure_starts(results, scale.starts, program, cpus, directory)

        def pumps(*, idle: int = 0, bystander: bool = False) -> PumpWork:
            return PumpWork(program, cpus.server, directory, scale.batches, idle=idle, bystander=bystander)

        with pumps() as work:
            rounds_of(PUMP, work, tracers())
            rounds_of(ENGINES, work, engines())
        with worker(directory, cpus) as server:
            rounds_of(KEEP_ALIVE, WorkerWork(server, cpus, directory, scale.seconds[KEEP_ALIVE]), tracers())
            close = WorkerWork(server, cpus, directory, scale.seconds[CLOSE], *CLOSE_EACH)
            rounds_of(CLOSE, close, tracers())
            rounds_of(CLOSE_PRICED, close, pricing())
        with pumps(idle=scale.processes - 1) as work:
            rounds_of(GROWTH, work, processes.growing(scale.processes))
        with pumps(idle=1, bystander=True) as work:
            rounds_of(UNRELATED, work, processes.unrelated())
    return results


def _before_round(results: Results, name: str) -> Callable[[int], None]:
    """What happens before each round of a work: it is announced, the cost of a hit measured, and looked who else traces."""

    def before(number: int) -> None:
        print(f"==> {name}: round {number}", file=sys.stderr)
        results.others[name].append(len(others.tracing()))
        results.hits[name].measure()

    return before


def _measure_starts(results: Results, starts: int, program: Path, cpus: Cpus, directory: Path) -> None:
    """Of each tracer, on the pump. All plans are in the cache then."""
    with Pump(program, cpus.server) as pump:
        for tracer in (tracer for tracer in tracers() if tracer.command):
            print(f"==> starts: {tracer.name}", file=sys.stderr)
            for _ in range(starts):
                forget(tracer, directory)
                for seconds in (results.first_s, results.later_s):
                    with attached(tracer, [pump.pid], directory) as run:
                        pass
                    seconds[tracer.name].append(run.attach_s)


def _beside(results: Results, name: str) -> str:
    """What stands beside the figures of a work."""
    return "\n".join(filter(None, (hits.sentence(results.hits[name].median), others.sentence(results.others[name]))))


def _page(results: Results, scale: Scale, seed: int) -> str:
    works, served = results.works, {name: results.works[name] for name in (PUMP, KEEP_ALIVE, CLOSE)}
    priced = served | {CLOSE: works[CLOSE_PRICED]}
    hit = {name: beside.median for name, beside in results.hits.items()}
    return page.PAGE.format(
        machine=page.machine(),
        seed=seed,
        left_out="".join(f"- {sentence}\n" for sentence in left_out()),
        again=AGAIN,
        floor=FLOOR,
        aim=figures.AIM,
        verdicts=figures.verdicts(served),
        batches=scale.batches,
        connections=CONNECTIONS,
        pump_rounds=works[PUMP].rounds,
        pump_hits=_beside(results, PUMP),
        pump=figures.pump_table(works[PUMP], hit[PUMP]),
        engine_rounds=works[ENGINES].rounds,
        engine_hits=_beside(results, ENGINES),
        engines=figures.plain_table(works[ENGINES], hit[ENGINES]),
        keep_alive_s=scale.seconds[KEEP_ALIVE],
        keep_alive_rounds=works[KEEP_ALIVE].rounds,
        keep_alive_busy=figures.busy_sentence(works[KEEP_ALIVE]),
        keep_alive_hits=_beside(results, KEEP_ALIVE),
        keep_alive=figures.worker_table(works[KEEP_ALIVE], hit[KEEP_ALIVE]),
        close_s=scale.seconds[CLOSE],
        close_rounds=works[CLOSE].rounds,
        close_busy=figures.busy_sentence(works[CLOSE]),
        close_hits=_beside(results, CLOSE),
        close=figures.worker_table(works[CLOSE], hit[CLOSE]),
        priced_rounds=works[CLOSE_PRICED].rounds,
        priced_hits=_beside(results, CLOSE_PRICED),
        programs=figures.against(priced, SSLLATENCY, FLOOR),
        snoop=figures.against(served, SNOOP, SSLLATENCY),
        stated_aim=100 * stated.AIM,
        stated=figures.stated_table(
            [
                (work, priced[work], tracer, quantity)
                for work, quantity in ((PUMP, stated.PER_CALL), (KEEP_ALIVE, stated.SHARE), (CLOSE, stated.SHARE))
                for tracer in (FLOOR, SSLLATENCY, HANDSHAKES)
            ]
            + [(UNRELATED, works[UNRELATED], SSLLATENCY, stated.PER_CALL)]
        ),
        repeated=sum(measured.repeated for measured in works.values()),
        growth_rounds=works[GROWTH].rounds,
        growth_hits=_beside(results, GROWTH),
        growth=figures.growth_table(works[GROWTH]),
        unrelated_rounds=works[UNRELATED].rounds,
        unrelated_hits=_beside(results, UNRELATED),
        unrelated=figures.plain_table(works[UNRELATED], hit[UNRELATED]),
        start_rounds=scale.starts,
        start=figures.start_table(results.first_s, results.later_s),
    )


if __name__ == "__main__":
    sys.exit(main())
