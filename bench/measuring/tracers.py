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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ssllatency.engines import doctor

ROOT = Path(__file__).resolve().parents[2]
ATTACH_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
PAUSE_S = 0.5  # about what attaching takes
SETTLED_S = 0.1
_POLL_S = 0.003


class BenchError(RuntimeError):
    """One sentence: what can't be measured here."""


class UnusableRun(BenchError):
    """A tracer missed calls, as one does that isn't attached yet, or didn't end: what it cost says nothing."""


@dataclass(frozen=True)
class Tracer:
    """One row of the comparison. "{pid}" in the command is the processes to trace, "{directory}" the folder for what it writes;
    an empty command is no tracing. `processes` is how many it traces.

    The tracer is attached once it has written a line that starts with "Tracing" or "Recording", and opens no more files:
    bpftrace attaches the probes only after it has written the line. `counted` reads out of its output how many calls of a
    function it saw succeed; None where it counts nothing.
    """

    name: str
    command: tuple[str, ...] = ()
    counted: Callable[[str, str], int] | None = None
    processes: int = 1


@dataclass
class Run:
    """One run of a tracer: its process, seconds from its start to attached, and what it printed."""

    pid: int = 0
    attach_s: float = 0.0
    output: str = field(default="", repr=False)


def count_in_document(output: str, function: str) -> int:
    rows = json.loads(output)["functions"]
    return sum(row["count"] for row in rows if row["function"] == function and row["outcome"] == "success")


def count_in_bpftrace_output(output: str, function: str) -> int:
    """Of successes and of failures: the script takes the low byte of a return value for the whole."""
    return sum(map(int, re.findall(rf"^@statF?\[{function}\]: count (\d+)", output, re.MULTILINE)))


NO_TRACING = "no tracing"
AGAIN = "no tracing, again"
FLOOR = "empty programs (the floor)"
SSLLATENCY = "ssllatency"
HANDSHAKES = "ssllatency handshakes"
SNOOP = "ssllatency snoop --min 1ms"
STOCK = "ssllatency.bt"
OTHER_ENGINES = ("bcc", "bpftrace")
PROGRAM = str(ROOT / "tools" / "ssllatency")
TRACE = (PROGRAM, "trace", "-p", "{pid}", "-d", "600", "--json", "--exact")


def tracers() -> tuple[Tracer, ...]:
    """All of them, watching everything all the time, and no tracing once, to show what it differs from itself by."""
    options = TRACE[2:]
    return (
        Tracer(AGAIN),
        Tracer(FLOOR, (*TRACE, "--floor")),
        Tracer(SSLLATENCY, TRACE, count_in_document),
        Tracer(HANDSHAKES, (PROGRAM, "handshakes", *options)),
        Tracer(SNOOP, (PROGRAM, "snoop", *options, "--min", "1ms")),
        *stock(),
    )


def pricing() -> list[Tracer]:
    """Those whose cost is held against what empty programs take, or against what they say of it themselves."""
    return [tracer for tracer in tracers() if tracer.name in (FLOOR, SSLLATENCY, HANDSHAKES)]


def engines() -> tuple[Tracer, ...]:
    """ssllatency by its default engine and by the others that this machine has."""
    others = (name for name in OTHER_ENGINES if not lacking(name))
    return (
        Tracer(AGAIN),
        Tracer(SSLLATENCY, TRACE, count_in_document),
        *(Tracer(f"ssllatency --engine {name}", (*TRACE, "--engine", name), count_in_document) for name in others),
    )


def stock() -> tuple[Tracer, ...]:
    """bpftrace's own script, which traces the whole machine. Nothing where it isn't installed, or where programs of bpftrace's
    could bring the kernel down."""
    script = shutil.which("ssllatency.bt") or "/usr/sbin/ssllatency.bt"
    return () if lacking("bpftrace") or not Path(script).exists() else (Tracer(STOCK, (script,), count_in_bpftrace_output),)


@cache
def lacking(engine: str) -> str:
    """What this machine lacks for tracing by an engine, "" if nothing."""
    return doctor.lacking(doctor.this_host(), engine)


def left_out() -> list[str]:
    """One sentence for each tracer that this machine can't run."""
    sentences = [f"ssllatency --engine {name} is left out: {lacking(name)}." for name in OTHER_ENGINES if lacking(name)]
    return sentences if stock() else [*sentences, f"{STOCK} is left out: {lacking('bpftrace') or 'it is not installed'}."]


def _cache(tracer: Tracer, directory: Path) -> Path:
    return directory / f"cache of {tracer.name}"


def forget(tracer: Tracer, directory: Path) -> None:
    """Has the tracer's next start in `directory` plan anew."""
    shutil.rmtree(_cache(tracer, directory), ignore_errors=True)


@contextlib.contextmanager
def attached(
    tracer: Tracer, pids: Sequence[int], directory: Path, *, meanwhile: Callable[[int], None] = lambda _: None
) -> Iterator[Run]:
    """Run a tracer on processes for the length of the block; without one, wait as long as attaching takes. The run's output is
    there after the block.

    Plans are kept in `directory`, each tracer's apart, until forget() removes them. `meanwhile` is called with the tracer's PID
    again and again until it is attached.
    """
    run = Run()
    if not tracer.command:
        time.sleep(PAUSE_S)
        yield run
        return
    command = [
        word.replace("{pid}", ",".join(map(str, pids))).replace("{directory}", str(directory)) for word in tracer.command
    ]
    outputs = (directory / "tracer.out", directory / "tracer.err")
    with outputs[0].open("w") as out, outputs[1].open("w") as err:
        started = time.monotonic()
        environment = os.environ | {"XDG_CACHE_HOME": str(_cache(tracer, directory))}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
    run.pid = process.pid
    try:
        _wait_until_attached(tracer.name, process, outputs, meanwhile)
        run.attach_s = time.monotonic() - started
        _wait_until_settled(process.pid)
        yield run
        _stop(tracer.name, process, outputs)
        run.output = outputs[0].read_text()
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def _wait_until_attached(
    name: str, process: subprocess.Popen[bytes], outputs: tuple[Path, Path], meanwhile: Callable[[int], None]
) -> None:
    deadline = time.monotonic() + ATTACH_TIMEOUT_S
    while not any(re.search("^(Tracing|Recording)", output.read_text(), re.MULTILINE) for output in outputs):
        if process.poll() is not None or time.monotonic() > deadline:
            raise BenchError(f"{name} did not attach: {outputs[1].read_text()[-500:]}")
        meanwhile(process.pid)
        time.sleep(_POLL_S)


def _wait_until_settled(pid: int) -> None:
    """Until the process has had the same descriptors open for SETTLED_S."""
    before, since = -1, time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        with contextlib.suppress(OSError):  # it has ended: _stop() says so
            if (now := len(os.listdir(f"/proc/{pid}/fd"))) != before:  # noqa: PTH208
                before, since = now, time.monotonic()
        time.sleep(_POLL_S)


def _stop(name: str, process: subprocess.Popen[bytes], outputs: tuple[Path, Path]) -> None:
    """Interrupt the tracer and wait for its end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UnusableRun(f"{name} did not end when it was interrupted: {outputs[1].read_text()[-500:]}") from None
    if process.returncode:
        raise BenchError(f"{name} ended with status {process.returncode}: {outputs[1].read_text()[-500:]}")
