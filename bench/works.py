# SPDX-License-Identifier: Apache-2.0
"""The two works that are traced: the in-process TLS pump, and one nginx worker that has a CPU to itself."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.live.clients.counted import Load, wrk
from tests.live.servers.nginx import Nginx, Settings

from tracers import BenchError, Run, Tracer, attached

SOURCE = Path(__file__).resolve().with_name("pump.c")
CALLS_A_TURN = 2  # one SSL_read and one SSL_write
WARM_UP = 2_000  # turns
CONNECTIONS = 32  # of wrk, at a time


@dataclass(frozen=True)
class Cpus:
    """Where the traced process runs, and where its client does."""

    server: int
    client: int


def choose_cpus() -> Cpus:
    """The last and the first CPU that we may use. BenchError where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise BenchError("the benchmark needs two CPUs: one for the server, one for its client.")
    return Cpus(usable[-1], usable[0])


def build_pump(directory: Path) -> Path:
    """Compile the pump."""
    program = directory / "pump"
    command = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(program), str(SOURCE), "-lssl", "-lcrypto"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"bench/pump.c does not compile (apt-get install gcc libssl-dev): {done.stderr[-500:]}")
    return program


class Pump:
    """The pump as a running process, pinned to a CPU."""

    def __init__(self, program: Path, cpu: int) -> None:
        self._command = ["taskset", "-c", str(cpu), str(program)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        ready = re.fullmatch(r"ready (\d+)\n", self._line())
        if ready is None:
            raise BenchError("the pump did not start.")
        self.pid = int(ready[1])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, turns: int) -> float:
        """Nanoseconds a call over so many turns."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"run {turns}\n")
        return int(self._line()) / (turns * CALLS_A_TURN)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def measure_pump(pump: Pump, tracer: Tracer, directory: Path, turns: int, batches: int) -> tuple[float, Run]:
    """Nanoseconds a call: the fastest of some batches, which other work on the machine disturbed least."""
    with attached(tracer, pump.pid, directory) as run:
        pump.run(WARM_UP)
        fastest = min(pump.run(turns) for _ in range(batches))
    made = WARM_UP + turns * batches
    for function in ("SSL_read", "SSL_write"):
        _check_counted(tracer, run, function, made)
    return fastest, run


@dataclass(frozen=True)
class Served:
    """What the worker did under load: requests a second, and nanoseconds of its CPU time a request."""

    rate: float
    cpu_ns: float


def worker(certificates: Path, cpus: Cpus) -> Nginx:
    """One worker on a CPU of its own with an RSA key of 2048 bits and 1 KiB to serve; every handshake is a full one."""
    return Nginx(certificates, Settings(workers=1, cpu=cpus.server, tickets=False, body=1024, kinds=("rsa",)))


def measure_worker(
    server: Nginx, tracer: Tracer, directory: Path, loads: Mapping[str, Callable[[], Load]]
) -> dict[str, Served]:
    """Each of the loads, one after the other, while the tracer is attached to the server."""
    before = server.status().handled
    pid = server.worker_pids()[0]
    with attached(tracer, server.master_pid, directory) as run:
        served = {name: _serve(pid, load) for name, load in loads.items()}
        connections = server.wait_idle().handled - before
    # wrk leaves the connections that are under way when its time is up.
    _check_counted(tracer, run, "SSL_do_handshake", connections - len(loads) * CONNECTIONS)
    return served


def client(server: Nginx, cpus: Cpus, seconds: int, *options: str) -> Callable[[], Load]:
    """A load by wrk on the client's CPU."""
    prefix = ("taskset", "-c", str(cpus.client))
    return lambda: wrk(server.port["rsa"], seconds, *options, connections=CONNECTIONS, prefix=prefix)


def _serve(pid: int, load: Callable[[], Load]) -> Served:
    before = _cpu_ns(pid)
    done = load()
    return Served(done.rate, (_cpu_ns(pid) - before) / done.requests)


def _cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def _check_counted(tracer: Tracer, run: Run, function: str, at_least: int) -> None:
    """A tracer that misses calls would look cheap."""
    if tracer.counted is None:
        return
    seen = tracer.counted(run.output, function)
    if seen < at_least:
        raise BenchError(f"{tracer.name} counted {seen} of {at_least} calls of {function}: nothing to compare.")
