# SPDX-License-Identifier: Apache-2.0
"""The works that are traced: in-process TLS pumps, and one nginx worker that has a CPU to itself.

What a unit of work takes is CPU time of the traced process, which other processes on the machine change little; what the probes
and their programs take is part of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import machine
from tests.live.clients.counted import ClientError
from tests.live.servers.nginx import Nginx, Settings

from bench.measuring.rounds import COST, Sample
from bench.measuring.stated import PER_CALL, SHARE, stated_cost
from bench.measuring.tracers import BenchError, Run, Tracer, UnusableRun, attached

SOURCE = Path(__file__).resolve().with_name("pump.c")
CALLS_A_TURN = 2  # one SSL_read and one SSL_write
WARM_UP = 2_000  # turns
CONNECTIONS = 32  # of wrk, at a time
SETTLE_S = 0.2  # under load, before a window: after the load's start, and after a tracer was attached or has ended
LOAD_S = 3600  # more than any round takes: wrk is interrupted
CLOSE_EACH = ("-H", "Connection: close")  # wrk's options for a connection for each request
RATE, BUSY = "requests/s", "busy"  # the latter: the part of the time in which the worker had its CPU


@dataclass(frozen=True)
class Cpus:
    """Where the traced process runs, and where its client does."""

    server: int
    client: int

    @property
    def client_prefix(self) -> tuple[str, ...]:
        """The command that a client is run under."""
        return ("taskset", "-c", str(self.client))


def choose_cpus() -> Cpus:
    """The last and the first CPU that we may use. BenchError where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise BenchError("the benchmark needs two CPUs: one for the server, one for its client.")
    return Cpus(usable[-1], usable[0])


def build_pump(directory: Path) -> Path:
    """Compile the pump."""
    program = directory / "pump"
    command = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(program), str(SOURCE), "-lssl", "-lcrypto", "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"bench/measuring/pump.c does not compile (apt-get install gcc libssl-dev): {done.stderr[-500:]}")
    return program


class Pump:
    """The pump as a running process, pinned to a CPU, or with several `threads` each of which has one to itself; with the
    copies of libraries in that folder, if one is given."""

    def __init__(self, program: Path, cpu: int, threads: int = 1, libraries: Path | None = None) -> None:
        pinned = ["taskset", "-c", str(cpu)] if threads == 1 else []
        copies = ["env", f"LD_LIBRARY_PATH={libraries}"] if libraries else []
        self._command, self._threads = [*copies, *pinned, str(program), str(threads)], threads

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
        """Nanoseconds of CPU time a call over so many turns, of each thread."""
        self.begin(turns)
        return self.took(turns)

    def begin(self, turns: int) -> None:
        """Has it take so many turns."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"run {turns}\n")

    def took(self, turns: int) -> float:
        """Waits until it has taken the turns that it has begun; nanoseconds of CPU time a call."""
        return int(self._line()) / (turns * self._threads * CALLS_A_TURN)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@dataclass(frozen=True)
class Batches:
    """A measurement of the pump: the fastest of `number` batches of so many turns, which other work disturbed least."""

    turns: int
    number: int

    @property
    def made(self) -> int:
        """How many turns there are in all, with those that warm up."""
        return WARM_UP + self.turns * self.number


class PumpWork:
    """One pump that works, a new process in each round, and idle ones beside it that are there from `with` to its end.

    What is traced is the pump that works, and with a tracer of several processes idle ones too; only idle ones where it is a
    `bystander`.
    """

    def __init__(self, program: Path, cpu: int, directory: Path, batches: Batches, *, idle: int = 0, bystander: bool = False):
        self._program, self._cpu, self._directory, self._batches = program, cpu, directory, batches
        self._number_idle, self._bystander = idle, bystander

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._idle = [stack.enter_context(Pump(self._program, self._cpu)) for _ in range(self._number_idle)]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def round(self) -> Iterator[None]:
        """Runs the pump that works."""
        with Pump(self._program, self._cpu) as self._pump:
            yield

    def untraced(self) -> Sample:
        """A call's cost."""
        self._pump.run(WARM_UP)
        return {COST: min(self._pump.run(self._batches.turns) for _ in range(self._batches.number))}

    def traced(self, tracer: Tracer) -> Sample:
        """A call's cost, and what the tracer itself says that it added to one."""
        pids = [pump.pid for pump in ([] if self._bystander else [self._pump]) + self._idle][: tracer.processes]
        with attached(tracer, pids, self._directory) as run:
            sample = self.untraced()
        if not self._bystander:
            for function in ("SSL_read", "SSL_write"):
                _check_counted(tracer, run, function, self._batches.made)
        if (cost := stated_cost(run.output)) is None:
            return sample
        stated_ns = cost.others_ns if self._bystander else cost.ns
        return {**sample, PER_CALL: stated_ns / (self._batches.made * CALLS_A_TURN)}


