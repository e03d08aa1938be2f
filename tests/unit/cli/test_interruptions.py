# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a command wherever it comes, also where Python can't raise it."""

from __future__ import annotations

import os
import subprocess
import sys

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
IN_A_CALLBACK = """
import sys, time, weakref
from ssllatency.cli import main

class Module:
    pass

def interrupted(_):
    raise {error}

def run():
    module = Module()
    kept = weakref.ref(module, interrupted)
    del module
    time.sleep({seconds})

main._run = run
main.main()
"""


def ended(error: str, seconds: int) -> tuple[int, str]:
    """The exit status, and what was said, of a command in which an error comes where none can be raised."""
    words = [sys.executable, "-c", IN_A_CALLBACK.format(error=error, seconds=seconds)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return done.returncode, done.stderr


def test_one_that_comes_where_nothing_can_be_raised_comes_again() -> None:
    assert ended("KeyboardInterrupt", 300) == (130, "")


AT_THE_END = """
import os, signal, threading, time
from ssllatency.cli import main

def interrupt():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)

def run():
    threading.Thread(target=interrupt).start()
    return 0

main._run = run
main.main()
"""


def test_one_that_comes_as_the_command_ends_anyway_kills_nothing() -> None:
    """While Python waits for a thread that is left."""
    words = [sys.executable, "-c", AT_THE_END]
    assert subprocess.run(words, capture_output=True, check=False, env=ENVIRONMENT).returncode in {0, 130}


def test_other_errors_there_are_told_as_ever() -> None:
    status, said = ended("ValueError('odd')", 0)
    assert status == 0
    assert said.startswith("Exception ignored in")
    assert "odd" in said
