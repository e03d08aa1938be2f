# SPDX-License-Identifier: Apache-2.0
"""Who waits for what never answers is ended once a signal has asked for the end; who goes on isn't."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "python")}
PROGRAM = """
import os, signal, sys, time
from ssllatency.tracing import stuck
stuck._LOOK_S, stuck._STUCK_LOOKS = 0.05, int(sys.argv[2])
clock, started = time.monotonic, time.monotonic()
time.monotonic = lambda: clock() + 3600 * (clock() > started + 0.3)  # as if the machine had been paused
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
stuck.end_if_stuck()
print("ready", flush=True)
if sys.argv[1] == "waits":
    os.read(0, 1)
else:
    for _ in range(100):
        time.sleep(0.02)
"""


@pytest.mark.parametrize(("does", "status", "says"), [("waits", 1, "ended without a report"), ("works", 0, "")])
def test_who_never_looks_for_the_signal(does: str, status: int, says: str) -> None:
    command = [sys.executable, "-c", PROGRAM, does, "6"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == status
        assert says in process.stderr.read()


def test_without_a_signal_nobody_is_ended() -> None:
    command, pipe = [sys.executable, "-c", PROGRAM, "waits", "6"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=ENVIRONMENT) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.communicate(b"x")
    assert process.returncode == 0


def test_a_machine_that_was_paused_isnt_one_that_waits() -> None:
    """Much time has gone by all at once, of which the process had nothing."""
    command, pipe = [sys.executable, "-c", PROGRAM, "waits", "200"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        assert process.communicate("x")[1] == ""
