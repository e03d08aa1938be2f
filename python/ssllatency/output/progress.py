# SPDX-License-Identifier: Apache-2.0
"""A progress line on the terminal; nothing where standard error isn't a terminal."""

from __future__ import annotations

import shutil
import sys
import time

from ssllatency.reports.words.units import printable

_CELLS = 20
_EVERY_S = 0.25


class Progress:
    """The line. `whole_s` is how long it will take, None where that isn't known. A context manager, which removes the line at
    the end."""

    def __init__(self, whole_s: float | None = None) -> None:
        self._whole_s, self._shown, self._next = whole_s, False, 0.0
        self._on = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def expect(self, whole_s: float | None) -> None:
        """How long it will take, as is thought now."""
        self._whole_s = whole_s

    def show(self, elapsed_s: float, words: str) -> None:
        """Writes the line anew, a few times a second at most."""
        if not self._on or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        line = f"{self._bar(elapsed_s)}{elapsed_s:.0f} s{self._of()}, {printable(words)}"
        line = line[: shutil.get_terminal_size().columns - 1]
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
        self._shown = True

    def _bar(self, elapsed_s: float) -> str:
        if not self._whole_s:
            return ""
        full = min(_CELLS, int(_CELLS * elapsed_s / self._whole_s))
        return f"[{'#' * full}{'-' * (_CELLS - full)}] "

    def _of(self) -> str:
        return f" of about {self._whole_s:.0f} s" if self._whole_s else ""
