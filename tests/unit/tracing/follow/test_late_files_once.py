# SPDX-License-Identifier: Apache-2.0
"""Real files that a process maps after the probes: each is opened once, and planned once, whatever it is called, and closed if
it isn't traced; one for which no descriptor is left is looked at again."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures.build import run
from tests.fixtures.waiting_python import LOADS, waiting_python
from tests.unit.tracing.follow.following import Kernel, Session

from ssllatency.host import kernel
from ssllatency.probes.plan import FilePlan, OperationPlan
from ssllatency.stacks.names import Names
from ssllatency.targets import Selection, tls_candidates
from ssllatency.tracing.file_facts import KnownFiles
from ssllatency.tracing.late import waiting

MAPPING = """
import mmap, sys
files = [open(path, "rb") for path in sys.argv[1:]]
held = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC) for file in files]
"""
NAMES = ("libssl.so.3", "another_name.so")


class Source:
    """Plans every file alike, and counts how often each is planned."""

    def __init__(self) -> None:
        self.planned: Counter[str] = Counter()

    def plan(self, path: str, label: str, _root: str) -> FilePlan:
        assert Path(path).samefile(label)
        self.planned[label] += 1
        operation = OperationPlan("SSL_read", 0, 1, ".dynsym", ())
        return FilePlan(label, label, "", "libssl", (operation,), (), machine=kernel.machine())

    def names_of(self, _image: object) -> Names:
        return Names()


@pytest.fixture
def user_of_files(tmp_path: Path) -> Iterator[tuple[int, set[str]]]:
    """The PID of a process that maps a library with a TLS library's name and one with another; and their paths."""
    programs.needed("gcc")
    (tmp_path / "library.c").write_text("int SSL_read(void) { return 1; }")
    paths = [tmp_path / name for name in NAMES]
    for path in paths:
        run("gcc", "-shared", "-fPIC", "-o", path, tmp_path / "library.c")
    with waiting_python(LOADS, *paths) as pid:
        yield pid, {str(path) for path in paths}


def test_a_late_file_is_opened_once_and_planned_once(
    user_of_files: tuple[int, set[str]], monkeypatch: pytest.MonkeyPatch, counted: Counter[tuple[str, object]]
) -> None:
    """Maps are read before and after: the process's loader may have gone on meanwhile."""
    monkeypatch.setattr(waiting, "_MOST_LOOK_S", 60.0)  # a busy machine may take longer than one look should
    monkeypatch.setattr(KnownFiles, "holds_traced", lambda _self, _fd, path, _root: Path(path).name in NAMES)
    pid, paths = user_of_files
    identities = {file.path: file.identity for file in tls_candidates(pid)}
    source = Source()
    session = Session(Kernel({pid: []}), [], Selection(pids=(pid,)), source=source)
    counted.clear()
    session._follower.look()
    assert {image.plan.path for image in session.extended} == paths
    assert all(Path(image.file).samefile(image.plan.path) for image in session.extended)
    assert source.planned == dict.fromkeys(paths, 1)
    assert [counted["open", identities[path]] for path in paths] == [1, 1]
    assert counted["maps", pid] == 2
    session.close()


def test_files_without_tls_are_closed_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_MOST_LOOK_S", 60.0)
    numbers: dict[str, int] = {}

    def holds_traced(_self: KnownFiles, _fd: int, path: str, _root: str) -> bool:
        numbers[path] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a path for each would be opened as well
        return False

    monkeypatch.setattr(KnownFiles, "holds_traced", holds_traced)
    paths = [tmp_path / f"plain{number}.so" for number in range(60)]
    for path in paths:
        path.write_bytes(b"nothing")
    with waiting_python(MAPPING, *paths) as pid:
        session = Session(Kernel({pid: []}), [], Selection(pids=(pid,)))
        session._follower.look()
        session.close()
    assert numbers.keys() >= set(map(str, paths))
    assert max(numbers.values()) == min(numbers.values())


@pytest.mark.parametrize("left", range(7))
def test_a_file_for_which_no_descriptor_is_left_is_traced_later(
    left: int, user_of_files: tuple[int, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_MOST_LOOK_S", 60.0)
    monkeypatch.setattr(KnownFiles, "holds_traced", lambda _self, _fd, path, _root: Path(path).name in NAMES)
    pid, paths = user_of_files
    session = Session(Kernel({pid: []}), [], Selection(pids=(pid,)), source=Source())
    with _descriptors(left):
        for _ in range(3):
            session._follower.look()
    was_refused = len(session.extended) < len(paths)
    said = [note for note in session.attachment.notes if "Too many files are open" in note]
    assert len(said) == was_refused  # one sentence, however many processes and files
    session.look()
    assert {image.plan.path for image in session.extended} == paths
    assert was_refused or left
    session.close()


@contextmanager
def _descriptors(left: int) -> Iterator[None]:
    """So many descriptors are left at most."""
    next_one = os.dup(0)
    os.close(next_one)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one + left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
