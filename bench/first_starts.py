#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures starts of `trace` and of `handshakes` on a process that maps libssl and libcrypto, from the start of the command to
the line that says it is tracing: first starts, with an empty cache each time, with and without the fork server in turns; the
processor time of first and of later starts; and how long a Ctrl-C takes that comes during a first start."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from bench.measuring import command
from bench.measuring.tracers import ROOT, BenchError
from bench.page import machine

COMMANDS = ("trace", "handshakes")
_TRACED_S, _TRACED_LONG_S = "0.1", "60"
# The command line of a program that has the fork server, or doesn't.
_STARTED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from ssllatency.tracing.planning import fork_server
if sys.argv.pop(1) == "without":
    fork_server._start = lambda: None
from ssllatency.cli.main import main
main()
"""
PAGE = """\
# What a start takes

Written by `make bench-starts`; run it again to measure your own machine. This page is the home of these figures: other pages
point here.

{machine}

The target maps libssl and libcrypto, and does nothing. A first start finds no plan of the libraries in the cache, a later one
finds them. Figures are medians, of {pairs} runs of each kind where nothing else is said. As it was begun, {load} processes ran
or waited for a processor (the load average): the more do, the longer all takes.

## To the line that says it is tracing

First starts with the fork server ([what it is](../internals/probe-sites.md#what-is-trusted-in-a-file)) and without it, in
turns:

| command | with it | without it | gained |
| --- | ---: | ---: | ---: |
{first}

## Processor time

Of all processes of a run that traces for {traced} s, its end and its report included: what a start takes of a server that
shares the processors. Most of it is taken before the first line, on two processors at once.

| command | first start | later starts |
| --- | ---: | ---: |
{cost}

## Ctrl-C during a start

From SIGINT, at {points} points spread over the time that first starts have just taken, to the end of the command:

| command | median | longest |
| --- | ---: | ---: |
{answers}
"""


@dataclass(frozen=True)
class Start:
    """A run: seconds to its first line, and of its processor time."""

    took_s: float
    cpu_s: float


def words_of(name: str, how: str, traced_s: str) -> list[str]:
    """The command line of a run that traces this process for so long."""
    words = [sys.executable, "-I", "-c", _STARTED, str(ROOT / "python"), how]
    return [*words, name, "-p", str(os.getpid()), "-d", traced_s]


def start(name: str, how: str, cache: str) -> Start:
    """A run with plans from this cache."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    before, cpu_s = time.monotonic(), _cpu_s()
    words = words_of(name, how, _TRACED_S)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as started:
        assert started.stderr
        took = next((time.monotonic() - before for line in started.stderr if line.startswith("Tracing")), None)
        rest = started.stderr.read()
    if took is None:
        raise BenchError(f"{name} didn't start: {rest}")
    return Start(took, _cpu_s() - cpu_s)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def first_start(name: str, how: str = "with") -> Start:
    """A run with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        return start(name, how, cache)


def answer_s(name: str, after_s: float) -> float:
    """The seconds that a first start takes to end on a SIGINT that comes so long after its beginning."""
    with tempfile.TemporaryDirectory() as cache:
        environment, silent = {**os.environ, "XDG_CACHE_HOME": cache}, subprocess.DEVNULL
        words = words_of(name, "with", _TRACED_LONG_S)
        with subprocess.Popen(words, stdout=silent, stderr=silent, env=environment) as started:
            time.sleep(after_s)
            started.send_signal(signal.SIGINT)
            before = time.monotonic()
            started.wait()
            return time.monotonic() - before


def row(name: str, times_s: Sequence[float]) -> str:
    """A row of the table."""
    return f"| {name} | {' | '.join(f'{each:.2f} s' for each in times_s)} |"


def first_starts_s(name: str, pairs: int) -> list[tuple[float, float]]:
    """How long first starts take with the fork server and without it, in turns."""
    return [(first_start(name).took_s, first_start(name, "without").took_s) for _ in range(pairs)]


def first_row(name: str, taken: Sequence[tuple[float, float]]) -> str:
    """The medians of these."""
    with_it, without = (median(each) for each in zip(*taken, strict=True))
    return row(name, [with_it, without, median(without - with_it for with_it, without in taken)])


def cost_row(name: str, pairs: int) -> str:
    """The processor time of first and later starts."""
    first = median(first_start(name).cpu_s for _ in range(pairs))
    with tempfile.TemporaryDirectory() as cache:
        start(name, "with", cache)
        return row(name, [first, median(start(name, "with", cache).cpu_s for _ in range(pairs))])


def answer_row(name: str, points: int, start_s: float) -> str:
    """How long Ctrl-C takes. `start_s`: how long a start does."""
    taken = [answer_s(name, start_s * (place + 1) / points) for place in range(points)]
    return row(name, [median(taken), max(taken)])


def make_page(pairs: int, points: int) -> str:
    """The page."""
    load, _, _ = os.getloadavg()
    taken = {name: first_starts_s(name, pairs) for name in COMMANDS}
    return PAGE.format(
        machine=machine(),
        load=f"{load:.1f}",
        pairs=pairs,
        points=points,
        traced=_TRACED_S,
        first="\n".join(first_row(name, each) for name, each in taken.items()),
        cost="\n".join(cost_row(name, pairs) for name in COMMANDS),
        answers="\n".join(answer_row(name, points, median(with_it for with_it, _ in each)) for name, each in taken.items()),
    )


def main() -> int:
    """Measure, and print or write the page."""
    arguments = command.arguments_of_turns(__doc__, pairs=9)
    ctypes.CDLL("libssl.so.3")  # and libcrypto, which are then this process's own
    points = 4 * arguments.pairs
    return command.run(lambda: make_page(arguments.pairs, points), arguments.output, "bench-starts")


if __name__ == "__main__":
    sys.exit(main())
