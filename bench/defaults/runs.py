# SPDX-License-Identifier: Apache-2.0
"""What servers and bystanders keep of their work while a command runs with nothing but a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench.defaults.servers import Served
from bench.measuring.rounds import COST, Sample
from bench.measuring.tracers import AGAIN, PROGRAM, BenchError, Tracer, attached
from bench.measuring.works import Pump, copied_libraries
from ssllatency.load.matrix.servers.process import free_ports

SETTLE_S = 0.3
RATE = "units/s"
TARGET = ("-p", "{pid}")


def commands() -> tuple[Tracer, ...]:
    """Each command that traces, and no tracing among them once."""
    [port] = free_ports(1)
    return (
        Tracer(AGAIN),
        Tracer("trace", (PROGRAM, "trace", *TARGET)),
        Tracer("handshakes", (PROGRAM, "handshakes", *TARGET)),
        Tracer("record", (PROGRAM, "record", *TARGET, "-o", "{directory}/kept.jsonl", "--force")),
        Tracer("snoop", (PROGRAM, "snoop", *TARGET)),
        Tracer("top", (PROGRAM, "top", *TARGET, "--plain")),
        Tracer("watch", (PROGRAM, "watch", *TARGET, "--when", "handshake p99 > 60s")),
        Tracer("export", (PROGRAM, "export", *TARGET, "--listen", f"127.0.0.1:{port}")),
    )


def some(*names: str) -> tuple[Tracer, ...]:
    """These of them, and no tracing."""
    return tuple(tracer for tracer in commands() if tracer.name in (AGAIN, *names))


class ServerWork:
    """A server under a load that runs all through a round, looked at over windows of `seconds`."""

    def __init__(self, served: Callable[[], AbstractContextManager[Served]], directory: Path, seconds: float) -> None:
        self._start, self._directory, self._seconds = served, directory, seconds

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs the server and its load."""
        with self._start() as self._served:
            yield

    def untraced(self) -> Sample:
        """How fast it answers."""
        time.sleep(SETTLE_S)
        return self._window()

    def traced(self, tracer: Tracer) -> Sample:
        """The same from when the command says that it traces."""
        with attached(tracer, [self._served.pid], self._directory):
            return self._window()

    def _window(self) -> Sample:
        before, began_s = self._served.answered(), time.monotonic()
        time.sleep(self._seconds)
        rate = (self._served.answered() - before) / (time.monotonic() - began_s)
        if rate <= 0:
            raise BenchError(f"the server answered nothing for {self._seconds} s.")
        return {COST: 1 / rate, RATE: rate}


class BystanderWork:
    """A pump that makes calls without a pause and isn't traced, while a command traces an idle one of the same libraries."""

    def __init__(self, program: Path, cpu: int, directory: Path, turns: int) -> None:
        self._program, self._cpu, self._directory, self._turns = program, cpu, directory, turns

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs both."""
        with ExitStack() as stack:
            self._idle = stack.enter_context(Pump(self._program, self._cpu))
            self._bystander = stack.enter_context(Pump(self._program, self._cpu))
            yield

    def untraced(self) -> Sample:
        """What a call takes of its CPU time."""
        cost_ns = self._bystander.run(self._turns)
        return {COST: cost_ns, RATE: 1e9 / cost_ns}

    def traced(self, tracer: Tracer) -> Sample:
        """The same while the idle one is traced."""
        with attached(tracer, [self._idle.pid], self._directory):
            return self.untraced()


class BystanderBesideTwin(BystanderWork):
    """The same beside a twin: another pump on the same CPU, which makes as many calls at the same time with copies of the
    libraries."""

    @contextmanager
    def round(self) -> Iterator[None]:
        """Runs the twin, too."""
        libraries = copied_libraries(self._directory)
        with super().round(), Pump(self._program, self._cpu, libraries=libraries) as self._twin:
            yield

    def untraced(self) -> Sample:
        """What a call takes of its CPU time by what one of the twin's takes."""
        for pump in (self._bystander, self._twin):
            pump.begin(self._turns)
        return {COST: self._bystander.took(self._turns) / self._twin.took(self._turns)}
