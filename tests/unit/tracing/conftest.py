# SPDX-License-Identifier: Apache-2.0
"""What the tests share of processes that read files, and of files that processes map."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.waiting_python import waiting_python

from ssllatency.targets import files, mapped_files, maps
from ssllatency.tracing.plan_source import PlanSource


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


@pytest.fixture
def user_of_openssl() -> Iterator[int]:
    """The PID of a process that maps libssl and libcrypto as code."""
    with waiting_python("import ssl") as pid:
        if not {"libssl", "libcrypto"} <= {Path(file.path).name.partition(".")[0] for file in mapped_files(pid)}:
            pytest.skip("needs a Python whose ssl module uses the system's OpenSSL (Debian: apt-get install libssl3)")
        yield pid


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, object]]:
    """How often the maps of a process were read, a file was opened through a mapping, and a plan was asked for."""
    counts: Counter[tuple[str, object]] = Counter()

    def count(where: object, name: str, what: Callable[..., tuple[str, object]]) -> None:
        real = getattr(where, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            counts[what(*arguments)] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(where, name, counting)

    count(maps, "told_apart", lambda pid, *_: ("maps", pid))
    count(files, "open_mapped", lambda _pid, mapping, *_: ("open", mapping.identity))
    count(PlanSource, "plan", lambda _self, _path, label, *_: ("plan", label))
    return counts
