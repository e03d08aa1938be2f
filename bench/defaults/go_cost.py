#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what `trace` and `handshakes` add to a handshake, and to a read and a write, of a server of Go's crypto/tls beside
those of nginx with OpenSSL, in turns with and without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.live.servers.nginx import make_certificate

from bench.defaults.servers import under_wrk
from bench.defaults.turns import CLOSE, in_turns
from bench.measuring import command, hits
from bench.measuring.intervals import Pair, of_added, of_ratio
from bench.measuring.rounds import COST, Sample, Work
from bench.measuring.tracers import AGAIN, PROGRAM, BenchError, Tracer, attached
from bench.measuring.works import SETTLE_S, Cpus, WorkerWork, choose_cpus, cpu_ns, worker
from bench.page import machine
from ssllatency.load.matrix.servers.process import free_ports

_SOURCE = Path(__file__).with_name("go_server.go")
_TARGET = ("-p", "{pid}")
TRACERS = (
    Tracer(AGAIN),
    Tracer("trace", (PROGRAM, "trace", *_TARGET)),
    Tracer("handshakes", (PROGRAM, "handshakes", *_TARGET)),
    Tracer("trace --exact", (PROGRAM, "trace", *_TARGET, "--exact")),
    Tracer("handshakes --exact", (PROGRAM, "handshakes", *_TARGET, "--exact")),
)
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
parentheses): what the command added, and how many times the cost without it is that with it. *{again}* is no tracing measured
as if it were a command.

{hits}

Without `--exact` there is a budget of 5 % of the CPU time. The second in which a command first looks what a call costs is in
these figures, which in a run of minutes is a small part of it ([by-turns.md](by-turns.md)).

{tables}

Go's functions differ in two ways ([go.md](../internals/go.md)): their exits are single-stepped on x86-64, and a read that has
to wait crosses the two sites of waits, which cost `handshakes` a look-up each even if no handshake runs.
"""
Results = Mapping[str, Mapping[str, Mapping[str, Sequence[Pair]]]]


class GoServer:
    """The server as a running process, which is asked what it has answered."""

    def __init__(self, directory: Path, cpus: Cpus) -> None:
        [self.port] = free_ports(1)
        pair = make_certificate("rsa", directory)
        words = [_built(directory), str(self.port), pair.certificate, pair.key]
        command_line = ["taskset", "-c", str(cpus.server), *words]
        self._process = subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self._process.pid

    def answered(self) -> int:
        """How many requests so far."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.communicate()


def _built(directory: Path) -> Path:
    """The program. BenchError where it can't be built."""
    program = directory / "go-server"
    if not program.exists():
        build = ("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(program), str(_SOURCE))
        if not shutil.which("go") or subprocess.run(build, check=False, env=os.environ | {"CGO_ENABLED": "0"}).returncode:
            raise BenchError("Go isn't installed, or can't build a server.")
    return program


class GoWork:
    """The server under wrk with some options, looked at over windows of `seconds`."""

    def __init__(self, directory: Path, cpus: Cpus, seconds: float, *options: str) -> None:
        self._directory, self._cpus, self._seconds, self._options = directory, cpus, seconds, options

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs the server and its load."""
        self._server = GoServer(self._directory, self._cpus)
        try:
            with under_wrk(self._directory, self._cpus, self._server.port, *self._options):
                yield
        finally:
            self._server.end()

    def untraced(self) -> Sample:
        """A request's cost."""
        time.sleep(SETTLE_S)
        answered, began_ns = self._server.answered(), cpu_ns(self._server.pid)
        time.sleep(self._seconds)
        answered, took_ns = self._server.answered() - answered, cpu_ns(self._server.pid) - began_ns
        if not answered:
            raise BenchError(f"the server answered nothing for {self._seconds} s.")
        return {COST: took_ns / answered}

    def traced(self, tracer: Tracer) -> Sample:
        """The same from when the command says that it traces."""
        with attached(tracer, [self._server.pid], self._directory):
            return self.untraced()


def _works(directory: Path, seconds: float) -> Iterator[tuple[str, str, Work]]:
    cpus = choose_cpus()
    for load, options in ((KEPT, ()), (FULL, CLOSE)):
        with worker(directory, cpus) as server:
            yield load, "OpenSSL", WorkerWork(server, cpus, directory, seconds, *options)
        yield load, "Go", GoWork(directory, cpus, seconds, *options)


def measured(directory: Path, number: int, seconds: float) -> Results:
    """The pairs by load, library and command."""
    results: dict[str, dict[str, Mapping[str, Sequence[Pair]]]] = {KEPT: {}, FULL: {}}
    for load, library, work in _works(directory, seconds):
        print(f"==> {load}: {library}", file=sys.stderr)
        results[load][library] = in_turns(work, TRACERS, number)
    return results


def tables(results: Results) -> str:
    """A table for each load: a row for each command, and for each library what it adds."""
    return "\n\n".join(_table(load, by_library) for load, by_library in results.items())


def _table(load: str, by_library: Mapping[str, Mapping[str, Sequence[Pair]]]) -> str:
    heading = [f"| {load} | {' | '.join(by_library)} |", f"| --- {'| ---: ' * len(by_library)}|"]
    without = (f"{_without_us(pairs):.1f} us" for pairs in by_library.values())
    names = next(iter(by_library.values()))
    rows = (f"| {name} | {' | '.join(_added(pairs[name]) for pairs in by_library.values())} |" for name in names)
    return "\n".join([*heading, f"| without tracing | {' | '.join(without)} |", *rows])


def _without_us(by_name: Mapping[str, Sequence[Pair]]) -> float:
    return fmean(pair.without for pairs in by_name.values() for pair in pairs) / 1000


def _added(pairs: Sequence[Pair]) -> str:
    added, ratio = of_added(pairs), of_ratio(pairs)
    low, high = added.low / 1000, added.high / 1000
    return f"{added.middle / 1000:+.1f} us ({low:+.1f} to {high:+.1f}), {ratio.middle:.3f} times"


def make_page(results: Results, costs: str, seconds: float) -> str:
    """The page of these results; `costs`: the sentence about what a hit took meanwhile."""
    number = min(len(pairs) for load in results.values() for library in load.values() for pairs in library.values())
    return PAGE.format(
        machine=machine(),
        version=_go_version(),
        kept=KEPT,
        full=FULL,
        seconds=seconds,
        pairs=number,
        again=AGAIN,
        hits=costs,
        tables=tables(results),
    )


def _go_version() -> str:
    done = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)
    return done.stdout.strip().removeprefix("go")


def main() -> int:
    """Measure, and print or write the page."""
    arguments = command.arguments_of_turns(__doc__, pairs=10, seconds=1.0)

    def page() -> str:
        results, costs = hits.with_costs(lambda directory: measured(directory, arguments.pairs, arguments.seconds))
        return make_page(results, costs, arguments.seconds)

    return command.run(page, arguments.output, "bench-go")


if __name__ == "__main__":
    sys.exit(main())
