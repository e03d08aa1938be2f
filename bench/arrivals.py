#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what it takes to know when peers' bytes arrive: an nginx worker's CPU time, a handshake and a request, while one run
of `ssllatency handshakes` has its programs at sockets attached and detached in turns. What the machine does meanwhile is the
same for both, from one half of a second to the next."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from tests.live.servers.nginx import Nginx, Settings

from bench.measuring import command
from bench.measuring.intervals import Pair, of_ratio
from bench.measuring.rounds import COST
from bench.measuring.tracers import ROOT, BenchError, Tracer, attached
from bench.measuring.works import CLOSE_EACH, Cpus, WorkerWork, choose_cpus
from bench.page import machine

_PATIENCE_S = 5.0
# The command line of a program whose programs at sockets are attached while a file is there.
_SWITCHED = """
import sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv.pop(1))
from ssllatency.cli.main import main
from ssllatency.engines.sessions.arrivals import Arrivals

wanted, attached = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))

def follow(loaded, counters):
    links = []
    while True:
        if wanted.exists() and not links:
            links = [loaded.attach_by_section(program) for program in ("at_socket_state", "at_arrival")]
            counters.watches_arrivals = 1
            attached.touch()
        elif links and not wanted.exists():
            counters.watches_arrivals = 0
            for link in links:
                link.close()
            links = []
            attached.unlink()
        time.sleep(0.005)

def watch(arrivals, counters):
    arrivals._counters, arrivals.watched = counters, True
    threading.Thread(target=follow, args=(arrivals._attachment.object, counters), daemon=True).start()

Arrivals.watch = watch
main()
"""
PAGE = """\
# What it takes to know when bytes arrive

Written by `make bench-arrivals`; run it again to measure your own machine. This page is the home of these figures: other pages
point here.

{machine}

One run of `ssllatency handshakes --exact` on an nginx worker that has a CPU to itself, under wrk on another CPU and with copies
of the libraries. Its two programs at sockets are attached and detached in turns, {seconds:g} s each, in {pairs} pairs of turns.
The worker's own CPU time (95 % intervals in parentheses):

| load | CPU time without them | with them, times that |
| --- | ---: | ---: |
{rows}

The aim for a full handshake is at most 1.02. On a connection that is kept no probe is hit: what is left there is the kernel's
tracepoint `sk_data_ready`, once for each arrival at a socket of the machine, where a program that does nothing costs as much.
Both ends of these connections are on this machine, so half of it is arrivals at the load generator's, which the kernel delivers
in the worker's time: a server of far clients is spared that half.
"""


class Switch:
    """Whether the programs at sockets are attached."""

    def __init__(self, directory: Path) -> None:
        self.wanted, self.attached = directory / "wanted", directory / "attached"

    def turn(self, on: bool) -> None:
        """Attaches or detaches them; BenchError where the tracer doesn't."""
        self.wanted.touch() if on else self.wanted.unlink(missing_ok=True)
        deadline = time.monotonic() + _PATIENCE_S
        while self.attached.exists() != on:
            if time.monotonic() > deadline:
                raise BenchError("the tracer did not attach its programs at sockets.")
            time.sleep(0.005)


@contextlib.contextmanager
def tracing(server: Nginx, directory: Path) -> Iterator[Switch]:
    """Traces the server's handshakes until the end of the block."""
    switch = Switch(directory)
    words = (sys.executable, "-I", "-c", _SWITCHED, str(ROOT / "python"), str(switch.wanted), str(switch.attached))
    tracer = Tracer("ssllatency handshakes", (*words, "handshakes", "-p", "{pid}", "-d", "600", "--json", "--exact"))
    with attached(tracer, [server.master_pid], directory):
        yield switch


def measured(work: WorkerWork, switch: Switch, number: int) -> list[Pair]:
    """So many pairs of turns, each of which begins with the one that the last one ended with."""
    pairs = []
    for i in range(number):
        costs = {}
        for on in (False, True) if i % 2 else (True, False):
            switch.turn(on)
            costs[on] = work.untraced()[COST]
        pairs.append(Pair(costs[False], costs[True]))
    return pairs


def row(name: str, pairs: Sequence[Pair]) -> str:
    """A load's row."""
    ratio = of_ratio(pairs)
    without = f"{fmean(pair.without for pair in pairs) / 1000:.1f} us"
    return f"| {name} | {without} | {ratio.middle:.3f} ({ratio.low:.3f} to {ratio.high:.3f}) |"


def _measure(cpus: Cpus, directory: Path, number: int, seconds: float) -> Iterator[str]:
    settings = Settings(workers=1, cpu=cpus.server, tickets=False, body=1024, kinds=("rsa", "ecdsa"))
    with ExitStack() as stack:
        server = stack.enter_context(Nginx(directory, settings))
        for name, key, options in (
            ("a full handshake and its request, RSA 2048", "rsa", CLOSE_EACH),
            ("the same, ECDSA P-256", "ecdsa", CLOSE_EACH),
            ("a request of 1 KiB on a connection that is kept", "rsa", ()),
        ):
            print(f"==> arrivals: {name}", file=sys.stderr)
            work = WorkerWork(server, cpus, directory, seconds, *options, key=key)
            with work.round(), tracing(server, directory) as switch:
                yield row(name, measured(work, switch, number))


def main() -> int:
    """Measure, and print or write the page."""
    arguments = command.arguments_of_turns(__doc__, pairs=100, seconds=0.4)

    def make_page() -> str:
        cpus = choose_cpus()
        with tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as directory:
            rows = list(_measure(cpus, Path(directory), arguments.pairs, arguments.seconds))
        return PAGE.format(machine=machine(), seconds=arguments.seconds, pairs=arguments.pairs, rows="\n".join(rows))

    return command.run(make_page, arguments.output, "bench-arrivals")


if __name__ == "__main__":
    sys.exit(main())
