# SPDX-License-Identifier: Apache-2.0
"""The set of traced processes as the kernel keeps it: who comes in, who goes out, and what is told of it."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssllatency.engines.base import MOST_NAMES
from ssllatency.engines.follow.following import Following
from ssllatency.engines.rules import Rules
from tests.waiting import wait_for

COMM = f"ssll-{os.getpid()}"  # of this process alone: other tests run beside it


@pytest.fixture
def follow() -> Iterator[Callable[..., Following]]:
    """follow(…): a set by these rules, attached; removed after the test."""
    made: list[Following] = []

    def begin(**rules: object) -> Following:
        made.append(Following(Rules(**rules)))  # type: ignore[arg-type]
        made[-1].load()
        made[-1].attach()
        return made[-1]

    yield begin
    for each in made:
        each.close()


def ourselves() -> dict[int, bool]:
    return {os.getpid(): False}


def waiting(*command: str | Path) -> subprocess.Popen[bytes]:
    """A process that runs `command`, or is about to; it ends when its standard input does."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def reads(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process waits for its standard input: then it surely runs its program."""
    return Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 0x0 ")


def test_children_are_in_while_they_live_and_threads_are_no_processes(follow: Callable[..., Following]) -> None:
    following = follow(members=ourselves)
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert following.alive() == [os.getpid()]
    with waiting("sh", "-c", "cat; true") as child:
        assert child.stdin
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout
        assert child.stdout.read(1) == b"x"
        grandchild = int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text())
        assert following.alive() == sorted((os.getpid(), child.pid, grandchild))
        child.communicate()
    assert following.alive() == [os.getpid()]
    assert following.counters.joined == 2


def test_a_child_is_told_of_before_it_runs_where_that_is_wanted(follow: Callable[..., Following]) -> None:
    following = follow(members=ourselves)
    subprocess.run(["true"], check=True)
    assert following.joined() == {}
    following.tell_of_children()
    before_ns = time.monotonic_ns()
    with waiting("cat") as child:
        assert following.wait(10)
        arrival = following.joined()[child.pid]
        assert arrival.parent == os.getpid()
        assert before_ns <= arrival.at_ns <= time.monotonic_ns()
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert following.joined() == {}


def test_what_targets_map_is_told_apart_from_what_others_map(follow: Callable[..., Following]) -> None:
    with waiting("cat") as target:
        wait_for(lambda: reads(target))
        following = follow(members=lambda: {target.pid: False})
        with waiting("cat") as other:
            told: list[int] = []

            def other_was_told_of() -> bool:
                assert target.pid not in {mapping.pid for mapping in following.mapped()}
                told.extend(mapping.pid for mapping in following.by_others)
                return other.pid in told

            wait_for(other_was_told_of)
            assert not following.has_been(other.pid)
        assert following.has_been(target.pid)
        target.communicate()
        wait_for(lambda: target.pid not in following.alive())
        assert following.has_been(target.pid)


def test_a_process_whose_first_thread_has_ended_is_still_in(follow: Callable[..., Following]) -> None:
    following = follow(members=ourselves)
    code = (
        "import ctypes, sys, threading\n"
        "def run():\n    print('on', flush=True)\n    sys.stdin.read()\n    import os\n    os._exit(0)\n"
        "threading.Thread(target=run).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with waiting("python3", "-c", code) as child:
        assert child.stdout
        assert child.stdout.readline() == b"on\n"
        status = Path(f"/proc/{child.pid}/task/{child.pid}/status")
        wait_for(lambda: "State:\tZ" in status.read_text())
        assert child.pid in following.alive()
        child.communicate()
    assert child.pid not in following.alive()


def test_what_a_child_mapped_is_told_though_it_is_gone(follow: Callable[..., Following]) -> None:
    """The records of what it mapped are read after its end."""
    following = follow(members=ourselves)
    with waiting("true") as child:
        child.communicate()
    told = {one.pid: one.path for one in following.mapped() if one.path.endswith("/true")}
    assert set(told) == {child.pid}
    assert child.pid not in following.alive()


def test_a_name_is_taken_and_given_up_by_running_a_program(follow: Callable[..., Following], tmp_path: Path) -> None:
    for program, name in (("cat", COMM), ("cat", f"{COMM}-no"), ("sh", "shell")):
        shutil.copy(str(shutil.which(program)), tmp_path / name)
    following = follow(comms=(COMM,))
    with waiting(tmp_path / COMM) as named, waiting(tmp_path / f"{COMM}-no") as other:
        wait_for(lambda: reads(named) and reads(other))
        assert following.alive() == [named.pid]
        assert following.joined().keys() == {named.pid}
        named.communicate()
        other.communicate()
    (tmp_path / COMM).unlink()
    (tmp_path / "shell").rename(tmp_path / COMM)
    with waiting(tmp_path / COMM, "-c", "read line; exec cat") as shell:
        wait_for(lambda: reads(shell))
        assert following.alive() == [shell.pid]
        assert shell.stdin
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        wait_for(lambda: Path(f"/proc/{shell.pid}/comm").read_text() == "cat\n" and reads(shell))
        assert following.alive() == []
        shell.communicate()


def test_each_of_several_names_is_taken(follow: Callable[..., Following], tmp_path: Path) -> None:
    names = [f"{COMM}-{number}" for number in range(MOST_NAMES)]
    for name in names:
        shutil.copy(str(shutil.which("cat")), tmp_path / name)
    following = follow(comms=tuple(names))
    with waiting(tmp_path / names[0]) as first, waiting(tmp_path / names[-1]) as last:
        wait_for(lambda: reads(first) and reads(last))
        assert following.alive() == sorted([first.pid, last.pid])
        first.communicate()
        last.communicate()


def test_kin_stay_in_whatever_they_run(follow: Callable[..., Following]) -> None:
    following = follow(members=ourselves, comms=(COMM,))
    with waiting("sh", "-c", "exec cat") as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout.read(1) == b"x"
        assert child.pid in following.alive()
        child.communicate()


def test_a_mapping_is_told_with_its_file(follow: Callable[..., Following], tmp_path: Path) -> None:
    file = tmp_path / "libssl.so.3"
    file.write_bytes(bytes(mmap.PAGESIZE))
    following = follow(members=ourselves)
    began = time.monotonic_ns()
    with file.open("rb") as opened:
        mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ).close()
        mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
    ended = time.monotonic_ns()
    (told,) = [one for one in following.mapped() if one.path == str(file)]
    assert (told.pid, told.numbers[2]) == (os.getpid(), file.stat().st_ino)
    assert began <= told.at_ns <= ended
    assert following.mapped() == []


def test_others_mappings_are_nobodys_business(follow: Callable[..., Following]) -> None:
    following = follow(comms=(COMM,))
    subprocess.run(["true"], check=True)
    assert following.mapped() == []


def test_whether_a_process_has_begun_is_asked_before_it_joins(follow: Callable[..., Following]) -> None:
    """Afterwards it may map what it likes: its calls count."""
    members: dict[int, bool] = {}
    following = follow(members=lambda: members)
    members[os.getpid()] = True
    assert following.refill(lambda pid: pid in following.alive()) == set()
    assert following.alive() == [os.getpid()]
    members[os.getppid()] = True
    assert following.refill(lambda _: True) == {os.getppid()}
