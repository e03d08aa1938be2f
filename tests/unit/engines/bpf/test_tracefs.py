# SPDX-License-Identifier: Apache-2.0
"""Definitions of uprobes in a tracefs that is made up: what is written there, and by whom it is removed."""

from __future__ import annotations

import itertools
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_for

from ssllatency.engines.bpf import tracefs
from ssllatency.engines.bpf.tracefs import Events
from ssllatency.own_processes import own_pids

# Defines an event, says so, and waits. "closed": without standard input, so that its own descriptors begin with 0.
DEFINES = """
import os, sys
from pathlib import Path
from ssllatency.engines.bpf.tracefs import Events
waiting = os.dup(0)
if sys.argv[2] == "closed":
    os.close(0)
events = Events(Path(sys.argv[1]))
group = Path(sys.argv[1], "events", events._group, "site_1")
group.mkdir(parents=True)
(group / "id").write_text("7")
events.define("/proc/self/fd/3", 16, at_return=False)
print(events._group, flush=True)
os.read(waiting, 1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "uprobe_events").write_text("p:others/event /bin/true:0x1000\n")
    return tmp_path


def lines(folder: Path) -> list[str]:
    """What was written, after what was there."""
    return (folder / "uprobe_events").read_text().splitlines()[1:]


@pytest.mark.parametrize(("at_return", "kind"), [(False, "p"), (True, "r")])
def test_a_definition_goes_with_its_probe(folder: Path, monkeypatch: pytest.MonkeyPatch, at_return: bool, kind: str) -> None:
    monkeypatch.setattr(tracefs, "_numbers", itertools.count(3))
    events = Events(folder)
    name = f"{events._group}/site_3"
    (folder / "events" / name).mkdir(parents=True)
    (folder / "events" / name / "id").write_text("1234\n")
    defined, attributes = events.define("/proc/self/fd/9", 0x1F0, at_return=at_return)
    assert defined == name
    assert attributes[:16] == bytes((2, 0, 0, 0, 72, 0, 0, 0, 0xD2, 4, 0, 0, 0, 0, 0, 0))
    assert lines(folder) == [f"{kind}:{name} /proc/self/fd/9:0x1f0"]
    events.remove(name)
    os.close(events._remover)  # as at the tracer's end
    wait_for(lambda: lines(folder)[1:] == [f"-:{name}"])


def test_many_that_are_no_longer_used_are_removed_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefs, "_MOST_UNUSED", 2)
    monkeypatch.setattr(tracefs, "_numbers", itertools.count(1))
    events = Events(folder)
    names = [f"{events._group}/site_{number}" for number in range(1, 4)]
    for name in names:
        (folder / "events" / name).mkdir(parents=True)
        (folder / "events" / name / "id").write_text("1")
        events.remove(events.define("/proc/self/fd/9", 1, at_return=False)[0])
    wait_for(lambda: lines(folder)[3:] == [f"-:{name}" for name in names])
    os.close(events._remover)


@pytest.mark.parametrize("standard_input", ["open", "closed"])
def test_those_of_a_killed_process_are_removed(folder: Path, standard_input: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", DEFINES, folder, standard_input]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        group = process.stdout.readline().strip()
        assert lines(folder) == [f"p:{group}/site_1 /proc/self/fd/3:0x10"]
        process.kill()
    wait_for(lambda: lines(folder)[1:] == [f"-:{group}/site_1"])


def test_the_remover_is_known_and_has_nothing_of_the_tracers(folder: Path) -> None:
    """No target of the tracer's, no memory that both can write to, and no capability."""
    before = own_pids()
    with mmap.mmap(-1, mmap.PAGESIZE) as shared:
        shared[:1] = b"x"
        events = Events(folder)
        (remover,) = own_pids() - before
        process = Path("/proc", str(remover))
        if os.geteuid():
            os.close(events._remover)
            pytest.skip("only root may look at it")
        wait_for(lambda: "CapEff:\t0000000000000000\n" in (process / "status").read_text())
        permissions = {line.split()[1] for line in (process / "maps").read_text().splitlines()}
        open_there = {str(name.readlink()).split(":")[0] for name in (process / "fd").iterdir()}
    assert permissions
    assert not [words for words in permissions if words[1] == "w" and words[3] == "s"]
    assert open_there == {"pipe", str(folder / "uprobe_events")}
    os.close(events._remover)
    wait_for(lambda: not process.exists())


@pytest.mark.parametrize(("definitions", "seconds"), [(0, 120), (400, 120), (3000, 900), (10**6, 3600)])
def test_its_patience_grows_with_the_number_of_definitions(definitions: int, seconds: float) -> None:
    assert tracefs._patience_s(definitions) == pytest.approx(seconds)


def test_no_two_have_the_same_names(folder: Path) -> None:
    """Not even of one PID, which processes in other PID namespaces and later ones have as well."""
    first, second = Events(folder), Events(folder)
    assert first._group.startswith(f"ssllatency_{os.getpid()}_")
    assert first._group != second._group
    for events in (first, second):
        os.close(events._remover)


def test_names_that_are_there_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefs.os, "urandom", bytes)
    (folder / "events" / f"ssllatency_{os.getpid()}_000000000000").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        Events(folder)
    assert not lines(folder)


def test_a_tracefs_that_may_not_be_written_to_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefs, "PLACES", (tmp_path / "nothing", tmp_path / "uprobe_events"))
    monkeypatch.setattr(tracefs._Opened, "events", None)
    assert tracefs.events() is None
