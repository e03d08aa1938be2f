# SPDX-License-Identifier: Apache-2.0
"""The cache of plans: what it returns is what planning would return, and nothing odd makes it fail."""

from __future__ import annotations

import ast
import json
import mmap
import os
import stat
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import build
from tests.unit.probes.cache.cached import Asker, code_that_asks, line_of, said
from tests.unit.probes.cache.fresh import printed

from ssllatency.code.machine import Emulation
from ssllatency.elf.image import ElfError, Image
from ssllatency.probes.cache import store
from ssllatency.probes.cache.kept import FileWork
from ssllatency.probes.cache.parts import PLAN
from ssllatency.probes.cache.store import default_directory
from ssllatency.probes.plan import FilePlan
from ssllatency.probes.planner import plan_image
from ssllatency.tracing.planning.reading import ReadingProcess


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home" / "cache" / "ssllatency"


def ask(library: Path, directory: Path, **settings: object) -> tuple[FilePlan, bool]:
    return Asker(directory).plan(library, **settings)


def entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.exists() else []


def test_second_time_comes_from_the_cache(library: Path, directory: Path) -> None:
    fresh, kept = ask(library, directory)
    assert not kept
    assert fresh == plan_image(Image.open(library))
    assert ask(library, directory) == (fresh, True)


def test_all_that_is_found_out_about_a_file_is_one_entry(library: Path, directory: Path) -> None:
    asker = Asker(directory)
    for kept in (False, True):
        assert [asker.plan(library)[1], asker.handshake_sites(library)[1], asker.names(library)[1]] == [kept] * 3
    (entry,) = entries(directory)
    assert set(json.loads(entry.read_text())["parts"]) == {"plan", "handshake", "names"}


def test_parts_of_one_file_are_believed_each_by_itself(library: Path, directory: Path) -> None:
    asker = Asker(directory)
    plan, names = asker.plan(library)[0], asker.names(library)[0]
    (entry,) = entries(directory)
    values = json.loads(entry.read_text())
    values["parts"]["plan"]["kind"] = "kernel"
    entry.write_text(json.dumps(values))
    assert asker.names(library) == (names, True)
    assert asker.plan(library) == (plan, False)
    assert [asker.plan(library), asker.names(library)] == [(plan, True), (names, True)]


