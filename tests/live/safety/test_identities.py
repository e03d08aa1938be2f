# SPDX-License-Identifier: Apache-2.0
"""No file stands in for another: a file that has the numbers of a server's libssl in /proc/PID/maps, or the inode number that
another file had, takes nothing from what is counted of the server."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import machine
from tests.live.commands.trace import Document, Trace, count, counted_pids, losses
from tests.live.servers.file_systems import (
    LIBRARIES,
    btrfs,
    mapping,
    mounted,
    needs_file_system,
    numbers_in_maps,
    openssl_in,
    other_build,
    overlay,
    subvolume,
    without_build_id,
)
from tests.live.servers.late import Late, late

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 15
HANDSHAKE = "SSL_do_handshake"


def plain(path: Path) -> Path:
    """A library there that has nothing to do with TLS."""
    return Path(shutil.copy(next(machine.LIBRARIES.glob("libz.so.1")), path))


@pytest.fixture(params=["plain", "named", "other"])
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A libssl, and a file of another subvolume with its inode number: no TLS, the same called libssl, or another libssl."""
    with btrfs(tmp_path / "btrfs") as top:
        libssl, folder = openssl_in(subvolume(top / "host")), subvolume(top / "user")
        match request.param:
            case "plain":
                twin = plain(folder / "plain.so")
            case "named":
                twin = plain(folder / "libssl.so.3")
            case _:
                twin = other_build(libssl, folder / "libssl.so.3")
        assert libssl.stat().st_ino == twin.stat().st_ino
        yield libssl, twin


@contextmanager
def served_by(libssl: Path, certificates: Path, *, loaded: bool = True) -> Iterator[Late]:
    """A server that loads this libssl, at once or later."""
    with late(certificates, "env", f"LD_LIBRARY_PATH={libssl.parent}") as server:
        if loaded:
            server.do("load")
        yield server


def test_who_maps_a_library_that_an_overlay_has_copied_is_counted(certificates: Path, tmp_path: Path) -> None:
    """Whoever opens it for writing, or touches it, has the overlay copy it to another layer: under the same path and with the
    same numbers it is another file to the kernel, without the probes."""
    with mounted(tmp_path / "tmpfs", "-t", "tmpfs", "tmpfs") as parts:
        openssl_in(parts / "lower")
        (parts / "upper").mkdir()
        with overlay(parts / "merged", parts / "lower", upper=parts / "upper") as merged:
            libssl = merged / LIBRARIES[0]
            with (
                served_by(libssl, certificates) as before,
                served_by(libssl, certificates, loaded=False) as after,
                Trace(before.process.pid, after.process.pid, options=("--by-process",)) as trace,
            ):
                served(before)
                os.utime(libssl)
                trace.wait_until_said("an overlay has copied it")
                after.do("load")
                served(after)
                served(before)
        document = trace.document
    rows = [row for row in document["functions"] if row["function"] == HANDSHAKE and row["outcome"] == "success"]
    assert {row["pid"]: row["count"] for row in rows} == {before.process.pid: 2 * TIMES, after.process.pid: TIMES}


@pytest.mark.parametrize("copied", [True, False])
def test_who_is_forked_after_that_and_has_links_of_its_own_is_said_not_to_be_counted(
    certificates: Path, tmp_path: Path, copied: bool
) -> None:
    """The kernel finds the copy by the original's path; a file that only changes its times stays the same file."""
    with mounted(tmp_path / "tmpfs", "-t", "tmpfs", "tmpfs") as parts, ExitStack() as stack:
        libssl = openssl_in(parts / "lower")
        if copied:
            (parts / "upper").mkdir()
            libssl = stack.enter_context(overlay(parts / "merged", parts / "lower", upper=parts / "upper")) / LIBRARIES[0]
        server = stack.enter_context(served_by(libssl, certificates))
        with Trace(server.process.pid, options=("--links", "process")) as trace:
            served(server)
            os.utime(libssl)
            looked_at()
            server.do(f"fork {TIMES}", TIMES)
            served(server)
        assert (count(trace.document, HANDSHAKE) > 2 * TIMES) != copied  # a child's first calls may be missed
        assert any("may have copied it" in note for note in trace.document["notes"]) == copied


def looked_at() -> None:
    """Waits until what was mapped was looked at."""
    time.sleep(1.5)


def served(server: Late) -> None:
    server.do(f"serve {TIMES}", TIMES)


def assert_counted(document: Document, *servers: Late) -> None:
    """Each server's handshakes, and of no other process any."""
    pids = {server.process.pid for server in servers}
    assert counted_pids(document, HANDSHAKE) - pids <= clients()
    for pid in pids:
        rows = [row for row in document["functions"] if row["pid"] == pid]
        assert count({**document, "functions": rows}, HANDSHAKE) == TIMES, f"lost: {losses(document)}"


