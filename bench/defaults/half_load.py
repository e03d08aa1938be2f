# SPDX-License-Identifier: Apache-2.0
"""What clients feel of a server that has time to spare: their requests come at a rate of half of what it can do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.live.servers.nginx import Nginx

from bench.measuring.rounds import COST, Sample
from bench.measuring.tracers import BenchError, Tracer, attached
from bench.measuring.works import Cpus, copied_libraries, worker

CLIENTS = 8
P50, P99 = "p50_us", "p99_us"


class HalfLoad:
    """An nginx worker that h2load asks `rate` times a second, for `seconds` in each measurement."""

    def __init__(self, directory: Path, cpus: Cpus, rate: float, seconds: float) -> None:
        self._directory, self._cpus, self._rate, self._seconds = directory, cpus, rate, seconds

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs the server."""
        with worker(self._directory, self._cpus) as self._server:
            yield

    def untraced(self) -> Sample:
        """What requests took, in microseconds."""
        log = self._directory / "h2load.log"
        log.unlink(missing_ok=True)
        number = max(1, round(self._rate / CLIENTS))
        command = [*self._cpus.client_prefix, "env", f"LD_LIBRARY_PATH={copied_libraries(self._directory)}"]
        command += ["h2load", "--h1", f"-c{CLIENTS}", f"-n{round(number * CLIENTS * self._seconds)}", f"--rps={number}"]
        command += [f"--log-file={log}", f"https://127.0.0.1:{_port(self._server)}/"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20 * self._seconds)
        if done.returncode or not log.exists():
            raise BenchError(f"h2load ended with status {done.returncode}: {done.stderr[-300:]}")
        took = times_us(log.read_text())
        return {COST: quantile(took, 0.5), P50: quantile(took, 0.5), P99: quantile(took, 0.99)}

    def traced(self, tracer: Tracer) -> Sample:
        """The same while the tracer is attached."""
        with attached(tracer, [self._server.master_pid], self._directory):
            return self.untraced()


def _port(server: Nginx) -> int:
    return server.port["rsa"]


def times_us(log: str) -> list[float]:
    """What requests took that succeeded, of the lines of h2load's log: when each began, its status, what it took."""
    rows = [line.split() for line in log.splitlines()]
    took = sorted(float(row[2]) for row in rows if len(row) == 3 and row[1] == "200")
    if not took:
        raise BenchError("no request succeeded.")
    return took


def quantile(ordered: Sequence[float], part: float) -> float:
    """The value below which that part of them lies."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
