# SPDX-License-Identifier: Apache-2.0
"""The tracers that are compared, each run as its users run it: started, waited for, interrupted, its output read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ATTACH_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
_POLL_S = 0.003


class BenchError(RuntimeError):
    """One sentence: what can't be measured here."""


@dataclass(frozen=True)
class Tracer:
    """One row of the comparison. "{pid}" in the command is the process to trace, "{directory}" the folder for what it writes;
    an empty command is no tracing.

    The tracer is attached once it has written a line that starts with "Tracing". `counted` reads out of its output how
    many calls of a function it saw succeed; None where it counts nothing.
    """

    name: str
    command: tuple[str, ...] = ()
    counted: Callable[[str, str], int] | None = None


@dataclass
class Run:
    """One run of a tracer: its process, seconds from its start to attached, and what it printed."""

    pid: int = 0
    attach_s: float = 0.0
    output: str = field(default="", repr=False)


def _in_document(output: str, function: str) -> int:
    rows = json.loads(output)["functions"]
    return sum(row["count"] for row in rows if row["function"] == function and row["outcome"] == "success")


def _in_bpftrace_output(output: str, function: str) -> int:
    match = re.search(rf"^@stat\[{function}\]: count (\d+)", output, re.MULTILINE)
    return int(match[1]) if match else 0


NO_TRACING = "no tracing"
FLOOR = "empty program (the floor)"
SSLLATENCY = "ssllatency"
HANDSHAKES = "ssllatency handshakes"
SNOOP = "ssllatency snoop --min 1ms"
STOCK = "ssllatency.bt"


def tracers() -> tuple[Tracer, ...]:
    """All of them, the untraced case first. BenchError where bpftrace's script isn't installed."""
    stock = shutil.which("ssllatency.bt") or "/usr/sbin/ssllatency.bt"
    if not Path(stock).exists():
        raise BenchError("ssllatency.bt isn't installed: apt-get install bpftrace.")
    program, options = str(ROOT / "tools" / "ssllatency"), ("-p", "{pid}", "-d", "600", "--json")
    trace = (program, "trace", *options)
    return (
        Tracer(NO_TRACING),
        Tracer(FLOOR, (*trace, "--floor")),
        Tracer(SSLLATENCY, trace, _in_document),
        Tracer(HANDSHAKES, (program, "handshakes", *options)),
        Tracer(SNOOP, (program, "snoop", *options, "--min", "1ms")),
        Tracer(STOCK, (stock,), _in_bpftrace_output),
    )


def _cache(tracer: Tracer, directory: Path) -> Path:
    return directory / f"cache of {tracer.name}"


def forget(tracer: Tracer, directory: Path) -> None:
    """Has the tracer's next start in `directory` plan anew."""
    shutil.rmtree(_cache(tracer, directory), ignore_errors=True)


@contextlib.contextmanager
def attached(tracer: Tracer, pid: int, directory: Path, *, meanwhile: Callable[[int], None] = lambda _: None) -> Iterator[Run]:
    """Run a tracer on a process for the length of the block. The run's output is there after the block.

    Plans are kept in `directory`, each tracer's apart, until forget() removes them. `meanwhile` is called with the tracer's PID
    again and again until it is attached.
    """
    run = Run()
    if not tracer.command:
        yield run
        return
    command = [word.replace("{pid}", str(pid)).replace("{directory}", str(directory)) for word in tracer.command]
    outputs = (directory / "tracer.out", directory / "tracer.err")
    with outputs[0].open("w") as out, outputs[1].open("w") as err:
        started = time.monotonic()
        environment = os.environ | {"XDG_CACHE_HOME": str(_cache(tracer, directory))}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
    run.pid = process.pid
    try:
        _wait_until_attached(process, outputs, meanwhile)
        run.attach_s = time.monotonic() - started
        yield run
        _stop(process, outputs)
        run.output = outputs[0].read_text()
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def _wait_until_attached(
    process: subprocess.Popen[bytes], outputs: tuple[Path, Path], meanwhile: Callable[[int], None]
) -> None:
    deadline = time.monotonic() + ATTACH_TIMEOUT_S
    while not any(re.search("^Tracing", output.read_text(), re.MULTILINE) for output in outputs):
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"a tracer did not attach: {outputs[1].read_text()[-500:]}")
        meanwhile(process.pid)
        time.sleep(_POLL_S)


def _stop(process: subprocess.Popen[bytes], outputs: tuple[Path, Path]) -> None:
    """Interrupt the tracer and wait for its end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise BenchError("a tracer did not end when it was interrupted.") from None
    if process.returncode:
        raise BenchError(f"a tracer ended with status {process.returncode}: {outputs[1].read_text()[-500:]}")
