# SPDX-License-Identifier: Apache-2.0
"""A real file that a process maps after the probes: it is opened once, and planned once, whatever it is called."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures.build import run
from tests.unit.tracing.follow.following import Kernel, Session

from ssllatency.host import kernel
from ssllatency.probes.plan import FilePlan, OperationPlan
from ssllatency.stacks.names import Names
from ssllatency.targets import Selection, tls_candidates
from ssllatency.tracing.file_facts import KnownFiles

PROGRAM = "import ctypes, sys; [ctypes.CDLL(path) for path in sys.argv[1:]]; print(flush=True); sys.stdin.read()"
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
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-S", "-c", PROGRAM, *map(str, paths)], stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid, {str(path) for path in paths}


def test_a_late_file_is_opened_once_and_planned_once(
    user_of_files: tuple[int, set[str]], monkeypatch: pytest.MonkeyPatch, counted: Counter[tuple[str, object]]
) -> None:
    """Maps are read before and after: the process's loader may have gone on meanwhile."""
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