def test_folder_and_entry_are_private(library: Path, directory: Path) -> None:
    ask(library, directory)
    (entry,) = entries(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_loading_brings_neither_parser_nor_decoder(library: Path, directory: Path) -> None:
    ask(library, directory)
    code = code_that_asks("PLAN", library, directory)
    assert printed(code + "print(found.kind)") == ["libssl"]


def test_other_settings_and_other_contents_are_other_plans(library: Path, directory: Path) -> None:
    ask(library, directory)
    assert not ask(library, directory, return_probes=False)[1]
    assert not ask(library, directory, emulation=Emulation(multibyte_nops=True))[1]
    assert not ask(library, directory, branch_exits=False)[1]
    library.write_bytes(library.read_bytes() + b"\0")
    assert not ask(library, directory)[1]


def test_other_code_of_the_planner_is_another_plan(library: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(library, directory)
    monkeypatch.setattr(store, "_own_code", lambda: "another version")
    assert not ask(library, directory)[1]


def test_what_is_kept_depends_on_every_module_that_makes_it() -> None:
    """Whatever the planning rooms import, of this package, is part of the name under which a plan is kept."""
    named = store.planning_modules()
    for name, source in named.items():
        for node in ast.walk(ast.parse(Path(source).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ssllatency."):
                assert node.module in named or f"{node.module}.__init__" in named, f"{name} imports {node.module}"
    assert {"ssllatency.abi", "ssllatency.code.x86.tables", "ssllatency.stacks.openssl.names.library"} <= named.keys()


def test_without_build_id_nothing_is_kept(library: Path, directory: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.so"
    build.run("gcc", "-shared", "-nostdlib", "-Wl,--build-id=none", "-o", plain, library.parent / "code.S")
    assert not ask(plain, directory)[1]
    assert not ask(plain, directory)[1]
    assert entries(directory) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"[" * 100_000, b"\xff\xfe", b'{"debug": null, "parts": {}}', b"x" * (2 << 20), b'{"plan": NaN}'],
    ids=["empty", "cut", "list", "deep", "not text", "no plan", "large", "no number"],
)
def test_damaged_entry_is_planned_again_and_replaced(library: Path, directory: Path, content: bytes) -> None:
    fresh, _ = ask(library, directory)
    (entry,) = entries(directory)
    entry.write_bytes(content)
    assert ask(library, directory) == (fresh, False)
    assert ask(library, directory) == (fresh, True)


def test_entry_with_an_offset_past_the_file_is_planned_again(library: Path, directory: Path) -> None:
    fresh, _ = ask(library, directory)
    (entry,) = entries(directory)
    values = json.loads(entry.read_text())
    values["parts"]["plan"]["operations"][0]["probes"][0]["offset"] = library.stat().st_size
    entry.write_text(json.dumps(values))
    assert ask(library, directory) == (fresh, False)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702])
def test_folder_that_others_may_write_to_is_not_used(library: Path, directory: Path, mode: int) -> None:
    ask(library, directory)
    directory.chmod(mode)
    assert not ask(library, directory)[1]


def test_entry_that_others_may_write_to_is_not_used(library: Path, directory: Path) -> None:
    ask(library, directory)
    entries(directory)[0].chmod(0o666)
    assert not ask(library, directory)[1]


def test_links_are_not_followed(library: Path, directory: Path, tmp_path: Path) -> None:
    ask(library, directory)
    (entry,) = entries(directory)
    entry.rename(tmp_path / "entry")
    entry.symlink_to(tmp_path / "entry")
    assert not ask(library, directory)[1]
    moved = directory.rename(tmp_path / "moved")
    directory.symlink_to(moved)
    assert not ask(library, directory)[1]


def test_pipe_in_place_of_an_entry_does_not_hang(library: Path, directory: Path) -> None:
    ask(library, directory)
    (entry,) = entries(directory)
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert not ask(library, directory)[1]


def test_nothing_is_made_in_a_folder_of_others(library: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert not ask(library, shared / "ssllatency")[1]
    assert entries(shared) == []


def test_cache_that_can_not_be_written_is_no_error(library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan, kept = ask(library, tmp_path / "file" / "ssllatency")
    assert (len(plan.operations), kept) == (2, False)


def test_a_folder_that_cannot_be_looked_at_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root's home, of whoever has become another user."""

    def denied(path: object, **_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    assert store.is_there(tmp_path)
    monkeypatch.setattr(os, "stat", denied)
    assert not store.is_there(tmp_path)


def test_what_a_killed_writer_has_left_goes(tmp_path: Path) -> None:
    """A draft that is being written stays."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    left, new, other = (folder / name for name in (".0123456789abcdef", ".fedcba9876543210", ".other"))
    for draft in (left, new, other):
        draft.write_text('{"half')
    for draft in (left, other):
        os.utime(draft, ns=(0, 0))
    store.store(folder, "entry.json", {})
    assert sorted(folder.iterdir()) == sorted((new, other, folder / "entry.json"))


def test_oldest_entries_go(library: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MOST_ENTRIES", 2)
    kept = []
    for size in range(3):
        library.write_bytes(library.read_bytes() + b"\0" * size)
        ask(library, directory)
        (new,) = set(entries(directory)) - set(kept)
        os.utime(new, (size, size))
        kept.append(new)
    assert entries(directory) == sorted(kept[1:])


@pytest.mark.parametrize("known", [True, False], ids=["of a libssl", "of who knows what"])
def test_debug_file_that_comes_or_changes_is_looked_at(library: Path, directory: Path, tmp_path: Path, known: bool) -> None:
    roots = (str(tmp_path / "root"),)
    if not known:
        library = build.library(tmp_path, "libshapes.so", build.SHAPES)

    def again() -> bool:
        return Asker(directory, roots).plan(library)[1]

    assert [again(), again()] == [False, True]
    build_id = Image.open(library).build_id
    debug = tmp_path / "root/usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    build.run("objcopy", "--only-keep-debug", library, debug)
    assert [again(), again()] == [False, True]
    os.utime(debug, (1, 1))
    assert [again(), again()] == [False, True]
    debug.unlink()
    assert not again()


def test_a_debug_file_is_believed_in_its_own_root_alone(library: Path, directory: Path, tmp_path: Path) -> None:
    """A container that has the same library may have a debug file of its own, with other symbols."""
    build_id = Image.open(library).build_id
    debug = tmp_path / "container/usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    build.run("objcopy", "--only-keep-debug", library, debug)

    def kept(*roots: str) -> bool:
        return Asker(directory, roots).plan(library)[1]

    container, host = str(tmp_path / "container"), str(tmp_path / "host")
    assert [kept(container, host), kept(container, host)] == [False, True]
    assert not kept(host)


@pytest.mark.parametrize(
    ("path", "roots", "inside"),
    [
        ("/usr/lib/debug/x", ("/",), True),
        ("/usr/lib/debug/x", ("/proc/7/root", "/"), True),
        ("/proc/7/root/usr/lib/debug/x", ("/proc/7/root", "/"), True),
        ("/proc/7/root/usr/lib/debug/x", ("/",), False),
        ("/proc/7/root/usr/lib/debug/x", ("/proc/70/root", "/"), False),
    ],
)
def test_whose_root_a_debug_file_lies_in(path: str, roots: tuple[str, ...], inside: bool) -> None:
    assert store._lies_in(path, roots) == inside


def test_what_is_no_file_of_a_sane_size_is_not_hashed(tmp_path: Path) -> None:
    huge, pipe = tmp_path / "huge", tmp_path / "pipe"
    with huge.open("wb") as file:
        file.truncate(8 << 40)
    os.mkfifo(pipe)
    assert [store.digest(each) for each in (huge, pipe, "/dev/zero", tmp_path)] == ["", "", "", ""]


def test_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert default_directory() == Path("/var/cache/ssllatency")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/root")
    assert default_directory() == Path("/root/.cache/ssllatency")


def test_what_is_written_while_a_file_is_planned_is_never_kept_for_what_it_was(library: Path, directory: Path) -> None:
    """Through a shared mapping, which changes no time stamp at once: between the digest and the parsing, and back."""
    genuine = library.read_bytes()
    made = ask(library, directory.with_name("apart"))[0]
    site = next(probe.offset for planned in made.operations for probe in planned.probes)

    def written(code: bytes) -> None:
        with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[site : site + len(code)] = code

    def start(work: FileWork, **_: bool) -> ReadingProcess:
        """Here, with the writer at work."""
        written(b"\x90\x90\x90")
        content = work.copy()
        written(genuine[site : site + 3])
        origin = work.open()
        written(b"\xcc\xcc\xcc")
        line = line_of(work, PLAN)
        written(genuine[site : site + 3])
        return said(work, asdict(content), asdict(origin), line)

    assert not Asker(directory, start=start).plan(library)[1]
    assert library.read_bytes() == genuine
    assert ask(library, directory) == (made, False)
    written(b"\x90\x90\x90")
    changed, kept = ask(library, directory)
    assert kept
    assert changed.code != made.code


CONTENT = {"digest": "ab" * 32, "size": 1 << 20, "stored": 1 << 20}
ORIGIN = {"build_id": "aa", "debug": ""}
PLANNED = {"part": "plan", "values": {}}


@pytest.mark.parametrize(
    "lines",
    [
        [None],
        [[]],
        [{}],
        ["build_id"],
        [{"digest": "ab" * 32, "size": "much", "stored": 1}],
        [ORIGIN, PLANNED],
        [PLANNED],
        [CONTENT, {"build_id": 1, "debug": ""}],
        [CONTENT, {"build_id": "aa", "debug": "\0"}],
        [CONTENT, CONTENT | {"digest": "cd" * 32}, PLANNED],
        [CONTENT, ORIGIN, PLANNED],
        [CONTENT, ORIGIN, {"part": "plan", "values": None}],
        [CONTENT, ORIGIN, {"part": "plan"}],
        [CONTENT, ORIGIN, {"values": {}}],
    ],
)
def test_what_makes_no_sense_is_neither_believed_nor_kept(library: Path, directory: Path, lines: list[Any]) -> None:
    """Whatever a process says that was taken over by the file it planned."""

    def start(work: FileWork, **_: bool) -> ReadingProcess:
        return said(work, *lines)

    with pytest.raises(ElfError, match="was malformed"):
        Asker(directory, start=start).plan(library)
    assert entries(directory) == []


@pytest.mark.parametrize("lines", [[], [CONTENT], [CONTENT, ORIGIN], [CONTENT, ORIGIN, {"part": "names", "values": {}}]])
def test_what_says_nothing_of_what_was_asked_is_told(library: Path, directory: Path, lines: list[Any]) -> None:
    with pytest.raises(ElfError, match=r"the process that read it gave no answer\."):
        Asker(directory, start=lambda work, **_: said(work, *lines)).plan(library)
    assert entries(directory) == []


def test_what_goes_on_and_on_is_ended(library: Path, directory: Path) -> None:
    with pytest.raises(ElfError, match="more came of it than can be"):
        Asker(directory, start=lambda work, **_: said(work, CONTENT, *[ORIGIN] * 3)).plan(library)


def test_a_site_past_the_confirmed_code_is_not_believed(library: Path, directory: Path) -> None:
    def further(values: dict[str, Any]) -> None:
        values["operations"][0]["probes"][0]["offset"] += 4096

    def start(work: FileWork, **_: bool) -> ReadingProcess:
        return said(work, asdict(work.copy()), asdict(work.open()), line_of(work, PLAN, further))

    with pytest.raises(ElfError, match="was malformed"):
        Asker(directory, start=start).plan(library)
    assert entries(directory) == []


def test_a_digest_is_remembered_until_the_file_is_written(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = time.time_ns() + 5 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: old)  # as if it had been written five seconds ago
    first = store.digest(library)
    monkeypatch.setattr(store, "read_through", None)
    assert store.digest(library) == first
    monkeypatch.undo()
    library.write_bytes(library.read_bytes() + b"!")
    assert store.digest(library) != first
