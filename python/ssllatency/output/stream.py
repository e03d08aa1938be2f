# SPDX-License-Identifier: Apache-2.0
"""An output for a stream of lines: a slow reader never keeps the command from being stopped."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

from ssllatency.output.printing import as_shown, writing_output

_PIECE = 4096  # what poll(2) promises a pipe to take (PIPE_BUF)
_LOOK_AGAIN_MS = 50


class Output:
    """Writes to a descriptor in pieces, each when there is room for it; `stopped` is asked now and then while there is none."""

    def __init__(self, fd: int, stopped: Callable[[], bool], *, colour: bool = False) -> None:
        """`colour`: as for show()."""
        self._fd, self._stopped, self._harmless = fd, stopped, partial(as_shown, colour=colour)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)

    def check(self) -> None:
        """BrokenPipeError where the reader has gone, though there is nothing to write."""
        if any(event & select.POLLERR for _, event in self._poll.poll(0)):
            raise BrokenPipeError

    def write(self, lines: Sequence[str]) -> int:
        """Write these, and return how many of the lines, or blocks of them, were written: not all if the reader keeps them
        waiting until `stopped`. BrokenPipeError where the reader has gone, SsllatencyError where the output takes no more."""
        text = self._harmless("".join(lines)).encode()
        written = 0
        while written < len(text):
            while not self._poll.poll(_LOOK_AGAIN_MS):
                if self._stopped():
                    ends = accumulate(len(self._harmless(line).encode()) for line in lines)
                    return sum(end <= written for end in ends)
            with writing_output():
                written += os.write(self._fd, text[written : written + _PIECE])
        return len(lines)
