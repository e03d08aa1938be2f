# SPDX-License-Identifier: Apache-2.0
"""Where plans and names are looked for, and that they are made ahead."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ssllatency.elf.source import ElfError
from ssllatency.engines.base import TracedImage
from ssllatency.openssl.names.names import Names
from ssllatency.probes.cache.kept import Subject, Values, Work
from ssllatency.probes.plan import ImagePlan
from ssllatency.tracing import plan_source, planning
from ssllatency.tracing.plan_source import File, PlanSource

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
    asked: list[tuple[str, ...]] = []
    run = plan_source.run_apart

    def recorded(work: Work[Any], *, heeding: bool = True) -> Values:
        asked.append(work.subject.debug_roots)
        work.subject = Subject("/bin/true", "/bin/true")
        return run(work, heeding=heeding)

    monkeypatch.setattr(plan_source, "run_apart", recorded)
    source = PlanSource(OPTIONS)
    image = TracedImage(ImagePlan("/bin/true", "", "", "", (), ()), "/bin/true", pids)
    assert source.handshake_plan_of(image).path == "/bin/true"
    assert source.names_of(image).reason(1) == ""
    assert asked == [roots, roots]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many were worked out at once."""
    found: list[int] = []
    run = plan_source.run_all_apart

    def recorded(works: Sequence[Work[Any]], meanwhile: Callable[[], object]) -> list[planning.Answer]:
        found.append(len(works))
        return run(works, meanwhile)

    monkeypatch.setattr(plan_source, "run_all_apart", recorded)
    return found


def refuse(work: Work[Any]) -> Values:
    raise AssertionError(f"{work.subject.path} is read once more")


def test_plans_made_ahead_are_there_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[int]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = PlanSource(OPTIONS)
    first.make_ahead(FILES, handshakes=True, meanwhile=(tmp_path / "other").touch)
    assert (tmp_path / "other").exists()
    assert begun == [4]
    monkeypatch.setattr(plan_source, "run_apart", refuse)
    for source in (first, PlanSource(OPTIONS)):
        for file in FILES:
            assert source.plan(file.path, file.label).path == source.handshake_plan(file.path, file.label).path == file.label


def test_nothing_is_made_ahead_of_what_is_kept_or_of_a_single_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[int]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    PlanSource(OPTIONS).make_ahead(FILES[:1])
    assert begun == []
    PlanSource(OPTIONS).make_ahead(FILES)
    assert begun == [2]
    PlanSource(OPTIONS).make_ahead(FILES)
    assert begun == [2]
    PlanSource(OPTIONS).make_ahead(FILES, handshakes=True)
    assert begun == [2, 2]


def test_same_contents_elsewhere_are_shown_with_their_own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    PlanSource(OPTIONS).plan("/bin/true", "/bin/true")
    PlanSource(OPTIONS).handshake_plan("/bin/true", "/bin/true")
    copy = shutil.copy("/bin/true", tmp_path / "copy")
    monkeypatch.setattr(plan_source, "run_apart", refuse)
    source = PlanSource(OPTIONS)
    assert source.plan(str(copy), "/lib/x").path == source.handshake_plan(str(copy), "/lib/x").path == "/lib/x"


def test_what_is_made_ahead_without_a_cache_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[int]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True))
    source.make_ahead(FILES)
    monkeypatch.setattr(plan_source, "run_apart", refuse)
    assert [source.plan(file.path, file.label).kind for file in FILES] == ["", ""]
    assert begun == [2]
    assert list(tmp_path.iterdir()) == []


def test_names_are_read_for_the_report_of_a_run_that_a_signal_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    image = TracedImage(ImagePlan("/bin/true", "", "", "", (), ()), "/bin/true", ())
    text = TracedImage(ImagePlan("/etc/passwd", "", "", "", (), ()), "/etc/passwd", ())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # any thread may take what is sent to the process
        with pytest.raises(KeyboardInterrupt):
            PlanSource(OPTIONS).plan("/bin/true", "/bin/true")
        assert [PlanSource(OPTIONS).names_of(each) for each in (image, text)] == [Names(), Names()]
    finally:
        signal.sigtimedwait({signal.SIGINT}, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def test_what_can_not_be_made_is_told_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "text").write_text("no ELF file")
    source = PlanSource(OPTIONS)
    source.make_ahead([File(str(tmp_path / "text"), "/lib/libssl.so.3"), *FILES])
    assert source.plan(FILES[0].path, FILES[0].label).kind == ""
    with pytest.raises(ElfError, match=r"^/lib/libssl.so.3 is not an ELF file\.$"):
        source.plan(str(tmp_path / "text"), "/lib/libssl.so.3")
