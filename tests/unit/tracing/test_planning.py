# SPDX-License-Identifier: Apache-2.0
"""Processes that read strangers' files: what they may use up, what they can't do, and that none is left."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests import foreign
from tests.parameters import slow_except
from tests.waiting import wait_for

from ssllatency.elf.image import Image
from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError
from ssllatency.probes.cache.kept import Cache, File, FileWork
from ssllatency.probes.cache.parts import FACTS, HANDSHAKE, NAMES, PLAN, FilePart
from ssllatency.probes.settings import PlanSettings
from ssllatency.stacks.registry import STACKS
from ssllatency.tracing.planning import reader, reading
from ssllatency.tracing.planning.findings import Findings

PROGRAM = Path(sys.executable).resolve()

pytestmark = pytest.mark.usefixtures("children")


BROUGHT_IN = """
import sys
from pathlib import Path
from ssllatency.probes.cache.kept import Cache, File
from ssllatency.probes.cache.parts import FACTS, HANDSHAKE, PLAN
from ssllatency.probes.settings import PlanSettings
from ssllatency.tracing.planning import reading
from ssllatency.tracing.planning.findings import Findings
reading._PREPARE_THEMSELVES = int(sys.argv[2])
answers = Findings(Cache(keeps=False), PlanSettings(), [FACTS, PLAN, HANDSHAKE])
file = File(sys.argv[1], sys.argv[1])
answers.make_ahead([file])
print(answers.ask(file, PLAN).machine, *sys.modules.keys() & {"capstone", "ssllatency.elf.image", "ssllatency.code.flow"})
"""


@pytest.mark.parametrize(("few", "brought_in"), [(2, []), (0, ["capstone", "ssllatency.code.flow", "ssllatency.elf.image"])])
def test_what_reads_files_stays_out_of_the_process_that_has_a_few_read(few: int, brought_in: list[str]) -> None:
    """It lasts as long as the trace; those that read don't. For many files it brings that in once, and not each of them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", BROUGHT_IN, str(PROGRAM), str(few)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert sorted(done.stdout.split()) in ([*brought_in, "x86-64"], ["aarch64", *brought_in])


def plain(make: Callable[[Image], object], name: str = "plain", **more: Any) -> FilePart[Any]:
    """What `make` finds out."""
    return FilePart(name, lambda image, _: make(image), lambda made: made, lambda values, _: values, **more)


def findings(ahead: Sequence[FilePart[Any]] = (), later: Sequence[FilePart[Any]] = ()) -> Findings:
    """None of which is kept."""
    return Findings(Cache(keeps=False), PlanSettings(), ahead, later)


def ask(make: Callable[[Image], object], path: Path = PROGRAM) -> Any:
    """What `make` finds out about a file, run by a process of its own."""
    return findings().ask(File(str(path), "/usr/lib/libssl.so.3"), plain(make))


def files(number: int) -> list[File]:
    """So many files, as far as can be seen."""
    return [File(str(PROGRAM), f"/usr/lib/libssl.so.{each}") for each in range(number)]


(FILE,) = files(1)


def outcome(attempt: Callable[[], object]) -> str:
    """The name of the error that an attempt ends with, "done" where it doesn't."""
    try:
        attempt()
    except Exception as error:
        return type(error).__name__
    return "done"


def test_an_answer_comes_back(children: list[int]) -> None:
    assert ask(lambda image: [image.machine, os.getpid()]) == [Image.open(PROGRAM).machine, children[0]]


