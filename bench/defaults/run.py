#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what servers and bystanders keep while each command runs with nothing but a target: nginx, haproxy, asyncio and
PostgreSQL at full speed, and what clients feel of an nginx at half load. `--work` and `--command` measure a part of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from bench.defaults import page, servers
from bench.defaults.half_load import CLIENTS, HalfLoad
from bench.defaults.runs import RATE, BystanderWork, ServerWork, commands, some
from bench.measuring import command, hits
from bench.measuring.rounds import Effort, Measured, Work, measure
from bench.measuring.tracers import AGAIN, BenchError, Tracer
from bench.measuring.works import CLOSE_EACH, CONNECTIONS, Cpus, build_pump, choose_cpus
from bench.page import machine

KEPT, CLOSE = "nginx, kept connections", "nginx, close"
TURNS = 2_000_000  # of a bystander: as long as the others are looked at


class Bench:
    """All of it, in `rounds` rounds with windows of `seconds`."""

    def __init__(self, directory: Path, cpus: Cpus, rounds: int, seconds: float, random: Random) -> None:
        self._directory, self._cpus, self._seconds, self._random = directory, cpus, seconds, random
        self._effort = Effort(at_least=rounds, budget_s=0, within=0.001)
        self.hits = hits.Hits()

    def full_speed(self, works: Collection[str] = (), names: Collection[str] = ()) -> dict[str, Measured]:
        """Each work at full speed, or these of them, with each command that is measured there, or these of them."""
        return {
            name: self._measure(name, make(), [row for row in rows if not names or row.name in (AGAIN, *names)])
            for name, (make, rows) in self._works().items()
            if not works or name in works
        }

    def _works(self) -> dict[str, tuple[Callable[[], Work], Sequence[Tracer]]]:
        everything, few = commands(), some("trace", "handshakes", "record")
        return {
            KEPT: (self._server(self._nginx()), everything),
            CLOSE: (self._server(self._nginx(*CLOSE_EACH)), everything),
            "2 workers": (self._server(self._nginx(workers=2)), few),
            "4 workers": (self._server(self._nginx(workers=4)), few),
            "haproxy": (self._server(partial(servers.haproxy, self._directory, self._cpus)), few),
            "asyncio": (self._server(partial(servers.python, self._directory, self._cpus)), few),
            "PostgreSQL": (self._server(partial(servers.postgresql, self._directory, self._cpus)), few),
            "a bystander": (self._bystander, everything),
        }

    def half_load(self, rate: float) -> Measured:
        """What clients feel of one that has time to spare."""
        work = HalfLoad(self._directory, self._cpus, rate, self._seconds)
        return self._measure("half load", work, some("trace", "handshakes", "record"))

    def _nginx(self, *options: str, workers: int = 1) -> Callable[[], AbstractContextManager[servers.Served]]:
        return partial(servers.nginx, self._directory, self._cpus, *options, workers=workers)

    def _server(self, served: Callable[[], AbstractContextManager[servers.Served]]) -> Callable[[], Work]:
        return partial(ServerWork, served, self._directory, self._seconds)

    def _bystander(self) -> BystanderWork:
        return BystanderWork(build_pump(self._directory), self._cpus.server, self._directory, TURNS)

    def _measure(self, name: str, work: Work, rows: Sequence[Tracer]) -> Measured:
        def before(number: int) -> None:
            print(f"==> {name}: round {number}", file=sys.stderr)
            self.hits.measure()

        return measure(work, rows, self._effort, self._random, between=before)


def main() -> int:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="at least 2 (3)")
    parser.add_argument("--seconds", type=float, default=4.0, metavar="S", help="of each measurement (4)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page to write (none)")
    for option, what in (("--work", "column"), ("--command", "row")):
        parser.add_argument(option, action="append", default=[], metavar="NAME", help=f"only this {what}: a table and no page")
    arguments = parser.parse_args()
    in_part = bool(arguments.work or arguments.command)
    if in_part and arguments.output:
        parser.error("a page has all works and commands.")

    def make_page() -> str:
        with tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as directory:
            bench = Bench(Path(directory), choose_cpus(), arguments.rounds, arguments.seconds, SystemRandom())
            works = bench.full_speed(arguments.work, arguments.command)
            if in_part:
                if not works:
                    raise BenchError("no work has that name.")
                return f"{page.kept_table(works)}\n"
            rate = fmean(works[KEPT].untraced(RATE)) / 2
            half = bench.half_load(rate)
        return page.PAGE.format(
            machine=machine(),
            seconds=arguments.seconds,
            rounds=arguments.rounds,
            again=AGAIN,
            hits=hits.sentence(bench.hits.median),
            kept=page.kept_table(works),
            connections=CONNECTIONS,
            sessions=servers.SESSIONS,
            rate=rate,
            clients=CLIENTS,
            half=page.half_table(half),
        )

    return command.run(make_page, arguments.output, "bench-defaults")


if __name__ == "__main__":
    sys.exit(main())