def clients() -> set[int]:
    """This process, which connects by the host's own libssl."""
    return {os.getpid()}


def targets_of(document: Document) -> set[int]:
    return {target["pid"] for target in document["targets"]}


@pytest.mark.parametrize("first", ["server", "twin"])
@pytest.mark.parametrize("by", ["pid", "all", "library"])
def test_a_file_of_another_subvolume_with_its_inode_number(
    certificates: Path, twins: tuple[Path, Path], first: str, by: str
) -> None:
    libssl, twin = twins
    with ExitStack() as stack:
        holder = stack.enter_context(mapping(twin)) if first == "twin" else 0
        server = stack.enter_context(served_by(libssl, certificates))
        holder = holder or stack.enter_context(mapping(twin))
        assert numbers_in_maps(holder, twin) == numbers_in_maps(server.process.pid, libssl)
        pids = (holder, server.process.pid) if by == "pid" else ()
        options = {"pid": (), "all": ("--all",), "library": ("--library", str(libssl))}[by]
        with Trace(*pids, options=(*options, "--by-process")) as trace:
            served(server)
    assert_counted(trace.document, server)
    if by != "all":
        assert losses(trace.document) == {}
    if by == "library":
        assert targets_of(trace.document) == {server.process.pid}


@pytest.mark.parametrize("by", ["all", "pid", "library"])
def test_a_process_that_maps_it_later(certificates: Path, twins: tuple[Path, Path], by: str) -> None:
    """Once the twin's file was looked into; and another twin, once the server's was."""
    libssl, twin = twins
    with mapping(twin) as holder, served_by(libssl, certificates, loaded=False) as server:
        pids = (holder, server.process.pid) if by == "pid" else ()
        options = {"pid": ("--wait",), "all": ("--all",), "library": ("--library", str(libssl), "--wait")}[by]
        with Trace(*pids, options=(*options, "--by-process")) as trace, ExitStack() as stack:
            looked_at()
            server.do("load")
            if by == "all":  # by PID it is expected, as the process's environment tells where it lies
                trace.wait_until_said(f"mapped {libssl}")
            stack.enter_context(mapping(twin))
            served(server)
    assert_counted(trace.document, server)
    assert set(losses(trace.document)) <= {"late_processes"}


def test_who_maps_a_twin_is_not_the_first_that_was_waited_for(certificates: Path, twins: tuple[Path, Path]) -> None:
    """The time begins with the first process that maps the library itself."""
    libssl, twin = twins
    with (
        Trace(options=("--library", str(libssl), "--wait", "-d", "1", "--by-process")) as trace,
        mapping(twin),
        served_by(libssl, certificates, loaded=False) as server,
    ):
        time.sleep(2)
        assert trace.is_running
        server.do("load")
        served(server)
    assert_counted(trace.document, server)
    assert losses(trace.document) == {}


@pytest.mark.parametrize("by", ["pid", "all"])
def test_layers_of_an_overlay_that_are_of_several_file_systems(certificates: Path, tmp_path: Path, by: str) -> None:
    """A file of the upper layer, in memory, has the inode number of the libssl below."""
    with (
        btrfs(tmp_path / "lower") as lower,
        mounted(tmp_path / "memory", "-t", "tmpfs", "tmpfs") as memory,
    ):
        inode = openssl_in(subvolume(lower / "host")).stat().st_ino
        (memory / "upper").mkdir()
        twin = next(file for file in map(plain, numbered(memory / "upper")) if file.stat().st_ino >= inode)
        assert twin.stat().st_ino == inode
        with overlay(tmp_path / "both", lower / "host", upper=memory / "upper") as both:
            libssl, seen = both / "libssl.so.3", both / twin.name
            with mapping(seen) as holder, served_by(libssl, certificates) as server:
                if numbers_in_maps(holder, seen) != numbers_in_maps(server.process.pid, libssl):
                    pytest.skip("this kernel tells layers apart in maps")
                pids = (holder, server.process.pid) if by == "pid" else ()
                options = () if by == "pid" else ("--all",)
                with Trace(*pids, options=(*options, "--by-process")) as trace:
                    served(server)
    assert_counted(trace.document, server)


def numbered(folder: Path) -> Iterator[Path]:
    for number in range(1000):
        yield folder / f"plain-{number}.so"


Twice = Callable[[Path], AbstractContextManager[tuple[Path, Path]]]


@contextmanager
def containers(folder: Path) -> Iterator[tuple[Path, Path]]:
    """One image under two containers, each with a layer of its own."""
    openssl_in(folder / "image")
    with running(folder) as paths:
        yield paths


