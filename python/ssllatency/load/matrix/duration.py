# SPDX-License-Identifier: Apache-2.0
"""The duration of a matrix: known for s_time, and for h2load once it has run."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean

from ssllatency.load.matrix.plan import Factor, Matrix, MatrixRun

# s_time ends only when the clock's second has passed its end; and between two runs the server finishes its handshakes.
_BESIDE_S = 0.7


def known_s(matrix: Matrix, runs: Sequence[MatrixRun]) -> tuple[float, int]:
    """The duration of the runs of s_time, and the number of those of h2load."""
    tools = Counter(run.cell[Factor.TOOL] for run in runs)
    return tools["s_time"] * (matrix.seconds + _BESIDE_S), tools["h2load"]


class TimeEstimate:
    """Estimates the time that is left by what each tool's runs have taken so far."""

    def __init__(self, matrix: Matrix, runs: Sequence[MatrixRun]) -> None:
        self._began = self._last = time.monotonic()
        self._left = Counter(run.cell[Factor.TOOL] for run in runs)
        self._expected = {"s_time": matrix.seconds + _BESIDE_S}
        self._taken: dict[str, list[float]] = defaultdict(list)

    @property
    def elapsed_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    @property
    def whole_s(self) -> float | None:
        """From the beginning to the end, None while that can't be told."""
        whole = self._last - self._began
        for tool, number in self._left.items():
            run_s = fmean(self._taken[tool]) if self._taken[tool] else self._expected.get(tool)
            if number and run_s is None:
                return None
            whole += number * (run_s or 0.0)
        return whole

    def over(self, run: MatrixRun) -> None:
        """This run has ended, or won't be made."""
        tool, now = run.cell[Factor.TOOL], time.monotonic()
        self._left[tool] -= 1
        if now - self._last > _BESIDE_S / 10:  # not one of a broken cell
            self._taken[tool].append(now - self._last)
        self._last = now
