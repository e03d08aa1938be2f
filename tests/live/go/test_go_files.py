# SPDX-License-Identifier: Apache-2.0
"""Files of Go programs that may be taken for one another, by their path, contents or number: a program in two containers of one
image, copies of it, and one in place of another. Handshakes are counted exactly, against the programs' own counts."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.commands.handshakes import Shakes
from tests.live.commands.trace import losses
from tests.live.go.test_go import NEEDED, GoProgram, built
from tests.live.go.test_go_handshakes import started
from tests.live.safety.test_identities import recycled
from tests.live.servers.file_systems import needs_file_system, overlay

pytestmark = pytest.mark.usefixtures("tracing")
FEW = "80"  # connections, a tenth of each kind of tests/go/counted.go
OLD, NEW = NEEDED[0], NEEDED[-1]
NAME = "go-sibling"
LOOK_S = 1.0  # in which what was mapped is looked into
_AT_PLACE = 'mount --bind "$1" "$2" && exec "$2" "$3"'
Twice = Callable[[Path], AbstractContextManager[list[Path]]]


@contextmanager
def containers(folder: Path) -> Iterator[list[Path]]:
    """A program of one image, as two containers have it, each with a layer of its own."""
    (folder / "image").mkdir()
    shutil.copy(built(NEW), folder / "image" / NAME)
    with ExitStack() as stack:
        tops = []
        for name in ("one", "two"):
            (folder / f"{name}-upper").mkdir()
            tops.append(stack.enter_context(overlay(folder / name, folder / "image", upper=folder / f"{name}-upper")))
        yield [top / NAME for top in tops]


@contextmanager
def copies(folder: Path) -> Iterator[list[Path]]:
    """Two copies of a program."""
    yield [Path(shutil.copy(built(NEW), folder / f"copy-{number}")) for number in range(2)]


def at_place(file: Path, place: Path) -> tuple[str, ...]:
    """The beginning of a command that runs a program in a mount namespace of its own, where it lies at this place."""
    return "unshare", "--mount", "sh", "-c", _AT_PLACE, "sh", str(file), str(place)


def run(*programs: GoProgram) -> list[dict[str, Any]]:
    """Has all of them make their connections at the same time; what each counted."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(GoProgram.run, programs))


def assert_counted(shakes: Shakes, program: GoProgram, own: dict[str, Any]) -> None:
    """The program's handshakes, as it has counted them itself."""
    seen = Counter((single["labels"]["role"], single["ending"]) for single in shakes.singles if single["pid"] == program.pid)
    for role in ("server", "client"):
        calls = own[f"{role}Handshake"]
        assert seen[role, "success"] == calls["success"]
        assert sum(number for (one, _), number in seen.items() if one == role) == calls["success"] + calls["failure"]


@pytest.mark.parametrize("twice", [containers, copies])
def test_all_processes_of_one_image_are_traced(tmp_path: Path, twice: Twice) -> None:
    """At the same path, each in a mount namespace of its own, by their name; one comes later."""
    place = tmp_path / NAME
    place.touch()
    with (
        twice(tmp_path) as files,
        started(NEW, FEW, command=at_place(files[0], place)) as first,
        Shakes(options=("--comm", NAME, "--role", "any")) as shakes,
        started(NEW, FEW, command=at_place(files[1], place)) as second,
    ):
        if twice is copies:  # else the kernel's file is the one that is traced already
            shakes.wait_until_said(f"mapped {place}")
        counted = run(first, second)
    for program, own in zip((first, second), counted, strict=True):
        assert_counted(shakes, program, own)
    late = {"late_processes": 1} if twice is copies else {}  # the other file's, which might have made calls before
    assert losses(shakes.document) == {"left": sum(own["serverHandshake"]["left"] for own in counted), **late}


def test_a_program_that_has_the_path_and_the_inode_number_of_another(tmp_path: Path) -> None:
    """Of one that was looked into and isn't traced, within a run; and of one that was traced, from one run to the next."""
    needs_file_system("ext4")
    path = tmp_path / NAME
    shutil.copy("/bin/sleep", path)
    inode = path.stat().st_ino
    by_name = ("--comm", NAME, "--wait", "--role", "any")
    with Shakes(options=by_name) as shakes:
        with subprocess.Popen([path, "60"]) as other:
            time.sleep(LOOK_S)
            other.kill()
        path.unlink()
        with started(OLD, FEW, command=(recycled(built(OLD), path, inode),)) as before:
            shakes.wait_until_said(f"mapped {path}")
            own = before.run()
    assert_counted(shakes, before, own)
    path.unlink()
    with (
        started(NEW, FEW, command=(recycled(built(NEW), path, inode),)) as after,
        Shakes(after.pid, options=("--role", "any")) as shakes,
    ):
        own = after.run()
    assert_counted(shakes, after, own)
    assert losses(shakes.document) == {"left": own["serverHandshake"]["left"]}


def test_a_program_that_another_overwrites_dies_of_no_probe(tmp_path: Path) -> None:
    """Whoever has ended may be overwritten: breakpoints, set by offsets, would lie amid instructions of the new one."""
    path = Path(shutil.copy(built(OLD), tmp_path / NAME))
    by_name = ("--comm", NAME, "--wait", "--role", "any")
    with started(OLD, FEW, command=(path,)) as before, Shakes(options=by_name) as shakes:
        own = before.run()
        path.write_bytes(built(NEW).read_bytes())
        shakes.wait_until_said("was overwritten while it was traced")
        with started(NEW, FEW, command=(path,)) as after:
            assert after.run()["serverHandshake"]["success"] == own["serverHandshake"]["success"]
    assert_counted(shakes, before, own)
    assert any("its probes were removed" in note for note in shakes.document["notes"])