@contextmanager
def nameless(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The same of an image whose libraries have no build-ids."""
    libssl = openssl_in(folder / "image")
    for name in LIBRARIES:
        without_build_id(libssl.with_name(name))
    with running(folder) as paths:
        yield paths


@contextmanager
def running(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Two containers of what is in the folder `image`."""
    image = folder / "image"
    with ExitStack() as stack:
        tops = []
        for name in ("one", "two"):
            (folder / f"{name}-upper").mkdir()
            tops.append(stack.enter_context(overlay(folder / name, image, upper=folder / f"{name}-upper", options="xino=auto")))
        yield tops[0] / "libssl.so.3", tops[1] / "libssl.so.3"


@contextmanager
def bound(folder: Path) -> Iterator[tuple[Path, Path]]:
    """One folder by two paths."""
    libssl = openssl_in(folder / "image")
    with mounted(folder / "bound", "--bind", str(libssl.parent)) as other:
        yield libssl, other / libssl.name


@contextmanager
def bound_subvolume(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A subvolume of btrfs by two paths."""
    with btrfs(folder / "btrfs") as top:
        libssl = openssl_in(subvolume(top / "host"))
        with mounted(folder / "bound", "--bind", str(libssl.parent)) as other:
            yield libssl, other / libssl.name


@pytest.mark.parametrize(
    ("twice", "by"),
    [(twice, by) for twice in (bound, bound_subvolume) for by in ("pid", "all", "library")]
    + [(twice, by) for twice in (containers, nameless) for by in ("pid", "all")],
)
@pytest.mark.parametrize("later", [False, True], ids=["there", "later"])
def test_one_file_by_two_paths_is_counted_once(certificates: Path, tmp_path: Path, twice: Twice, by: str, later: bool) -> None:
    """Whoever comes by the other path, before the trace or after it began."""
    with twice(tmp_path) as (first, second), ExitStack() as stack:
        one = stack.enter_context(served_by(first, certificates))
        two = stack.enter_context(served_by(second, certificates, loaded=not later))
        pids = (one.process.pid, two.process.pid) if by == "pid" else ()
        options = {"pid": (), "all": ("--all",), "library": ("--library", str(second))}[by]
        with Trace(*pids, options=(*options, "--by-process")) as trace:
            if later:
                two.do("load")
                looked_at()
            served(one)
            served(two)
    assert_counted(trace.document, one, two)
    assert set(losses(trace.document)) <= {"late_processes"}
    if twice not in (containers, nameless):
        libraries = {
            (library["path"], library["build_id"])
            for target in trace.document["targets"]
            for library in target["libraries"]
            if target["pid"] in {one.process.pid, two.process.pid} and "libssl" in library["path"]
        }
        assert len(libraries) == 1


@pytest.mark.parametrize("by", ["all", "pid"])
def test_an_inode_number_that_another_file_had(certificates: Path, tmp_path: Path, by: str) -> None:
    """The first was looked into and isn't traced; the second, a libssl, has its path and its number."""
    needs_file_system("ext4")
    folder = tmp_path / "own"
    folder.mkdir()
    made = openssl_in(tmp_path / "made")
    old = plain(folder / "libssl.so.3")
    inode = old.stat().st_ino
    with served_by(made, certificates) as other, served_by(folder / "libssl.so.3", certificates, loaded=False) as server:
        pids = (other.process.pid, server.process.pid) if by == "pid" else ()
        with Trace(*pids, options=(*(() if pids else ("--all",)), "--by-process")) as trace:
            with mapping(old) if by == "all" else mapped_by(server, old):
                looked_at()
            old.unlink()
            libssl = recycled(made, folder / "libssl.so.3", inode)
            shutil.copy(made.with_name("libcrypto.so.3"), folder)
            server.do("load")
            trace.wait_until_said(f"mapped {libssl}")
            served(server)
    rows = [row for row in trace.document["functions"] if row["pid"] == server.process.pid]
    assert count({**trace.document, "functions": rows}, HANDSHAKE) == TIMES


@contextmanager
def mapped_by(server: Late, path: Path) -> Iterator[None]:
    """The server maps the file as code meanwhile."""
    server.do(f"map {path}")
    try:
        yield
    finally:
        server.do("unmap")


def recycled(source: Path, path: Path, inode: int) -> Path:
    """A copy that has this inode number, which was just given up."""
    for number in range(200):
        draft = path.with_name(f"draft-{number}")
        shutil.copy(source, draft)
        if draft.stat().st_ino == inode:
            return draft.rename(path)
    pytest.skip("this file system doesn't give the number to another file")
