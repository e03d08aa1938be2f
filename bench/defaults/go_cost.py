#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what `trace` and `handshakes` add to a handshake, and to a read and a write, of a server of Go's crypto/tls beside
those of nginx with OpenSSL, in turns with and without."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from bench.defaults import servers
from bench.defaults.added import in_ns, table_of_added
from bench.defaults.runs import TARGET, some
from bench.defaults.turns import in_turns
from bench.defaults.twin import BesideTwin, ServerUnderLoad, WorkerUnderLoad
from bench.measuring import command, hits
from bench.measuring.intervals import Pair
from bench.measuring.tracers import AGAIN, PROGRAM, Tracer
from bench.measuring.works import CLOSE_EACH, WorkerWork, choose_cpus, copied_libraries, worker
from bench.page import machine, version

KEPT, FULL = "a read and a write", "a full handshake"
PAGE = """\
# What tracing costs Go programs

Written by `make bench-go`; run it again to measure your own machine. This page is the home of these figures: other pages point
here.

{machine}
- Go: {version}

A server of Go's crypto/tls and an nginx of one worker with OpenSSL, each with a CPU to itself, RSA-2048 and 1 KiB an answer,
under the same load of wrk on another CPU. *{kept}*: a request on a connection that is kept, which is one Read and one Write, or
one SSL_read and one SSL_write. *{full}*: a connection for each request. Each command is there for {seconds:g} s, between two
times as long without it, {pairs} times in turn. The figures are the server's own CPU time for one of these (95 % intervals in
parentheses): what the command added, and how many times the cost without it is that with it. It is divided by that of a twin
meanwhile, which does the same work on the same CPU and isn't traced: what a busy host takes from one it takes from the other.
*{again}* is no tracing measured as if it were a command: what lies within its interval can't be told from none.

{hits}

Without `--exact` there is a budget of 5 % of the CPU time. The second in which a command first looks what a call costs is in
these figures, which in a run of minutes is a small part of it ([by-turns.md](by-turns.md)).

{tables}

Go's functions differ in two ways ([go.md](../internals/go.md)): the `ret`s at which a handshake and some of its phases end are
single-stepped on x86-64, while reads and writes end at cheaper instructions; and before Linux 6.3, and since 7.0, a read that
has to wait crosses the two sites of waits, which cost `handshakes` a look-up each even if no handshake runs.
"""
Results = Mapping[str, Mapping[str, Mapping[str, Sequence[Pair]]]]


def tracers() -> tuple[Tracer, ...]:
    """The commands, with the budget and without, and no tracing."""
    exact = (Tracer(f"{name} --exact", (PROGRAM, name, *TARGET, "--exact")) for name in ("trace", "handshakes"))
    return (*some("trace", "handshakes"), *exact)


def _works(directory: Path, seconds: float) -> Iterator[tuple[str, str, BesideTwin]]:
    cpus, beside = choose_cpus(), directory / "twin"
    beside.mkdir()
    copies = copied_libraries(beside)
    for load, options in ((KEPT, ()), (FULL, CLOSE_EACH)):
        with worker(directory, cpus) as server, worker(directory, cpus, copies) as twin:
            own, other = (WorkerUnderLoad(WorkerWork(one, cpus, directory, seconds, *options)) for one in (server, twin))
            yield load, "OpenSSL", BesideTwin(own, other, directory, seconds)
        own, other = (ServerUnderLoad(partial(servers.go, folder, cpus, *options)) for folder in (directory, beside))
        yield load, "Go", BesideTwin(own, other, directory, seconds)


def measured(directory: Path, number: int, seconds: float) -> Results:
    """The pairs by load, library and command, in nanoseconds."""
    results: dict[str, dict[str, Mapping[str, Sequence[Pair]]]] = {KEPT: {}, FULL: {}}
    for load, library, work in _works(directory, seconds):
        print(f"==> {load}: {library}", file=sys.stderr)
        by_name = in_turns(work, tracers(), number)
        results[load][library] = in_ns(by_name, work.twins_ns)
    return results


def make_page(results: Results, costs: str, seconds: float, number: int) -> str:
    """The page of these results of so many pairs of turns; `costs`: the sentence about what a hit took meanwhile."""
    return PAGE.format(
        machine=machine(),
        version=version("go", "version"),
        kept=KEPT,
        full=FULL,
        seconds=seconds,
        pairs=number,
        again=AGAIN,
        hits=costs,
        tables="\n\n".join(table_of_added(load, by_library) for load, by_library in results.items()),
    )


def main() -> int:
    """Measure, and print or write the page."""
    arguments = command.arguments_of_turns(__doc__, pairs=8, seconds=0.8)

    def page() -> str:
        results, costs = hits.with_costs(lambda directory: measured(directory, arguments.pairs, arguments.seconds))
        return make_page(results, costs, arguments.seconds, arguments.pairs)

    return command.run(page, arguments.output, "bench-go")


if __name__ == "__main__":
    sys.exit(main())
