# SPDX-License-Identifier: Apache-2.0
"""The tracers that are compared, each run as its users run it: started, waited for, interrupted, its output read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
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
    """One column of the comparison. "{pid}" in the command is the process to trace; an empty command is no tracing.

    The tracer is attached once it has written a line that starts with "Tracing". `counted` reads out of its output how
    many calls of a function it saw succeed; None where it counts nothing.
    """

    name: str
    command: tuple[str, ...] = ()
    counted: Callable[[str, str], int] | None = None


@dataclass
class Run:
    """One run of a tracer: seconds from its start to attached, its peak memory in bytes, and what it printed."""

    attach_s: float = 0.0
    peak_bytes: int = 0
    output: str = field(default="", repr=False)


def _in_document(output: str, function: str) -> int:
    rows = json.loads(output)["functions"]
    return sum(row["count"] for row in rows if row["function"] == function and row["outcome"] == "success")


def _in_bpftrace_output(output: str, function: str) -> int:
    found = re.search(rf"^@stat\[{function}\]: count (\d+)", output, re.MULTILINE)
    return int(found[1]) if found else 0


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
def attached(tracer: Tracer, pid: int, directory: Path) -> Iterator[Run]:
    """Run a tracer on a process for the length of the block. The run's output and memory are there after the block.

    Plans are kept in `directory`, each tracer's apart, until forget() removes them.
    """
    run = Run()
    if not tracer.command:
        yield run
        return
    command = [word.replace("{pid}", str(pid)) for word in tracer.command]
    outputs = (directory / "tracer.out", directory / "tracer.err")
    with outputs[0].open("w") as out, outputs[1].open("w") as err:
        started = time.monotonic()
        environment = os.environ | {"XDG_CACHE_HOME": str(_cache(tracer, directory))}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
    try:
        _wait_until_attached(process, outputs)
        run.attach_s = time.monotonic() - started
        yield run
        run.peak_bytes = _stop(process, outputs)
        run.output = outputs[0].read_text()
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def _wait_until_attached(process: subprocess.Popen[bytes], outputs: tuple[Path, Path]) -> None:
    deadline = time.monotonic() + ATTACH_TIMEOUT_S
    while not any(re.search("^Tracing", output.read_text(), re.MULTILINE) for output in outputs):
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"a tracer did not attach: {outputs[1].read_text()[-500:]}")
        time.sleep(_POLL_S)


def _stop(process: subprocess.Popen[bytes], outputs: tuple[Path, Path]) -> int:
    """Interrupt the tracer and wait for its end: its peak memory in bytes."""
    peak_kib = _high_water_kib(process.pid)
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not (waited := os.wait4(process.pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            raise BenchError("a tracer did not end when it was interrupted.")
        time.sleep(_POLL_S)
    process.returncode = os.waitstatus_to_exitcode(waited[1])
    if process.returncode:
        raise BenchError(f"a tracer ended with status {process.returncode}: {outputs[1].read_text()[-500:]}")
    # Linux starts a child's maximum at its parent's size when it executes, so below our own it says nothing of the child.
    ours_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * (waited[2].ru_maxrss if waited[2].ru_maxrss > ours_kib else peak_kib)


def _high_water_kib(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0
