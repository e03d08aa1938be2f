# SPDX-License-Identifier: Apache-2.0
"""Where plans and names are looked for, and that they are made ahead."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from ssllatency.elf import source as source_module
from ssllatency.elf.source import ElfError
from ssllatency.engines.base import TracedImage
from ssllatency.engines.sessions.handshake_sites import machine_sites, software_sites, watched
from ssllatency.probes.cache import store
from ssllatency.probes.cache.kept import File, FileWork
from ssllatency.probes.cache.parts import CALLS, FACTS, HANDSHAKE, NAMES, PLAN, FilePart
from ssllatency.probes.plan import FilePlan, HandshakeSites, OperationPlan
from ssllatency.stacks.names import Names
from ssllatency.tracing.file_facts import KnownFiles
from ssllatency.tracing.plan_source import PlanSource
from ssllatency.tracing.planning import findings, fork_server, reading

NOBODY = 1 << 22  # past the greatest PID
OPTIONS = argparse.Namespace(no_return_probes=False, no_cache=False)
FILES = [File("/bin/true", "libssl.so.first"), File("/bin/false", "libssl.so.second")]
LIBSSL = Path("/usr/lib/x86_64-linux-gnu/libssl.so.3")
HANDSHAKES: dict[str, Any] = {"ahead": [FACTS, PLAN, HANDSHAKE], "later": [NAMES]}  # as `handshakes` asks


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What was worked out by each process that was begun: the parts of a file."""
    found: list[tuple[str, ...]] = []
    start = reading.start

    def recorded(work: FileWork, *, interruptible: bool = True) -> reading.ReadingProcess:
        found.append(tuple(part.name for part in work.parts))
        return start(work, interruptible=interruptible)

    monkeypatch.setattr(findings, "start_reading", recorded)
    return found


