# SPDX-License-Identifier: Apache-2.0
"""Where plans and names are looked for, and that they are made ahead."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest

from ssllatency.cli import plan_source
from ssllatency.cli.plan_source import File, PlanSource
from ssllatency.elf.image import Image
from ssllatency.engines.base import TracedImage
from ssllatency.probes import handshake_cache
from ssllatency.probes.plan import ImagePlan

NOBODY = 1 << 22  # past the greatest PID
OPTIONS = argparse.Namespace(no_return_probes=False, no_cache=False)
FILES = [File("/bin/true", "libssl.so.first"), File("/bin/false", "libssl.so.second")]


@pytest.mark.parametrize("pids", [(NOBODY, os.getpid()), (NOBODY,), ()])
def test_debug_files_are_looked_for_where_a_process_that_is_there_may_say_so(
    pids: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [f"/proc/{pid}/root" for pid in pids if pid != NOBODY]
    monkeypatch.setattr(plan_source, "debug_roots", lambda file, path, root: (file, path, root))
    roots = ("/bin/true", "/bin/true", *(there or ["/"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[object] = []

    def recorded(function: Any) -> Any:
        def call(*arguments: object, debug_roots: object, **others: object) -> object:
            asked.append(debug_roots)
            return function(*arguments, debug_roots=debug_roots, **others)

        return call

    for module, name in ((handshake_cache, "cached_handshake_plan"), (plan_source, "cached_names")):
        monkeypatch.setattr(module, name, recorded(getattr(module, name)))
    source = PlanSource(OPTIONS)
    image = TracedImage(ImagePlan("/bin/true", "", "", "", (), ()), "/bin/true", pids)
    assert source.handshake_plan_of(image).path == "/bin/true"
    assert source.names_of(image).reason(1) == ""
    assert asked == [roots, roots]


def test_plans_made_ahead_are_there_when_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    PlanSource(OPTIONS).make_ahead(FILES, handshakes=True, meanwhile=(tmp_path / "other").touch)
    assert (tmp_path / "other").exists()

    def refuse(path: str, **_: object) -> Image:
        raise AssertionError(f"{path} is opened once more")

    monkeypatch.setattr(Image, "open", refuse)
    later = PlanSource(OPTIONS)
    for file in FILES:
        assert later.plan(file.path, file.label).path == later.handshake_plan(file.path, file.label).path == file.label


def test_nothing_is_made_ahead_of_what_is_kept_or_of_a_single_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[int] = []
    monkeypatch.setattr(plan_source, "side_by_side", lambda tasks, _: made.append(len(tasks)))
    source = PlanSource(OPTIONS)
    source.make_ahead(FILES)
    assert made == [2]
    source.make_ahead(FILES[:1])
    PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True)).make_ahead(FILES, handshakes=True)
    for file in FILES:
        source.plan(file.path, file.label)
    PlanSource(OPTIONS).make_ahead(FILES)
    assert made == [2]
    PlanSource(OPTIONS).make_ahead(FILES, handshakes=True)
    assert made == [2, 4]
