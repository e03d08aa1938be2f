#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the fork server is worth: first starts of `trace` and of `handshakes` on a process that maps libssl and
libcrypto, with an empty cache each time, with and without it in turns, from the start of the command to the line that says it
is tracing."""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("trace", "handshakes")
# The command line of a program that has the fork server, or doesn't.
_STARTED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from ssllatency.tracing.planning import fork_server
if sys.argv.pop(1) == "without":
    fork_server._start = lambda: None
from ssllatency.cli.main import main
main()
"""


def start_s(command: str, how: str) -> float:
    """The seconds that a first start took until this process was traced."""
    with tempfile.TemporaryDirectory() as cache:
        words = [sys.executable, "-I", "-c", _STARTED, str(ROOT / "python"), how, command, "-p", str(os.getpid()), "-d", "0.1"]
        before = time.monotonic()
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as started:
            assert started.stderr
            took = next((time.monotonic() - before for line in started.stderr if line.startswith("Tracing")), None)
            rest = started.stderr.read()
    if took is None:
        raise SystemExit(f"{command} didn't start: {rest}")
    return took


def main() -> None:
    """Prints a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8, help="starts of each kind (%(default)s)")
    pairs = parser.parse_args().pairs
    ctypes.CDLL("libssl.so.3")  # and libcrypto, which are then this process's own
    for command in COMMANDS:
        taken = [(start_s(command, "with"), start_s(command, "without")) for _ in range(pairs)]
        with_it, without = (median(each) for each in zip(*taken, strict=True))
        gain = median(without - with_it for with_it, without in taken)
        print(f"{command:<11}with it {with_it:.2f} s, without {without:.2f} s, gained {gain:.2f} s (medians of {pairs})")


if __name__ == "__main__":
    main()
