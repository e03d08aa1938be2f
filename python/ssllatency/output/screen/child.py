# SPDX-License-Identifier: Apache-2.0
"""A command of ours that runs beside the screen and whose lines are shown there. It writes into a pipe of which only we have
the other end, and ends, its probes with it, once that is closed, however we end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import ssllatency

_MOST_LINES = 1000
_END_S = 10.0
_LONGEST = 2000  # characters of a line
# As the launchers have it: no module of the folder that it is run in, of the user's home, or of a path that a variable names.
_MAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ssllatency.cli.main import main; main()"


class ChildCommand:
    """A running `ssllatency`. Its newest lines are kept, of both outputs; how many there were, too."""

    def __init__(self, arguments: Sequence[str]) -> None:
        folder = str(Path(ssllatency.__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _MAIN, folder, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # a Ctrl-C at the terminal is the screen's
        )
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self.count = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def taken(self) -> list[str]:
        """The lines since the last time, the newest of them where there were too many."""
        with self._lock:
            lines = list(self._lines)
            self._lines.clear()
        return lines

    def end(self) -> None:
        """Ends it and waits until its probes are gone."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel removes its probes
            self._process.wait()
        self._reader.join(_END_S)
        if self._process.stdout:
            self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            with self._lock:
                self._lines.append(line.rstrip("\n")[:_LONGEST])
                self.count += 1
