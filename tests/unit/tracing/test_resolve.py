# SPDX-License-Identifier: Apache-2.0
"""From found files to planned ones: what a process unloads in between is left out, and told in a sentence; what is
taken along with a library that was named by its file."""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_for

from ssllatency.elf.source import ElfError
from ssllatency.engines.base import TracedImage
from ssllatency.errors import SsllatencyError
from ssllatency.facts import NOTHING
from ssllatency.probes.plan import FilePlan
from ssllatency.stacks.names import Names
from ssllatency.targets import (
    MappedFile,
    Selection,
    TracedFile,
    mapped_files,
    process_of,
)
from ssllatency.tracing import resolve
from ssllatency.tracing.file_facts import KnownFiles
from ssllatency.tracing.resolve import Resolved, _with_companions

Found = Callable[[str], tuple[TracedFile, Callable[[], None]]]


class Source:
    """Plans every file alike, but for those called "damaged"."""

    def make_ahead(self, _files: object, **_options: object) -> None:
        """Nothing takes time here."""

    def plan(self, path: str, label: str, _root: str) -> FilePlan:
        assert Path(path).read_bytes()
        if "damaged" in label:
            raise ElfError(f"{label} is damaged.")
        return FilePlan(label, "", "", "libssl", (), ())

    def names_of(self, _image: TracedImage) -> Names:
        return Names()


SOURCE: Any = Source()


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Found]:
    """found(name): a file that this process maps as code, and what unloads it."""
    with ExitStack() as stack:

        def make(name: str) -> tuple[TracedFile, Callable[[], None]]:
            path = tmp_path / name
            path.write_bytes(b"x" * mmap.PAGESIZE)
            fd = os.open(path, os.O_RDONLY)
            mapping = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
            os.close(fd)
            stack.callback(mapping.close)
            (mapped,) = [file for file in mapped_files(os.getpid()) if file.path == str(path)]
            return TracedFile("libssl", os.getpid(), mapped, (os.getpid(),)), mapping.close

        yield make


def test_a_file_that_is_unloaded_before_it_is_opened_is_left_out(found: Found) -> None:
    (kept, _), (gone, unload), (damaged, _) = (found(name) for name in ("kept.so", "gone.so", "damaged.so"))
    unload()
    told: list[str] = []
    with ExitStack() as stack:
        opened = resolve._opened([gone, kept, damaged], SOURCE, stack, lambda error: told.append(str(error)), {})
        assert [(file, image.plan.path) for file, image in opened] == [(kept, kept.path)]
    assert told == [
        f"No process maps {gone.path} any more: it was unloaded, or its processes have ended, meanwhile.",
        f"{damaged.path} is damaged.",
    ]


def test_where_nothing_else_was_asked_for_it_is_an_error(found: Found) -> None:
    gone, unload = found("gone.so")
    unload()
    with ExitStack() as stack, pytest.raises(SsllatencyError, match="any more: it was unloaded"):
        resolve.open_images([(gone, SOURCE.plan(__file__, gone.path, "/"))], SOURCE, stack)


def traced(path: str, kind: str, inode: int, *pids: int) -> TracedFile:
    return TracedFile(kind, pids[0], MappedFile(path, (8, 1), inode, "1000-2000", deleted=False), pids)


FILES = [
    traced("/usr/lib/libssl.so.3", "libssl", 1, 10, 20),
    traced("/usr/lib/libcrypto.so.3", "libcrypto", 2, 10, 20, 30),
    traced("/opt/lib/libssl.so.1.1", "libssl", 3, 20),
    traced("/opt/lib/libcrypto.so.1.1", "libcrypto", 4, 20),
    traced("/usr/lib/engines-3/qatengine.so", "qatengine", 5, 10),
    traced("/usr/lib/libcrypto_mb.so.11", "libcrypto_mb", 6, 10),
    traced("/opt/node", "static", 7, 20),
    traced("/srv/libcrypto.so.3", "libcrypto", 8, 40),
]


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ([1], [1, 2, 5, 6]),
        ([3], [3, 4]),
        ([1, 3], [1, 2, 3, 4, 5, 6]),
        ([2], [2]),
        ([7], [7]),
        ([9], []),
    ],
)
def test_a_libssl_brings_the_libcrypto_of_its_processes(named: list[int], taken: list[int]) -> None:
    found = _with_companions(FILES, [(8, 1, inode) for inode in named])
    assert [file.inode for file in found] == taken


def test_a_libcrypto_of_another_suffix_is_better_than_none() -> None:
    files = [traced("/lib/libssl.so", "libssl", 1, 10), traced("/lib/libcrypto-8b5ba2b3.so.3", "libcrypto", 2, 10)]
    assert _with_companions(files, [(8, 1, 1)]) == files


