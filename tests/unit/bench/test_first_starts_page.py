# SPDX-License-Identifier: Apache-2.0
"""The page of what a start takes, of made-up measurements."""

from __future__ import annotations

import pytest

from bench import first_starts
from bench.first_starts import Start


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> str:
    def start(_: str, how: str, cache: str) -> Start:
        return Start(0.3 if how == "with" else 0.35, 0.25 if cache else 0.0)

    monkeypatch.setattr(first_starts, "start", start)
    monkeypatch.setattr(first_starts, "answer_s", lambda _, after_s: after_s / 2)
    monkeypatch.setattr(first_starts, "machine", lambda: "- Kernel: Linux 6.18")
    return first_starts.make_page(pairs=3, points=6)


def test_the_page_has_each_commands_figures(text: str) -> None:
    for command in ("trace", "handshakes"):
        rows = [line for line in text.splitlines() if line.startswith(f"| {command} |")]
        assert rows == [
            f"| {command} | 0.30 s | 0.35 s | 0.05 s |",
            f"| {command} | 0.25 s | 0.25 s |",
            f"| {command} | 0.09 s | 0.15 s |",
        ]
    assert "at 6 points spread over the time that first starts have just taken" in text


def test_its_lines_fit(text: str) -> None:
    assert max(map(len, text.splitlines())) <= 128
