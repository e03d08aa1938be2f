# SPDX-License-Identifier: Apache-2.0
"""The page of what it takes to know when bytes arrive, of made-up measurements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench import arrivals
from bench.measuring.intervals import Pair
from bench.measuring.tracers import BenchError


def test_a_row_has_the_ratio_with_its_bounds() -> None:
    pairs = [Pair(300_000.0 + i, 1.01 * (300_000 + i) + 900 * (-1) ** i) for i in range(20)]
    assert re.fullmatch(r"\| RSA \| 300\.0 us \| 1\.010 \(1\.00\d to 1\.01\d\) \|", arrivals.row("RSA", pairs))


def test_its_lines_fit() -> None:
    text = arrivals.PAGE.format(machine="", seconds=0.4, pairs=100, rows="")
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 128


def test_a_tracer_that_does_not_follow_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "_PATIENCE_S", 0.0)
    switch = arrivals.Switch(tmp_path)
    switch.turn(False)
    with pytest.raises(BenchError, match="did not attach"):
        switch.turn(True)
    assert switch.wanted.exists()