def test_errors_come_in_place_of_answers(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no ELF file")
    with pytest.raises(ElfError, match=r"^/usr/lib/libssl.so.3 is not an ELF file\.$"):
        ask(lambda _: 0, tmp_path / "text")
    with pytest.raises(ElfError, match="cannot be opened"):
        findings().ask(Missing("/nowhere", "/usr/lib/libssl.so.3"), plain(lambda _: 0))
    assert len(ask(lambda _: "x" * (3 << 20))) == 3 << 20


class Missing(File):
    """A file that goes before it is read."""

    @property
    def key(self) -> tuple[object, ...]:
        return ("as it was",)


def test_a_file_is_read_once_for_all_that_is_asked(children: list[int]) -> None:
    parts = [plain(lambda _, number=number: number, f"part {number}") for number in range(4)]
    asked = findings(ahead=parts[:3], later=parts[3:])
    assert [asked.ask(FILE, part) for part in (*parts[::-1], *parts)] == [3, 2, 1, 0, 0, 1, 2, 3]
    assert len(children) == 2  # what is asked for last of all was asked for first here
    others = findings(ahead=parts[:3], later=parts[3:])
    assert [others.ask(FILE, part) for part in parts] == [0, 1, 2, 3]
    assert len(children) == 3


@pytest.mark.parametrize("way", ["in its place", "in itself"])
def test_what_was_found_out_is_of_one_content(tmp_path: Path, way: str) -> None:
    """Whatever size, inode number and time of writing say."""
    path = tmp_path / "library.so"
    path.write_bytes(b"old")
    file, status = File(str(path), "library.so"), path.stat()
    key = file.key
    assert key == file.key
    if way == "in its place":
        path.unlink()
    path.write_bytes(b"new")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert key != file.key


def test_what_one_part_fails_at_spoils_no_other() -> None:
    bad, late = plain(lambda _: 1 // 0, "bad"), plain(lambda _: ctypes.string_at(0), "late")
    good, more = plain(lambda _: 1, "good"), plain(lambda _: 2, "more")
    asked = findings(ahead=[good, bad, more, late])
    asked.make_ahead([FILE])
    assert [asked.ask(FILE, part) for part in (good, more)] == [1, 2]
    for part, why in ((bad, "ZeroDivisionError"), (late, "ended by signal 11")):
        with pytest.raises(ElfError, match=why):
            asked.ask(FILE, part)


def test_what_suffices_ends_the_reading(children: list[int]) -> None:
    little, more = plain(lambda _: "nothing", "little", suffices=lambda _: True), plain(lambda _: 1, "more")
    asked = findings(ahead=[little, more])
    asked.make_ahead([FILE])
    assert asked.ask(FILE, little) == "nothing"
    assert len(children) == 1
    assert asked.ask(FILE, more) == 1
    assert len(children) == 2


def state(pid: int) -> str:
    """The letter of proc_pid_stat(5); T for a process that is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_nobody_waits_for_what_is_needed_later(children: list[int]) -> None:
    """It is worked out later, once there is time, unless it is ended."""
    now, later = plain(lambda _: 1, "now"), plain(endless, "later")
    asked = findings(ahead=[now], later=[later])
    asked.make_ahead(files(4))
    assert [asked.ask(file, now) for file in files(4)] == [1] * 4
    assert len(children) == 4
    assert {os.getpriority(os.PRIO_PROCESS, child) for child in children} == {10}
    wait_for(lambda: {"T"} == set(map(state, children)))
    asked.gather()
    wait_for(lambda: "T" not in map(state, children))
    asked.close()


def test_whoever_nobody_waits_for_stands_back_in_the_midst_of_other_work(children: list[int]) -> None:
    now, later = plain(lambda _: 1, "now"), plain(endless, "later")
    asked = findings(ahead=[now], later=[later])
    states: list[str] = []

    def meanwhile() -> None:
        def stands_back() -> bool:
            asked.hear()
            states.append(state(children[0]))
            return states[-1] == "T"

        wait_for(stands_back)

    asked.make_ahead([FILE], meanwhile)
    assert asked.ask(FILE, now) == 1
    asked.close()


def test_what_is_found_out_meanwhile_is_gathered(children: list[int]) -> None:
    """So that no process is left that nobody waits for."""
    now, later = plain(lambda _: 1, "now"), plain(lambda _: 2, "later")
    asked = findings(ahead=[now], later=[later])
    asked.make_ahead([FILE])
    until = time.monotonic() + 30
    while Path(f"/proc/{children[0]}").exists():
        assert time.monotonic() < until, "the process is still there"
        asked.gather()
    assert asked.ask(FILE, later) == 2
    assert len(children) == 1
    asked.gather()


def test_what_is_needed_later_is_tried_once_more(children: list[int]) -> None:
    def make(_: Image) -> int:
        return 2 if len(children) else ctypes.string_at(0)[0]  # the first process doesn't know itself

    now, later = plain(lambda _: 1, "now"), plain(make, "later")
    asked = findings(ahead=[now], later=[later])
    assert asked.ask(FILE, now) == 1
    assert asked.ask(FILE, later, interruptible=False) == 2


def test_what_takes_longest_is_begun_first(tmp_path: Path, children: list[int]) -> None:
    """The library whose handshakes are planned, where they are, and else the largest file."""
    names = ("libssl.so.3", "libcrypto.so.3", "other")
    begun: list[str] = []
    for size, name in enumerate(names):
        (tmp_path / name).write_bytes(b"x" * size)

    def begin(work: FileWork, *, interruptible: bool = True) -> reading.ReadingProcess:
        begun.append(Path(work.subject.label).name)
        return reading.start(work, interruptible=interruptible)

    for ahead in ([HANDSHAKE], [PLAN]):
        asked = Findings(Cache(keeps=False), PlanSettings(), ahead, start=begin)
        asked.make_ahead(File(str(tmp_path / name), str(tmp_path / name)) for name in names)
    assert begun == ["libssl.so.3", "other", "libcrypto.so.3", *names[::-1]]
    assert len(children) == 6


def test_as_many_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch, children: list[int]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    done: list[int] = []
    part = plain(lambda image: image.label)
    asked = findings(ahead=[part])
    asked.make_ahead(files(7), lambda: done.append(len(children)))
    assert done == [3]
    assert len(children) == 7
    assert [asked.ask(file, part) for file in files(7)] == [file.label for file in files(7)]


def attempts(folder: Path) -> dict[str, Callable[[], object]]:
    """What a process that was taken over might try."""
    library = ctypes.CDLL(None, use_errno=True)

    def call(function: Any, *arguments: Any) -> None:
        if function(*arguments) < 0:
            raise OSError(ctypes.get_errno(), "")

    return {
        "read a file": lambda: os.open("/etc/shadow", os.O_RDONLY),
        "write a file": lambda: (folder / "written").write_text(""),
        "list a folder": lambda: list(Path("/").iterdir()),
        "connect": lambda: socket.socket().connect(("127.0.0.1", 1)),
        "start a program": lambda: os.execv("/bin/true", ["true"]),
        "start a process": os.fork,
        "signal another": lambda: os.kill(os.getppid(), 0),
        "trace another": lambda: call(library.ptrace, 16, os.getppid(), 0, 0),
        "have code": lambda: call(library.mprotect, 0, 4096, 4),
        "mount": lambda: call(library.mount, b"none", b"/tmp", b"tmpfs", 0, 0),
        "use BPF": lambda: call(library.syscall, 321, 0, 0, 0),
    }


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the filter knows these machines' calls alone")
def test_what_it_can_not_do(tmp_path: Path) -> None:
    tried = attempts(tmp_path)
    here = {
        name: outcome(attempt) for name, attempt in tried.items() if name in ("read a file", "write a file", "list a folder")
    }
    (tmp_path / "written").unlink()
    answer = ask(lambda _: {name: outcome(attempt) for name, attempt in tried.items()})
    assert set(here.values()) == {"done"}
    assert set(answer.values()) <= {"PermissionError", "OSError"}
    assert list(answer) == list(tried)
    assert not (tmp_path / "written").exists()


def test_no_capabilities_and_no_descriptors_are_left(children: list[int]) -> None:
    seen: dict[str, str] = {}

    def busy(_: Image) -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            pass

    def look() -> None:
        """As soon as it has given up what it gives up."""
        until = time.monotonic() + 20
        while seen.get("Seccomp") != "2" and time.monotonic() < until:
            lines = Path(f"/proc/{children[0]}/status").read_text().splitlines()
            seen.update((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        seen["descriptors"] = " ".join(sorted(os.listdir(f"/proc/{children[0]}/fd"), key=int)[:3])  # noqa: PTH208
        seen["how many"] = str(len(os.listdir(f"/proc/{children[0]}/fd")))  # noqa: PTH208
        os.kill(children[0], signal.SIGTERM)

    part = plain(busy)
    asked = findings(ahead=[part])
    with Path("/etc/hostname").open("rb"):
        asked.make_ahead([FILE], look)
    with pytest.raises(ElfError, match="ended by signal 15"):
        asked.ask(FILE, part)
    assert {seen[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
    assert (seen["NoNewPrivs"], seen["descriptors"], seen["how many"]) == ("1", "0 1 2", "4")


def endless(_: Image) -> None:
    """Never comes to an end by itself."""
    while True:
        pass


@pytest.mark.slow
def test_what_takes_too_long_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_SECONDS", 1)
    monkeypatch.setattr(reader, "_BYTES_A_SECOND", 1 << 40)
    monkeypatch.setattr(reading, "_SLOWNESS", 300)  # a busy machine gives it less than one processor
    with pytest.raises(ElfError, match=r"^/usr/lib/libssl.so.3 was left out: reading it took more processor time"):
        ask(endless)


def test_what_takes_too_much_memory_is_ended_and_told() -> None:
    with pytest.raises(ElfError, match=r"^/usr/lib/libssl.so.3 was left out: reading it took more memory"):
        ask(lambda _: len(bytearray(3 << 30)))


def test_what_says_too_much_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LARGEST_ANSWER", 1 << 16)
    with pytest.raises(ElfError, match="more came of it than can be"):
        ask(lambda _: "x" * (1 << 22))


def test_what_crashes_is_told() -> None:
    with pytest.raises(ElfError, match=rf"was ended by signal {signal.SIGSEGV:d}\."):
        ask(lambda _: ctypes.string_at(0))


def test_a_defect_is_told_as_one() -> None:
    with pytest.raises(ElfError, match=r"failed \(ZeroDivisionError\), which is a defect"):
        ask(lambda _: 1 // 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_waits_ends_it_at_once(number: int) -> None:
    """As while a trace is prepared: signals are blocked then."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        asked = findings(ahead=[plain(endless)])
        with pytest.raises(KeyboardInterrupt):
            asked.make_ahead([FILE], lambda: signal.pthread_kill(threading.get_ident(), number))
        assert signal.sigtimedwait({number}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


_PARENT = """
import os, signal, sys, time
from pathlib import Path
from ssllatency.probes.cache.kept import Cache, File
from ssllatency.probes.cache.parts import FilePart
from ssllatency.probes.settings import PlanSettings
from ssllatency.tracing.planning.findings import Findings
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
fork = os.fork
def told():
    pid = fork()
    if pid:
        print(pid, flush=True)
    return pid
os.fork = told
def endless(_image, _settings):
    while True:
        pass
Findings(Cache(keeps=False), PlanSettings()).ask(File(sys.executable, "x"), FilePart("plain", endless, None, None))
"""


@pytest.mark.parametrize("number", slow_except((signal.SIGKILL, signal.SIGINT, signal.SIGTERM), signal.SIGKILL))
def test_no_process_outlives_the_one_that_started_it(number: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.send_signal(number)
        parent.wait(30)
        until = time.monotonic() + 10
        while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
            assert time.monotonic() < until, "the process runs on"
            time.sleep(0.01)


def test_without_processes_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "no more processes are allowed")

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(SsllatencyError, match=r"no process can be started \(no more processes are allowed\)\."):
        ask(lambda _: 0)


LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
FILES = (
    *("libssl.so.3", "libcrypto.so.3"),
    *("libssl-3.5-x86-64", "libcrypto-3.5-x86-64", "libssl-3.5-arm64", "libcrypto-3.5-arm64"),
)
PARTS: dict[str, FilePart[Any]] = {"plan": PLAN, "handshake": HANDSHAKE, "names": NAMES, "facts": FACTS}


@pytest.mark.parametrize("name", slow_except(FILES, "libssl.so.3"))
def test_what_is_found_out_apart_is_what_is_found_out_here(name: str, children: list[int]) -> None:
    """Nothing that it takes is missed there: no module, no file. Nor does one part change another."""
    path = LIBRARIES / name if ".so" in name else foreign.needed(foreign.find(name))
    if not path.exists():
        pytest.skip(f"needs {name}")
    apart = findings(ahead=list(PARTS.values()))
    for part in PARTS.values():
        here = FileWork(File(str(path), str(path)), [part], PlanSettings())
        content = here.copy()
        here.open()
        values = json.loads(json.dumps(part.to_values(here.make(part))))
        assert apart.ask(File(str(path), str(path)), part) == part.read(values, content.size)
    assert len(children) == 1


PREPARED = """
import sys
from ssllatency.probes.cache.parts import FACTS, PLAN
from ssllatency.tracing.planning.reader import prepare
prepare((FACTS, PLAN))
print(*sys.modules)
"""


def test_rooms_that_only_other_parts_are_made_with_are_not_brought_in() -> None:
    """Each start would pay for them; what the parts asked for are made with is there, as a reader may open no file later."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True, env=environment)
    modules = set(done.stdout.split())
    assert "ssllatency.probes.planner" in modules
    assert not {"ssllatency.probes.handshake.phases", "ssllatency.stacks.openssl.names.error_texts"} & modules
    assert all(find_spec(room) for stack in STACKS for room in stack.rooms.values())
