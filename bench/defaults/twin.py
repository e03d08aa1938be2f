# SPDX-License-Identifier: Apache-2.0
"""A server beside its twin, which runs on the same CPU, does the same work and maps copies of the libraries, so that it isn't
probed: what else happens to the machine happens to both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import Protocol

from bench.defaults.servers import Served
from bench.measuring.rounds import COST, Sample
from bench.measuring.tracers import BenchError, Tracer, attached
from bench.measuring.works import SETTLE_S, Look, WorkerWork, cpu_ns
from ssllatency.targets.processes import all_processes, descendants


class WatchedServer(Protocol):
    """One under a load that runs all through a round."""

    def round(self) -> AbstractContextManager[None]:
        """Runs its load, and the server itself where it isn't there yet."""

    def pid(self) -> int:
        """The process to trace with those that it starts."""

    def look(self) -> Look:
        """What it has done by now."""


class WorkerUnderLoad:
    """The worker of an nginx."""

    def __init__(self, work: WorkerWork) -> None:
        self._work = work

    def round(self) -> AbstractContextManager[None]:
        """Runs its load."""
        return self._work.round()

    def pid(self) -> int:
        """The master's."""
        return self._work.master_pid

    def look(self) -> Look:
        """What it has done."""
        return self._work.look()


class ServerUnderLoad:
    """A server of one process or of several."""

    def __init__(self, served: Callable[[], AbstractContextManager[Served]]) -> None:
        self._start = served

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs the server and its load."""
        with self._start() as self._served:
            yield

    def pid(self) -> int:
        """The first process'."""
        return self._served.pid

    def look(self) -> Look:
        """What all of them have done."""
        done = self._served.answered()
        return Look(time.monotonic_ns(), sum(map(_cpu_ns_so_far, with_descendants(self._served.pid))), done)


class BesideTwin:
    """A request's CPU time by that of a request of the twin meanwhile, over windows of `seconds`."""

    def __init__(self, server: WatchedServer, twin: WatchedServer, directory: Path, seconds: float) -> None:
        self._server, self._twin, self._directory, self._seconds = server, twin, directory, seconds
        self._twins_ns: list[float] = []

    @property
    def twins_ns(self) -> float:
        """The mean of what the twin's requests took so far, in nanoseconds."""
        return fmean(self._twins_ns)

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs both."""
        with self._server.round(), self._twin.round():
            yield

    def untraced(self) -> Sample:
        """What a request takes."""
        time.sleep(SETTLE_S)
        before, before_twin = self._server.look(), self._twin.look()
        time.sleep(self._seconds)
        cost, twins = _cost(before, self._server.look()), _cost(before_twin, self._twin.look())
        self._twins_ns.append(twins)
        return {COST: cost / twins}

    def traced(self, tracer: Tracer) -> Sample:
        """The same while the tracer is attached to the server."""
        with attached(tracer, [self._server.pid()], self._directory):
            return self.untraced()


def _cost(before: Look, after: Look) -> float:
    requests = after.requests - before.requests
    if requests <= 0:
        raise BenchError("a server served nothing while it was looked at.")
    return (after.cpu_ns - before.cpu_ns) / requests


def _cpu_ns_so_far(pid: int) -> int:
    """0 of one that is gone."""
    with suppress(OSError):
        return cpu_ns(pid)
    return 0


def with_descendants(pid: int) -> list[int]:
    """The process, and those that it and they have started; nothing where it is gone."""
    processes = all_processes()
    if not any(process.pid == pid for process in processes):
        return []
    return [pid, *(process.pid for process in descendants(pid, processes))]
