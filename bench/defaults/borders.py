# SPDX-License-Identifier: Apache-2.0
"""What a server keeps in the second in which a command starts and attaches, and in the one in which it detaches and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.defaults.servers import Served
from bench.measuring.intervals import Pair
from bench.measuring.tracers import BenchError, Tracer

SECOND = 1.0
START, END = "the second it starts in", "the second it ends in"


def at_borders(served: Served, tracer: Tracer, directory: Path, number: int) -> dict[str, list[Pair]]:
    """So many pairs for each border, of the time for an answer in that second, and in the seconds just before and just after
    the run. Plans are kept, as for a second run of the same command."""
    pairs: dict[str, list[Pair]] = {START: [], END: []}
    command = [word.replace("{pid}", str(served.pid)).replace("{directory}", str(directory)) for word in tracer.command]
    environment = os.environ | {"XDG_CACHE_HOME": str(directory / "plans")}
    (directory / "plans").mkdir(exist_ok=True)
    _run(command, environment, served)
    before = _answer_s(served)
    for _ in range(number):
        start, end = _run(command, environment, served)
        after = _answer_s(served)
        usual = (before + after) / 2
        pairs[START].append(Pair(usual, start))
        pairs[END].append(Pair(usual, end))
        before = after
    return pairs


def _run(command: Sequence[str], environment: dict[str, str], served: Served) -> tuple[float, float]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        start = _answer_s(served)
        assert process.stderr
        next((line for line in process.stderr if line.startswith("Tracing")), "")  # interrupted before that, it fails
        time.sleep(SECOND)
        process.send_signal(signal.SIGINT)
        end = _answer_s(served)
        if process.wait(30):
            raise BenchError(f"{command[1]} failed with exit status {process.returncode}.")
    return start, end


def _answer_s(served: Served) -> float:
    """Seconds for each answer, over one second."""
    before, began_s = served.answered(), time.monotonic()
    time.sleep(SECOND)
    answered = served.answered() - before
    if answered <= 0:
        raise BenchError(f"the server answered nothing for {SECOND} s.")
    return (time.monotonic() - began_s) / answered
