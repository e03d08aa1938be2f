# SPDX-License-Identifier: Apache-2.0
"""The full screen on a terminal, with made-up readings: whichever way it ends, the terminal is as it was, the reader has ended,
and what went wrong is raised."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest
from tests.waiting import wait_for

TOP = Path(__file__).resolve().parents[4]
PROGRAM = """
import sys, threading
from ssllatency.output.screen.running import run_screen
from ssllatency.reports.live.shown import ViewChoice
from tests.measured.live_readings import readings, shake

class Recorder:
    file, running = "", False
    def take(self, reading): return ""
    def close(self): return "x.jsonl holds 2 intervals."

def read():
    for number, reading in enumerate(readings([[shake("nginx(17)")]] * 3)):
        if how == "fails" and number == 2:
            raise RuntimeError("made up")
        yield reading
    if how == "ends":
        return
    stop.wait(60)
    print("the reader has ended", file=sys.__stdout__)

how, stop = sys.argv[1], threading.Event()
run_screen(read(), stop.set, ViewChoice(), Recorder(), lambda: "")
"""
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.mark.slow
@pytest.mark.parametrize(("how", "status"), [("q", 0), ("ends", 0), ("fails", 1)])
def test_the_terminal_is_as_it_was(how: str, status: int) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before, written = termios.tcgetattr(theirs), bytearray()
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": f"{TOP / 'python'}:{TOP}"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, how], env=environment, start_new_session=True, **streams)

    def read() -> None:
        while True:
            try:
                written.extend(os.read(ours, 65536))
            except OSError:
                return

    threading.Thread(target=read, daemon=True).start()
    try:
        if how == "q":
            wait_for(lambda: b"nginx.service" in written)
            os.write(ours, b"q")
        assert process.wait(60) == status
        assert termios.tcgetattr(theirs) == before
        wait_for(lambda: b"x.jsonl holds 2 intervals." in written)
    finally:
        process.kill()
        process.wait()
        os.close(theirs)
        os.close(ours)
    assert written.index(ENTERED) < written.index(LEFT) < written.index(b"x.jsonl holds 2 intervals.")
    assert (b"the reader has ended" in written) == (how == "q")
    assert (b"RuntimeError: made up" in written) == (how == "fails")
