# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of the processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssllatency.host import processors


@pytest.mark.parametrize(("text", "tickless"), [("\n", False), ("(null)\n", False), ("2-3\n", True), (None, False)])
def test_processors_without_a_tick(text: str | None, tickless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "_FOLDER", tmp_path)
    if text is not None:
        (tmp_path / "nohz_full").write_text(text)
    assert processors.tickless() == tickless