@pytest.mark.parametrize("pids", [(NOBODY, os.getpid()), (NOBODY,), ()])
def test_debug_files_are_looked_for_where_a_process_that_is_there_may_say_so(
    pids: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [f"/proc/{pid}/root" for pid in pids if pid != NOBODY]
    monkeypatch.setattr(findings, "debug_roots", lambda file, path, root: (file, path, root))
    roots = ("/bin/true", "/bin/true", *(there or ["/"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[tuple[str, ...]] = []
    start = reading.start

    def recorded(work: FileWork, *, interruptible: bool = True) -> reading.ReadingProcess:
        asked.append(work.subject.debug_roots)
        work.subject = File("/bin/true", "/bin/true")
        return start(work, interruptible=interruptible)

    monkeypatch.setattr(findings, "start_reading", recorded)
    image = TracedImage(FilePlan("/bin/true", "", "", "", (), ()), "/bin/true", pids)
    assert PlanSource(OPTIONS).names_of(image).reason(1) == ""
    assert asked == [roots]


def test_a_file_is_read_once_for_all_that_a_command_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    """Plan with the sites of handshakes, what else is in it, names; and not again by those who ask later, or in another way."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    read = []
    read_through = source_module.read_through

    def recorded(fd: int, size: int, copy: memoryview | None = None) -> tuple[str, int]:
        read.append("copied" if copy else "looked up")
        return read_through(fd, size, copy)

    monkeypatch.setattr(source_module, "read_through", recorded)
    monkeypatch.setattr(store, "read_through", recorded)
    monkeypatch.setattr(store, "_digests", {})
    for handled in ([], ["looked up"]):  # what is copied, is so by the process that reads the file
        source = PlanSource(OPTIONS, **HANDSHAKES)
        source.make_ahead([File(str(LIBSSL), str(LIBSSL))])
        plan = source.plan(str(LIBSSL), str(LIBSSL))
        assert (plan.kind, bool(plan.handshake.calls)) == ("libssl", True)
        with LIBSSL.open("rb") as file:
            assert KnownFiles(source.facts).describe(file.fileno(), str(LIBSSL)).libraries == ("libssl",)
        assert source.names_of(TracedImage(plan, str(LIBSSL), ())).alerts
        assert read == handled
        read.clear()
    assert begun == [("facts", "plan", "handshake", "names")]
    assert len(list((tmp_path / "ssllatency").iterdir())) == 1


def test_what_is_made_ahead_is_there_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ahead: dict[str, Any] = {"ahead": [PLAN, HANDSHAKE]}
    first = PlanSource(OPTIONS, **ahead)
    first.make_ahead(FILES, meanwhile=(tmp_path / "other").touch)
    assert (tmp_path / "other").exists()
    for source in (first, PlanSource(OPTIONS, **ahead)):
        for file in FILES:
            assert source.plan(file.path, file.label).path == file.label
    assert begun == [("plan", "handshake")] * 2


def test_nothing_is_made_ahead_of_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    PlanSource(OPTIONS).make_ahead(FILES)
    assert begun == []
    PlanSource(OPTIONS, ahead=[PLAN]).make_ahead(FILES)
    assert begun == [("plan",)] * 2
    PlanSource(OPTIONS, ahead=[PLAN]).make_ahead(FILES)
    assert begun == [("plan",)] * 2
    PlanSource(OPTIONS, ahead=[PLAN, HANDSHAKE]).make_ahead(FILES)
    assert begun == [("plan",)] * 2 + [("handshake",)] * 2


def test_same_contents_elsewhere_are_shown_with_their_own_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    PlanSource(OPTIONS, ahead=[PLAN, HANDSHAKE]).make_ahead([File("/bin/true", "/bin/true")])
    copy = shutil.copy("/bin/true", tmp_path / "copy")
    assert PlanSource(OPTIONS, ahead=[PLAN, HANDSHAKE]).plan(str(copy), "/lib/x").path == "/lib/x"
    assert begun == [("plan", "handshake")]


def test_what_is_made_ahead_without_a_cache_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True), ahead=[PLAN])
    source.make_ahead(FILES)
    assert [source.plan(file.path, file.label).kind for file in FILES] == ["", ""]
    assert begun == [("plan",)] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_opened_by_the_descriptor_that_is_open_when_it_is_asked_for(tmp_path: Path) -> None:
    """Those of processes' files are given by their numbers, which are used again."""
    source = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True))
    (tmp_path / "other").write_text("another file")
    with LIBSSL.open("rb") as file:
        path = f"/proc/self/fd/{file.fileno()}"
        assert source.plan(path, "/lib/libssl.so").kind == "libssl"
    with (tmp_path / "other").open("rb") as other, LIBSSL.open("rb") as file:
        assert path == f"/proc/self/fd/{other.fileno()}"
        assert source.plan(f"/proc/self/fd/{file.fileno()}", "/lib/libssl.so").kind == "libssl"


def test_what_shows_no_tls_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have more programs that aren't traced than there are entries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    PlanSource(OPTIONS, **HANDSHAKES).facts("/bin/true", "/bin/true")
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_a_file_is_kept_by_what_it_is_called_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    """A file that is called as OpenSSL's libraries are isn't searched for other TLS."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for label in ("/lib/libssl.so.3", "/container/lib/libssl.so.3", "/bin/server", "/usr/bin/server"):
        assert PlanSource(OPTIONS).facts(str(LIBSSL), label).libraries == ("libssl",)
    assert begun == [("facts",)] * 2


def test_names_are_read_for_the_report_of_a_run_that_a_signal_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    image = TracedImage(FilePlan("/bin/true", "", "", "", (), ()), "/bin/true", ())
    text = TracedImage(FilePlan("/etc/passwd", "", "", "", (), ()), "/etc/passwd", ())
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
    source = PlanSource(OPTIONS, ahead=[PLAN])
    source.make_ahead([File(str(tmp_path / "text"), "/lib/libssl.so.3"), *FILES])
    assert source.plan(FILES[0].path, FILES[0].label).kind == ""
    with pytest.raises(ElfError, match=r"^/lib/libssl.so.3 is not an ELF file\.$"):
        source.plan(str(tmp_path / "text"), "/lib/libssl.so.3")


ALONE: dict[str, Any] = {"ahead": [FACTS, CALLS, HANDSHAKE], "later": [NAMES]}  # as `handshakes` asks


def followed(path: Path, **parts: Any) -> tuple[object, ...]:
    """What of a plan made like that the handshakes of a file are followed by."""
    source = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True), **parts)
    image = TracedImage(source.plan(str(path), str(path)), str(path), ())
    source.close()
    [kept] = watched([image], [image])
    machines = machine_sites(image, 0)
    return kept.plan.operations, kept.plan.offsets, kept.plan.handshake, machines, software_sites(image.plan)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["libssl.so.3", "libcrypto.so.3"])
def test_handshakes_alone_are_followed_by_the_same_sites_as_beside_functions(name: str) -> None:
    assert followed(LIBSSL.with_name(name), **ALONE) == followed(LIBSSL.with_name(name), **HANDSHAKES)


def test_handshakes_alone_are_planned_by_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    """Side by side, where the fork server forks them; what is found is kept, but not before that is asked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fork_server, "is_running", lambda: True)
    files = [File(str(path), str(path)) for path in (LIBSSL, LIBSSL.with_name("libcrypto.so.3"))]
    source = PlanSource(OPTIONS, **ALONE, waits=True)
    source.make_ahead(files)
    plan = source.plan(files[0].path, files[0].label)
    assert not (tmp_path / "ssllatency").exists()
    source.gather()
    assert len(list((tmp_path / "ssllatency").iterdir())) == 2
    assert sorted(begun) == [("facts", "calls", "handshake", "names"), ("facts", "calls", "names"), ("handshake",)]
    again = PlanSource(OPTIONS, **ALONE)
    again.make_ahead(files)
    assert again.plan(files[0].path, files[0].label) == plan
    assert len(begun) == 3
    source.close()


def test_what_comes_once_nothing_forks_readers_any_more_is_planned_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    later = tmp_path / "libssl.so.3"
    shutil.copy(LIBSSL, later)
    monkeypatch.setattr(fork_server, "is_running", lambda: True)
    source = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True), **ALONE)
    source.make_ahead([File(str(LIBSSL), str(LIBSSL))])
    monkeypatch.setattr(fork_server, "is_running", lambda: False)
    first, second = (source.plan(path, path) for path in (str(LIBSSL), str(later)))
    source.close()
    assert first.handshake == second.handshake
    assert sorted(begun[:2]) == [("facts", "calls", "names"), ("handshake",)]
    assert begun[2:] == [("calls", "facts", "handshake", "names")]


