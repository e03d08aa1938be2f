# SPDX-License-Identifier: Apache-2.0
"""Where plans and names are looked for."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest

from ssllatency.cli import resolve
from ssllatency.cli.resolve import PlanSource
from ssllatency.engines.base import TracedImage
from ssllatency.probes.plan import ImagePlan

NOBODY = 1 << 22  # past the greatest PID


@pytest.mark.parametrize(
    ("pids", "roots"), [((NOBODY, os.getpid()), (f"/proc/{os.getpid()}/root", "/")), ((NOBODY,), ("/",)), ((), ("/",))]
)
def test_debug_files_are_looked_for_in_the_root_of_a_process_that_is_there(
    pids: tuple[int, ...], roots: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[object] = []

    def recorded(function: Any) -> Any:
        def call(*arguments: object, debug_roots: object, **others: object) -> object:
            asked.append(debug_roots)
            return function(*arguments, debug_roots=debug_roots, **others)

        return call

    for name in ("cached_handshake_plan", "cached_names"):
        monkeypatch.setattr(resolve, name, recorded(getattr(resolve, name)))
    source = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=False))
    image = TracedImage(ImagePlan("/bin/true", "", "", "", (), ()), "/bin/true", pids)
    assert source.handshake_plan_of(image).path == "/bin/true"
    assert source.names_of(image).reason(1) == ""
    assert asked == [roots, roots]
