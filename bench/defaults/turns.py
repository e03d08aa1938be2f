#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what a server and a bystander keep while `trace`, `handshakes`, `snoop`, `top` or `watch` runs with nothing but a
target, in many short turns with and without: what else the machine does from one minute to the next is in both alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from bench.defaults import servers
from bench.defaults.borders import END, START, at_borders
from bench.defaults.page import kept_pairs
from bench.defaults.runs import BystanderBesideTwin, some
from bench.defaults.twin import BesideTwin, ServerUnderLoad, WorkerUnderLoad
from bench.measuring import command, hits
from bench.measuring.intervals import Pair
from bench.measuring.rounds import COST, Work
from bench.measuring.tracers import AGAIN, Tracer
from bench.measuring.works import CLOSE_EACH, WorkerWork, build_pump, choose_cpus, copied_libraries, worker
from bench.page import machine

_TRACED = ("trace", "handshakes", "snoop", "top", "watch")
_LOADS = (
    ("nginx, kept connections", (), "rsa"),
    ("nginx, close", CLOSE_EACH, "rsa"),
    ("nginx, close, ECDSA", CLOSE_EACH, "ecdsa"),
)
_OTHERS = (("haproxy", servers.haproxy), ("asyncio", servers.python), ("PostgreSQL", servers.postgresql))
_STRANGER_TURNS = 250_000  # of a bystander and of its twin, together about as long as the others are looked at
PAGE = """\
# What the defaults keep, by turns

Written by `make bench-turns`; run it again to measure your own machine. [defaults.md](defaults.md) has more commands and
servers, with wider bounds.

{machine}

Each command runs with nothing but a target (`-p PID`) for {seconds:g} s, between two times as long without it, {pairs} times
in turn on the same server under the same load. What is kept is the work that the server, or the bystander, gets done in
the same CPU time of its own, of all its processes, by the mean of just before and just after; with its 95 % interval. The CPU
time for a request is divided by that of a twin meanwhile: a server on the same CPU, under the same load, with its own copies of
the libraries: what a busy host takes from one it takes from the other. So other work changes it little, and the CPU time that
the command itself takes isn't in it. It begins when the command says that it traces. *{again}* is no tracing measured as if it
were one.
Servers, clients and the bystander are those of [defaults.md](defaults.md). *close, ECDSA* is *close* with a key on P-256: its
handshakes take less of the server's own time.

{hits}

{kept}

## Where it starts and ends

What the nginx of the first column keeps in the one second that begins with the command's start, in which files are looked at,
programs loaded and probes set, and in the one that begins with Ctrl-C, in which probes are removed and the report is made; each
beside the seconds just before and just after the run, {borders} times. The kernel's work for probes is a part of that. The
command itself runs on the server's or the client's CPU meanwhile.

{at_borders}
"""
Results = Mapping[str, Mapping[str, Sequence[Pair]]]


def in_turns(work: Work, tracers: Sequence[Tracer], number: int) -> dict[str, list[Pair]]:
    """So many pairs of each tracer: its cost, and the mean of those just before and just after."""
    pairs: dict[str, list[Pair]] = {tracer.name: [] for tracer in tracers}
    with work.round():
        before = work.untraced()[COST]
        for _ in range(number):
            for tracer in tracers:
                traced = work.traced(tracer)[COST]
                after = work.untraced()[COST]
                pairs[tracer.name].append(Pair((before + after) / 2, traced))
                before = after
    return pairs


def _works(directory: Path, seconds: float) -> Iterator[tuple[str, Work]]:
    cpus, beside = choose_cpus(), directory / "twin"
    beside.mkdir()
    copies = copied_libraries(beside)
    with worker(directory, cpus) as server, worker(directory, cpus, copies) as twin:
        for name, options, key in _LOADS:
            own, other = (
                WorkerUnderLoad(WorkerWork(one, cpus, directory, seconds, *options, key=key)) for one in (server, twin)
            )
            yield name, BesideTwin(own, other, directory, seconds)
    for name, serve in _OTHERS:
        own, other = ServerUnderLoad(partial(serve, directory, cpus)), ServerUnderLoad(partial(serve, beside, cpus, copies))
        yield name, BesideTwin(own, other, directory, seconds)
    yield "a bystander", BystanderBesideTwin(build_pump(directory), cpus.server, directory, _STRANGER_TURNS)


def measured(directory: Path, number: int, seconds: float) -> Results:
    """The pairs of each work by command."""
    results = {}
    for name, work in _works(directory, seconds):
        print(f"==> by turns: {name}", file=sys.stderr)
        results[name] = in_turns(work, some(*_TRACED), number)
    return results


def measured_at_borders(directory: Path, number: int) -> Results:
    """The pairs of each border by command."""
    print("==> starts and ends", file=sys.stderr)
    with servers.nginx(directory, choose_cpus()) as served:
        by_name = {
            tracer.name: at_borders(served, tracer, directory, number)
            for tracer in some("trace", "handshakes")
            if tracer.command
        }
    return {border: {name: pairs[border] for name, pairs in by_name.items()} for border in (START, END)}


def make_page(results: Results, borders: Results, costs: str, seconds: float, numbers: tuple[int, int]) -> str:
    """The page of these results; `costs`: the sentence about what a hit took meanwhile; `numbers`: of pairs of turns, and of
    runs whose borders were looked at."""
    return PAGE.format(
        machine=machine(),
        seconds=seconds,
        pairs=numbers[0],
        again=AGAIN,
        hits=costs,
        kept=kept_pairs(results),
        borders=numbers[1],
        at_borders=kept_pairs(borders),
    )


def main() -> int:
    """Measure, and print or write the page."""
    arguments = command.arguments_of_turns(__doc__, pairs=12, seconds=1.0)
    numbers = (arguments.pairs, max(2, arguments.pairs // 2))

    def measure(directory: Path) -> tuple[Results, Results]:
        results = measured(directory, numbers[0], arguments.seconds)
        return results, measured_at_borders(directory, numbers[1])

    def page() -> str:
        (results, borders), costs = hits.with_costs(measure)
        return make_page(results, borders, costs, arguments.seconds, numbers)

    return command.run(page, arguments.output, "bench-turns")


if __name__ == "__main__":
    sys.exit(main())
