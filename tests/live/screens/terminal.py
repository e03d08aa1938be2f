# SPDX-License-Identifier: Apache-2.0
"""A terminal of our own in tmux, on a server of tmux's that nobody else uses: what a person would see and type."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from tests.waiting import wait_for

STATUS = "ended with"


class Terminal:
    """One that runs a command from `with` to the end of the block, and shows its exit status then: see `ended`."""

    def __init__(self, command: Sequence[str], size: tuple[int, int] = (80, 24), **variables: str) -> None:
        self._command, self._size, self._variables = command, size, variables

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="ssllatency-tmux-")
        self._socket = str(Path(self._folder.name) / "socket")
        width, height = map(str, self._size)
        variables = [f"{name}={value}" for name, value in self._variables.items()]
        script = f"env {shlex.join([*variables, *self._command])}; echo {STATUS} $?; exec sleep 1000"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, script)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._tmux("kill-server")
        self._folder.cleanup()

    def press(self, *keys: str) -> None:
        """Presses keys by tmux's names of them."""
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        """Makes the window larger or smaller."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def lines(self, *, escapes: bool = False) -> list[str]:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p", *(["-e"] if escapes else [])).splitlines()

    def text(self) -> str:
        """The same as one text."""
        return "\n".join(self.lines())

    def wait_for(self, condition: Callable[[str], object], timeout_s: float = 30.0) -> str:
        """Waits until what is on the screen fulfils this; it."""
        try:
            wait_for(lambda: condition(self.text()), timeout_s)
        except AssertionError:
            raise AssertionError(self.text()) from None
        return self.text()

    def wait_for_end(self) -> int:
        """Waits until the command has ended; its exit status."""
        text = self.wait_for(lambda text: STATUS in text)
        return int(text.rpartition(STATUS)[2].split()[0])

    def _tmux(self, *arguments: str) -> str:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        environment.pop("TMUX", None)
        command = ["tmux", "-u", "-S", self._socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=30).stdout
