# SPDX-License-Identifier: Apache-2.0
"""What the tests of processes that read files share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The processes that are forked, none of which may be left."""
    pids: list[int] = []
    fork = os.fork

    def noted() -> int:
        pids.append(fork())
        return pids[-1]

    monkeypatch.setattr(os, "fork", noted)
    yield pids
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