def worker(certificates: Path, cpus: Cpus, libraries: Path | None = None) -> Nginx:
    """One worker on a CPU of its own with an RSA key of 2048 bits, another on P-256, and 1 KiB to serve; every handshake is a
    full one. `libraries`: as Settings has it."""
    settings = Settings(workers=1, cpu=cpus.server, tickets=False, body=1024, kinds=("rsa", "ecdsa"), libraries=libraries)
    return Nginx(certificates, settings)


@dataclass(frozen=True)
class Look:
    """A server at a moment; `requests` may be in units of its own."""

    time_ns: int
    cpu_ns: int
    requests: float


class WorkerWork:
    """The worker of an nginx under wrk, measured over windows of `seconds`. wrk runs all through a round, so that no
    connections are opened or closed for a window's sake, and with copies of the libraries in `directory`: the client of a
    server runs elsewhere, and isn't slowed down by probes."""

    def __init__(self, server: Nginx, cpus: Cpus, directory: Path, seconds: float, *options: str, key: str = "rsa") -> None:
        self._server, self.directory, self.seconds = server, directory, seconds
        self._pid = server.worker_pids()[0]
        self.master_pid = server.master_pid
        load = ("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{LOAD_S}s", *options, f"https://127.0.0.1:{server.port[key]}/")
        self._command = ("env", f"LD_LIBRARY_PATH={copied_libraries(directory)}", *cpus.client_prefix, *load)

    @contextlib.contextmanager
    def round(self) -> Iterator[None]:
        """Runs wrk. ClientError when it met an error."""
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            yield
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=30)[0]
        finally:
            process.kill()
            process.wait()
        if "Requests/sec" not in output or "Non-2xx" in output or "Socket errors" in output:
            raise ClientError(f"wrk met errors: {output[-600:]}")

    def untraced(self) -> Sample:
        """A request's cost, the rate of requests, and how much of its CPU the worker took."""
        time.sleep(SETTLE_S)
        before = self.look()
        time.sleep(self.seconds)
        return self.between(before, self.look())

    def between(self, before: Look, after: Look) -> Sample:
        """The same of the time between two looks."""
        requests, cpu_ns, passed_ns = (
            after.requests - before.requests,
            after.cpu_ns - before.cpu_ns,
            after.time_ns - before.time_ns,
        )
        if not requests:
            raise BenchError(f"the worker served nothing for {self.seconds} s.")
        return {COST: cpu_ns / requests, RATE: requests / passed_ns * 1e9, BUSY: cpu_ns / passed_ns, "requests": requests}

    def traced(self, tracer: Tracer) -> Sample:
        """The same, and what part of the worker's CPU time the tracer itself says that it took."""
        with attached(tracer, [self.master_pid], self.directory) as run:
            sample = self.untraced()
        _check_counted(tracer, run, "SSL_write", int(sample["requests"]))
        cost = stated_cost(run.output)
        return sample if cost is None or cost.share is None else {**sample, SHARE: cost.share}

    def look(self) -> Look:
        """What it has done by now."""
        requests = self._server.status().requests
        return Look(time.monotonic_ns(), cpu_ns(self._pid), requests)


def copied_libraries(directory: Path) -> Path:
    """A folder with copies of OpenSSL, which are other files than the worker's."""
    folder = directory / "libraries"
    folder.mkdir(exist_ok=True)
    for name in ("libssl.so.3", "libcrypto.so.3"):
        if not (folder / name).exists():  # it may be mapped
            shutil.copy(machine.LIBRARIES / name, folder)
    return folder


def cpu_ns(pid: int) -> int:
    """The process' CPU time so far, by its clock: its number is made of the PID, as clock_getcpuclockid(3) does it."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def _check_counted(tracer: Tracer, run: Run, function: str, at_least: int) -> None:
    """A tracer that misses calls would look cheap."""
    if tracer.counted is None:
        return
    seen = tracer.counted(run.output, function)
    if seen < at_least:
        raise UnusableRun(f"{tracer.name} counted {seen} of {at_least} calls of {function}: nothing to compare.")
