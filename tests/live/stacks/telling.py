# SPDX-License-Identifier: Apache-2.0
"""Programs that write how their handshakes ended: servers, and clients that make a connection for each line that they read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import wait_for


@dataclass(frozen=True)
class TellingProgram:
    """One at work: its process, and what it has written."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def pid(self) -> int:
        """The process to trace."""
        return self.process.pid

    def ask(self, times: int) -> None:
        """Has a client make so many connections."""
        assert self.process.stdin
        self.process.stdin.write(b"\n" * times)
        self.process.stdin.flush()


@contextmanager
def running(
    command: Sequence[str | Path], output: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, once it has written a line there, until the end of the block; with this added to its environment."""
    with (
        output.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, env={**os.environ, **(environment or {})}) as process,
    ):
        try:
            wait_for(lambda: output.read_text().endswith("\n"))
            yield process
        finally:
            process.kill()