def test_what_follows_later_processes_is_loaded_before_files_are_known(
    user_of_openssl: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    selection, options = (
        Selection(pids=(user_of_openssl,)),
        argparse.Namespace(no_return_probes=False, no_cache=False, wait=False),
    )
    following: Any = object()
    loaded: list[Selection] = []

    def load_early(known: Resolved, _stack: ExitStack) -> Any:
        assert not known.images
        loaded.append(known.selection)
        return following

    with ExitStack() as stack:
        first, again = (resolve.resolve(selection, options, stack, load_early=load_early) for _ in range(2))
        for resolved in (first, again):
            assert {image.plan.kind for image in resolved.images} == {"libssl", "libcrypto"}
            assert [target.pid for target in resolved.targets] == [user_of_openssl]
            assert not resolved.waits
    assert loaded == [selection] * 2
    assert first.following is again.following is following


def test_maps_are_read_once_and_a_file_is_opened_and_planned_once(
    user_of_openssl: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: Counter[tuple[str, object]]
) -> None:
    """Also where nothing is kept of the last run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = argparse.Namespace(no_return_probes=False, no_cache=False, wait=False)
    for _ in range(2):
        counted.clear()
        with ExitStack() as stack:
            resolved = resolve.resolve(Selection(pids=(user_of_openssl,)), options, stack)
            assert len(resolved.images) == 2
        assert {("maps", user_of_openssl), *(("plan", image.plan.path) for image in resolved.images)} <= counted.keys()
        assert {("open", file.identity) for file in resolved.files} <= counted.keys()
        assert set(counted.values()) == {1}


def test_a_process_that_ends_while_its_files_are_planned_is_left_out(found: Found, tmp_path: Path) -> None:
    """Without a word, as one that has ended before, also where a problem with any of the processes is an error."""
    program = tmp_path / "brief"
    shutil.copy("/bin/sleep", program)
    (there, _), problems = found("libssl-a.so"), resolve._Problems(fatal=True)
    with ExitStack() as stack, subprocess.Popen([program, "60"]) as brief:
        try:
            process = wait_for(lambda: process_of(brief.pid))
            mapping = wait_for(lambda: next((each for each in mapped_files(brief.pid) if each.path == str(program)), None))
            ended = TracedFile("libssl", brief.pid, mapping, (brief.pid,))
        finally:
            brief.kill()
            brief.wait()
        search = resolve._Search(Selection(), [process], KnownFiles(lambda *_: NOTHING), problems, wait=True)
        assert search._plan(ended, SOURCE) is None
        kept, _ = resolve._planned([there, ended], SOURCE, stack, problems, {})
    assert [file.path for file in kept] == [there.path]
    assert problems.warnings == []


def test_only_what_is_traced_stays_open(user_of_openssl: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(resolve, "MOST_LIBRARIES", 1)
    options = argparse.Namespace(no_return_probes=False, no_cache=False, wait=False)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with ExitStack() as stack:
        resolved = resolve.resolve(Selection(pids=(user_of_openssl,)), options, stack)
        assert len(resolved.images) == 1
        assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
        assert any("There is room for 1 files" in note for note in resolved.notes)


def test_a_damaged_file_ends_the_search_only_where_its_process_was_named(
    found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which it is, its plan says."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (damaged, _), own = found("libssl-damaged.so"), process_of(os.getpid())
    assert own
    for fatal in (False, True):
        problems = resolve._Problems(fatal=fatal)
        search = resolve._Search(Selection(pids=(own.pid,)), [own], KnownFiles(lambda *_: NOTHING), problems, wait=True)
        ahead = resolve._Ahead(SOURCE, lambda: None)
        with ExitStack() as stack, suppress(SsllatencyError) if not fatal else pytest.raises(ElfError, match="is damaged"):
            files, _ = search.files(SOURCE, ahead, stack)
            assert damaged.path not in [file.path for file in files]
        assert problems.warnings == ([] if fatal else [f"{damaged.path} is damaged."])


def test_who_may_come_is_waited_for_where_that_is_asked_for() -> None:
    selection = Selection(comms=("nobody",))
    options = argparse.Namespace(no_return_probes=False, no_cache=True)
    with ExitStack() as stack:
        with pytest.raises(SsllatencyError) as refused:
            resolve.resolve(selection, options, stack)
        with pytest.raises(SsllatencyError) as advised:
            resolve.resolve(selection, argparse.Namespace(**vars(options), wait=False), stack)
        resolved = resolve.resolve(selection, argparse.Namespace(**vars(options), wait=True), stack)
    assert str(advised.value) == f"{refused.value} Add --wait if it starts later."
    assert (resolved.targets, resolved.waits) == ((), True)
