#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what `handshakes --jfr` adds to a handshake of Java's own TLS, of each JDK that is installed, beside what
`handshakes` adds to one of nginx with OpenSSL, in turns with and without."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.programs import java_machines

from bench.defaults import servers
from bench.defaults.added import ByCommand, in_ns, table_of_added
from bench.defaults.runs import TARGET
from bench.defaults.turns import in_turns
from bench.defaults.twin import BesideTwin, ServerUnderLoad, WorkerUnderLoad
from bench.measuring import command
from bench.measuring.tracers import AGAIN, PROGRAM, BenchError, Tracer
from bench.measuring.works import CLOSE_EACH, WorkerWork, choose_cpus, copied_libraries, worker
from bench.page import machine

WHAT = "a full handshake"
LOAD = (*CLOSE_EACH, "-c4")  # few at a time: each is a thread of the JVM, beside which its other threads are to get along
PAGE = """\
# What the Flight Recorder costs Java servers

Written by `make bench-jfr`; run it again to measure your own machine. This page is the home of these figures: other pages point
here.

{machine}

A server of Java's own TLS (JSSE), each connection in a thread of its own, and an nginx of one worker with OpenSSL, each with a
CPU to itself and a key on P-256, under wrk on another CPU with a connection for each request, four at a time. `handshakes --jfr
-p PID` records in the first, `handshakes -p PID` traces the second, for {seconds:g} s, between two times as long without it,
{pairs} times in turn. The figures are the server's own CPU time for a connection (95 % intervals in parentheses): what the
command added, and the cost with it by that without. It is divided by that of a twin meanwhile, which does the
same work on the same CPU and isn't looked at: what a busy host takes from one it takes from the other. *{again}* is no tracing
measured as if it were a command: what lies within its interval can't be told from none.

{table}

JDK 25 and later time methods, which are changed for it at the start and changed back at the end: what the JVM had compiled of
them it compiles anew. Older ones only tell of each handshake. The thread that writes the recording is in the figures as well.
"""


def _java() -> dict[str, Path]:
    """The Java virtual machines by their releases. BenchError where there is none."""
    found = {_release(java): java for java in java_machines()}
    if not found:
        raise BenchError("there is no Java: apt-get install default-jdk-headless.")
    return found


def _release(java: Path) -> str:
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "([^"]+)"', told)
    return f"JSSE of JDK {version[1] if version else java}"


def _works(directory: Path, seconds: float) -> Iterator[tuple[str, str, BesideTwin]]:
    """Servers by name, with what is looked at by which option."""
    cpus, beside = choose_cpus(), directory / "twin"
    beside.mkdir()
    with worker(directory, cpus) as server, worker(directory, cpus, copied_libraries(beside)) as twin:
        own, other = (WorkerUnderLoad(WorkerWork(one, cpus, directory, seconds, *LOAD, key="ecdsa")) for one in (server, twin))
        yield "OpenSSL", "", BesideTwin(own, other, directory, seconds)
    for name, java in _java().items():
        jvm, second = (ServerUnderLoad(partial(servers.java, folder, cpus, java, *LOAD)) for folder in (directory, beside))
        yield name, "--jfr", BesideTwin(jvm, second, directory, seconds)


def measured(directory: Path, number: int, seconds: float) -> Mapping[str, ByCommand]:
    """The pairs by server and command, in nanoseconds."""
    results = {}
    for name, option, work in _works(directory, seconds):
        print(f"==> {name}", file=sys.stderr)
        words = (PROGRAM, "handshakes", *TARGET, *((option, "-d", "3600") if option else ()))
        by_command = in_turns(work, (Tracer(AGAIN), Tracer("handshakes", words)), number)
        results[name] = in_ns(by_command, work.twins_ns)
    return results


def make_page(results: Mapping[str, ByCommand], seconds: float, number: int) -> str:
    """The page of these results of so many pairs of turns."""
    facts = {"machine": machine(), "again": AGAIN, "table": table_of_added(WHAT, results)}
    return PAGE.format(seconds=seconds, pairs=number, **facts)


def main() -> int:
    """Measure, and print or write the page."""
    arguments = command.arguments_of_turns(__doc__, pairs=8, seconds=4.0)

    def page() -> str:
        with tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as directory:
            results = measured(Path(directory), arguments.pairs, arguments.seconds)
        return make_page(results, arguments.seconds, arguments.pairs)

    return command.run(page, arguments.output, "bench-jfr")


if __name__ == "__main__":
    sys.exit(main())