def test_what_was_not_asked_ahead_does_not_wait_for_what_only_a_report_needs(begun: list[tuple[str, ...]]) -> None:
    source = PlanSource(argparse.Namespace(no_return_probes=False, no_cache=True), **ALONE)
    file = File(str(LIBSSL), str(LIBSSL))
    source.make_ahead([file])
    assert source._findings.ask(file, PLAN).kind == "libssl"
    assert begun == [("facts", "calls", "handshake", "names"), ("plan", "names")]
    assert source._findings.ask(file, NAMES).reasons
    assert len(begun) == 2
    source.close()


def test_a_whole_plan_has_what_handshakes_alone_are_followed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = File(str(LIBSSL), str(LIBSSL))
    for parts in (HANDSHAKES, ALONE):
        source = PlanSource(OPTIONS, **parts)
        source.make_ahead([file])
        assert source.plan(file.path, file.label).handshake.state_machine
        source.close()
    assert [("calls" in parts) for parts in begun] == [False]


def test_reads_and_writes_are_planned_where_handshakes_need_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all functions of a file that has none by which handshakes are followed, which may be traced all the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = PlanSource(OPTIONS, **ALONE)
    asked: list[str] = []
    of_part = {
        "calls": lambda: FilePlan("", "", "", "libssl", (), ()),
        "plan": lambda: FilePlan("", "", "3", "libssl", (), ()),
        "handshake": HandshakeSites,
    }

    def ask(_file: File, part: FilePart[Any]) -> object:
        asked.append(part.name)
        return of_part[part.name]()

    monkeypatch.setattr(source._findings, "ask", ask)
    assert source.plan("/bin/true", "libssl.so.3").version == "3"
    of_part["calls"] = lambda: FilePlan("", "", "", "libssl", (OperationPlan("SSL_free", 0, 1, "", ()),), ())
    assert source.plan("/bin/true", "libssl.so.3").version == ""
    of_part["handshake"] = lambda: HandshakeSites(within_data=True)
    assert source.plan("/bin/true", "libssl.so.3").version == "3"
    assert asked == ["calls", "handshake", "plan", "calls", "handshake", "calls", "handshake", "plan"]


def test_a_file_that_is_written_to_between_two_readings_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its phases may be of other code than its calls."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    changed = tmp_path / "libssl.so.3"
    shutil.copy(LIBSSL, changed)
    start = reading.start

    def written_to(work: FileWork, *, interruptible: bool = True) -> reading.ReadingProcess:
        if "handshake" in (part.name for part in work.parts):
            other = tmp_path / "other"
            other.write_bytes(changed.read_bytes() + b"more")
            work.subject = File(str(other), str(changed))
        return start(work, interruptible=interruptible)

    monkeypatch.setattr(findings, "start_reading", written_to)
    monkeypatch.setattr(fork_server, "is_running", lambda: True)
    source = PlanSource(OPTIONS, **ALONE)
    with pytest.raises(ElfError, match="it was written to while it was read"):
        source.plan(str(changed), str(changed))
    source.close()
