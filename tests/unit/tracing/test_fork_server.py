# SPDX-License-Identifier: Apache-2.0
"""The process that forks readers: it changes nothing of what they find out, and nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.high_descriptors import high_pipes
from tests.parameters import slow_except
from tests.waiting import wait_for

from ssllatency.elf.source import ElfError
from ssllatency.probes.cache.kept import Cache, File, FileWork
from ssllatency.probes.cache.parts import FACTS, HANDSHAKE, NAMES, PLAN
from ssllatency.probes.settings import PlanSettings
from ssllatency.targets import Selection, all_processes, file_identity, select
from ssllatency.tracing.links.others import OtherUsers, maps_any
from ssllatency.tracing.planning import fork_server
from ssllatency.tracing.planning.findings import Findings
from ssllatency.tracing.planning.reading import ReadingProcess, listen, start

PROGRAM = Path(sys.executable).resolve()
ALL = (PLAN, HANDSHAKE, NAMES, FACTS)


@pytest.fixture(autouse=True)
def forked(children: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The processes that this one forks. There are two processors, and nothing is kept."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return children


def findings() -> Findings:
    """About files, in the parts that a report on handshakes needs; none is kept."""
    return Findings(Cache(keeps=False), PlanSettings(), ahead=[PLAN, HANDSHAKE], later=[NAMES])


def begun(path: str) -> ReadingProcess:
    """A process that reads the file."""
    return start(FileWork(File(path, str(PROGRAM)), ALL, PlanSettings()))


def ended(reading: ReadingProcess) -> ReadingProcess:
    """The same once it has said all."""
    while not reading.over:
        listen([reading])
    return reading


def said_of(path: str) -> ReadingProcess:
    """What a process says that reads the file."""
    return ended(begun(path))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and state(pid) != "Z"


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("pipes", [0, 1])
def test_without_a_pipe_there_is_none(forked: list[int], monkeypatch: pytest.MonkeyPatch, pipes: int) -> None:
    made = iter([os.pipe()] * pipes)

    def no_more() -> tuple[int, int]:
        for ends in made:
            return ends
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe", no_more)
    with fork_server.running(wanted=True):
        assert forked == []


def test_what_its_readers_say_is_what_others_say(forked: list[int]) -> None:
    with PROGRAM.open("rb") as file, fork_server.running(wanted=True):
        path = f"/proc/self/fd/{file.fileno()}"
        by_server = said_of(path)
        assert len(forked) == 1
        fork_server.end()
        by_this = said_of(path)
        assert len(forked) == 2
    assert (by_server.content, by_server.origin, by_server.values) == (by_this.content, by_this.origin, by_this.values)
    assert by_server.values.keys() == {"facts", "plan", "handshake", "names"}
    assert (by_server.failure, by_server.errors) == (by_this.failure, by_this.errors) == ("", {})


@pytest.mark.parametrize("wanted", [True, False])
def test_a_descriptor_may_stand_for_another_file_as_soon_as_a_reader_is_started(wanted: bool) -> None:
    descriptor = os.open(PROGRAM, os.O_RDONLY)
    other = os.open("/etc/hostname", os.O_RDONLY)
    try:
        with fork_server.running(wanted=wanted):
            reading = begun(f"/proc/self/fd/{descriptor}")
            os.dup2(other, descriptor)
            assert ended(reading).content.size == PROGRAM.stat().st_size
    finally:
        os.close(descriptor)
        os.close(other)


def test_readers_are_heard_by_high_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    with high_pipes(monkeypatch):
        reading = begun("/etc/hostname")
        assert reading.fileno() >= 1024
        assert ended(reading).errors


def test_errors_come_in_place_of_answers(tmp_path: Path, forked: list[int]) -> None:
    (tmp_path / "text").write_text("no ELF file")
    with fork_server.running(wanted=True):
        asked = findings()
        with pytest.raises(ElfError, match=r"^it is not an ELF file\.$"):
            asked.ask(File(str(tmp_path / "text"), "it"), PLAN)
        asked.close()
    assert len(forked) == 1


def test_it_ends_with_its_last_reader_once_no_more_are_wanted(forked: list[int]) -> None:
    """Names are read on while the trace runs."""
    with fork_server.running(wanted=True):
        asked, file = findings(), File(str(PROGRAM), "it")
        asked.make_ahead([file])
        (server,) = forked
        fork_server.end()
        assert said_of(str(PROGRAM)).values
        assert len(forked) == 2  # without it
        assert is_there(server)
        asked.ask(file, NAMES)
        asked.close()
        assert not is_there(server)
        with pytest.raises(ElfError):
            findings().ask(File("/etc/hostname", "it"), PLAN)
        assert len(forked) == 3


def test_it_ends_if_it_was_never_asked(forked: list[int]) -> None:
    with fork_server.running(wanted=True):
        assert is_there(forked[0])
        fork_server.end()
        assert not is_there(forked[0])


def test_without_another_processor_or_a_wish_there_is_none(monkeypatch: pytest.MonkeyPatch, forked: list[int]) -> None:
    with fork_server.running(wanted=False):
        assert forked == []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with fork_server.running(wanted=True):
        assert forked == []


def test_where_findings_are_kept_there_is_none(forked: list[int]) -> None:
    kept = Findings(Cache(), PlanSettings(), ahead=[PLAN])
    kept.make_ahead([File(str(PROGRAM), "it")])
    forked.clear()
    with fork_server.running(wanted=True):
        assert forked == []
        assert said_of(str(PROGRAM)).values
        assert len(forked) == 1


def test_without_a_process_for_it_nothing_is_lost(monkeypatch: pytest.MonkeyPatch, forked: list[int]) -> None:
    fork = os.fork

    def refuse() -> int:
        raise BlockingIOError(11, "no more processes are allowed")

    monkeypatch.setattr(os, "fork", refuse)
    descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208
    with fork_server.running(wanted=True):
        assert len(os.listdir("/proc/self/fd")) == len(descriptors)  # noqa: PTH208
        monkeypatch.setattr(os, "fork", fork)
        assert said_of(str(PROGRAM)).values
    assert len(forked) == 1


def test_what_it_has_open_and_hears(forked: list[int]) -> None:
    """Ctrl-C doesn't reach it, nor does it keep anybody's pipe open."""
    with PROGRAM.open("rb"), fork_server.running(wanted=True):
        server = forked[0]
        wait_for(lambda: os.readlink(f"/proc/{server}/fd/1") == "/dev/null")  # noqa: PTH115
        wait_for(lambda: len(os.listdir(f"/proc/{server}/fd")) == 5)  # noqa: PTH208 - /dev/null three times, two pipes
        assert os.getsid(server) == server


def test_its_sudden_end_is_told_and_does_no_harm(forked: list[int]) -> None:
    with fork_server.running(wanted=True):
        reading = begun(str(PROGRAM))
        os.kill(forked[0], signal.SIGKILL)
        ended(reading)
        assert reading.failure in ("was left out: the process that read it was ended by signal 9", "")
        assert reading.failure or reading.values
        assert said_of(str(PROGRAM)).values
        assert len(forked) == 2


def test_neither_it_nor_its_readers_are_targets_or_others(forked: list[int]) -> None:
    with fork_server.running(wanted=True):
        reading = begun(str(PROGRAM))
        listen([reading])
        reading.stand_back()  # or it may be over before it is looked at
        (server,) = forked
        ours = {os.getpid(), server, next(process.pid for process in all_processes() if process.ppid == server)}
        selected = {process.pid for process in select(Selection(everything=True))}
        files = [file_identity(PROGRAM)]
        assert all(maps_any(pid, files) for pid in ours)
        paying = {process.pid for process in OtherUsers(files, (), lambda _: False).look()}
        assert ours.isdisjoint(selected | paying)
        reading.go_on()
        ended(reading)


_PARENT = """
import os, signal, sys
from ssllatency.probes.cache.kept import File, FileWork
from ssllatency.probes.cache.parts import PARTS
from ssllatency.probes.settings import PlanSettings
from ssllatency.tracing.planning import fork_server, reading
os.sched_getaffinity = lambda _: {0, 1}
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
with fork_server.running(wanted=True):
    begun = reading.start(FileWork(File(sys.executable, "it"), PARTS, PlanSettings()))
    reading.listen([begun])
    begun.stand_back()
    print(fork_server._server._pid, begun._child.pid, flush=True)
    signal.sigwait({signal.SIGINT})
"""


@pytest.mark.parametrize("number", slow_except((signal.SIGKILL, signal.SIGINT, signal.SIGTERM), signal.SIGKILL))
def test_neither_it_nor_its_readers_outlive_the_command(number: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout
        server, reader = map(int, parent.stdout.readline().split())
        assert (parent_of(server), parent_of(reader)) == (parent.pid, server)
        parent.send_signal(number)
        parent.wait(30)
        wait_for(lambda: not is_there(server) and not is_there(reader))
