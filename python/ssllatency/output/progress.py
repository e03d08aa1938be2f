# SPDX-License-Identifier: Apache-2.0
"""A progress line on the terminal; nothing where standard error isn't a terminal."""

from __future__ import annotations

import sys
import time

from ssllatency.output.printing import clear_status, show_status
from ssllatency.units import printable

_CELLS = 20
_EVERY_S = 0.25


class Progress:
    """The line. `whole_s` is how long it will take, None where that isn't known, and only roughly so unless `exact`. A context
    manager, which removes the line at the end."""

    def __init__(self, whole_s: float | None = None, *, exact: bool = False) -> None:
        self._whole_s, self._about, self._next = whole_s, "" if exact else "about ", 0.0
        self._on = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the line."""
        clear_status()

    def expect(self, whole_s: float | None) -> None:
        """Set how long it will take, as is thought now."""
        self._whole_s = whole_s

    def show(self, elapsed_s: float, words: str) -> None:
        """Writes the line anew, a few times a second at most."""
        if not self._on or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        from shutil import get_terminal_size  # takes a while to bring in, and is needed on a terminal only

        line = f"{self._bar(elapsed_s)}{elapsed_s:.0f} s{self._of()}, {printable(words)}"
        show_status(line[: get_terminal_size().columns - 1])

    def _bar(self, elapsed_s: float) -> str:
        if not self._whole_s:
            return ""
        full = min(_CELLS, int(_CELLS * elapsed_s / self._whole_s))
        return f"[{'#' * full}{'-' * (_CELLS - full)}] "

    def _of(self) -> str:
        return f" of {self._about}{self._whole_s:.0f} s" if self._whole_s else ""
