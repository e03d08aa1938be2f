# SPDX-License-Identifier: Apache-2.0
"""Standard output for a stream of lines: a reader that doesn't keep up never keeps the command from being stopped."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

_PIECE = 4096  # what poll(2) promises a pipe to take (PIPE_BUF)
_LOOK_AGAIN_MS = 50


class Output:
    """Writes to standard output in pieces, each when there is room for it; `stopped` is asked while there is none."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        sys.stdout.flush()
        self._fd, self._stopped = sys.stdout.fileno(), stopped
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)

    def check(self) -> None:
        """BrokenPipeError where the reader has gone, though there is nothing to write."""
        if any(event & select.POLLERR for _, event in self._poll.poll(0)):
            raise BrokenPipeError

    def write(self, text: str) -> bool:
        """Whether all of it was written: not if the reader keeps it waiting when the command is to end. BrokenPipeError
        where the reader has gone."""
        left = memoryview(text.encode())
        while left:
            while not self._poll.poll(_LOOK_AGAIN_MS):
                if self._stopped():
                    return False
            left = left[os.write(self._fd, left[:_PIECE]) :]
        return True
