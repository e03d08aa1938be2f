# SPDX-License-Identifier: Apache-2.0
"""`ssllatency snoop` as a person would run it, and what it printed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from types import TracebackType
from typing import Any, Self

from tests import schema
from tests.live.commands.trace import PROGRAM, TraceError

ATTACH_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
_CHECKED = 100  # lines of JSON against the schema: more of them tell nothing new


class Snoop:
    """The command on some processes and their children, attached from `with` to the end of the block, which interrupts it.

    `output`, `said` (standard error) and `status` are there after the block, or after `finish`, which waits until it ends by
    itself. With `read=False` nobody reads its standard output until it is to end. `exact`: with --exact.
    """

    def __init__(self, *pids: int, options: tuple[str, ...] = (), read: bool = True, exact: bool = True) -> None:
        targets = [word for pid in pids for word in ("-p", str(pid))]
        self._command = [str(PROGRAM), "snoop", *targets, *options, *(["--exact"] if exact else [])]
        self._read = read
        self._pieces: list[str] = []
        self.output = self.said = ""
        self.status: int | None = None

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._attached = threading.Event()
        self._threads = [threading.Thread(target=self._read_errors, daemon=True)]
        if self._read:
            self._threads.append(threading.Thread(target=self._read_output, daemon=True))
        for thread in self._threads:
            thread.start()
        self._attached.wait(ATTACH_TIMEOUT_S)
        if "Tracing" not in self.said:
            self._kill()
            raise TraceError(f"snoop did not attach: {self.said}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._kill()
            return
        if self.status is None:
            self.process.send_signal(signal.SIGINT)
            self.finish()

    def finish(self) -> None:
        """Reads what is left of its output and waits for its end."""
        guard = threading.Timer(STOP_TIMEOUT_S, self.process.kill)
        guard.start()
        if not self._read:
            self._read_output()
        self.status = self.process.wait()
        guard.cancel()
        for thread in self._threads:
            thread.join(5)
        self.output = "".join(self._pieces)

    def _read_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.said += line
            if line.startswith("Tracing"):
                self._attached.set()
        self._attached.set()

    def _read_output(self) -> None:
        assert self.process.stdout
        self._pieces.extend(self.process.stdout)

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def lines(self) -> list[dict[str, Any]]:
        """What --json printed in whole lines."""
        lines = [json.loads(line) for line in self.output.split("\n")[:-1]]
        for line in lines[:_CHECKED]:
            schema.check(line)
        return lines

    def calls(self) -> list[dict[str, Any]]:
        """The calls of --json."""
        return [one for one in self.lines() if "dropped" not in one]

    def handshakes(self) -> list[dict[str, Any]]:
        """The handshakes of --handshakes --json."""
        return [one["handshake"] for one in self.lines() if "handshake" in one]

    def number(self, words: str) -> int:
        """The number that stands before these words in what it said last, 0 where it didn't say them."""
        found = re.findall(rf"(\d+) {words}", self.said)
        return int(found[-1]) if found else 0
