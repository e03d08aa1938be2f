# SPDX-License-Identifier: Apache-2.0
"""Processes that read strangers' files: what they may use up, what they can't do, and that none is left."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import foreign
from tests.parameters import slow_except

from ssllatency.elf.image import Image
from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError
from ssllatency.openssl.names.library import names
from ssllatency.probes.cache.handshakes import HANDSHAKE_PLANS, HandshakeSettings
from ssllatency.probes.cache.kept import Kind, Subject, Work
from ssllatency.probes.cache.names import NAMES
from ssllatency.probes.cache.plans import PLANS, PlanSettings
from ssllatency.tracing import planning
from ssllatency.tracing.planning import run_all_apart, run_apart

PROGRAM = Path(sys.executable).resolve()
PLAIN: Kind[Any] = Kind("plain", lambda found: found, lambda values, _size: values, lambda _: True)


def work(make: Callable[[Image], object], path: Path = PROGRAM) -> Work[Any]:
    """What has `make` run in a process of its own, on this Python's own program."""
    return Work(PLAIN, Subject(str(path), "/usr/lib/libssl.so.3"), make)


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The processes that are forked, none of which may be left."""
    found: list[int] = []
    fork = os.fork

    def noted() -> int:
        found.append(fork())
        return found[-1]

    monkeypatch.setattr(os, "fork", noted)
    yield found
    for pid in found:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def outcome(attempt: Callable[[], object]) -> str:
    """The name of the error that an attempt ends with, "done" where it doesn't."""
    try:
        attempt()
    except Exception as error:
        return type(error).__name__
    return "done"


def test_an_answer_comes_back(children: list[int]) -> None:
    answer = run_apart(work(lambda image: [image.machine, os.getpid()]))
    assert answer["found"] == [Image.open(PROGRAM).machine, children[0]]


def test_answers_come_in_order_and_errors_in_their_places(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no ELF file")
    bad = work(lambda _: 0, tmp_path / "text"), work(lambda _: 0, tmp_path / "missing")
    first, second, third, fourth = run_all_apart([work(lambda _: 1), *bad, work(lambda _: "x" * (3 << 20))])
    assert isinstance(first, dict)
    assert isinstance(fourth, dict)
    assert (first["found"], len(fourth["found"])) == (1, 3 << 20)
    assert str(second) == "/usr/lib/libssl.so.3 is not an ELF file."
    assert "cannot be opened" in str(third)


def test_as_many_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch, children: list[int]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    done: list[int] = []
    answers = run_all_apart([work(lambda _, number=number: number) for number in range(7)], lambda: done.append(len(children)))
    assert [answer["found"] for answer in answers if isinstance(answer, dict)] == list(range(7))
    assert done == [3]


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
    answer = run_apart(work(lambda _: {name: outcome(attempt) for name, attempt in tried.items()}))
    assert set(here.values()) == {"done"}
    assert set(answer["found"].values()) <= {"PermissionError", "OSError"}
    assert list(answer["found"]) == list(tried)
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

    with Path("/etc/hostname").open("rb"):
        answer = run_all_apart([work(busy)], look)[0]
        assert "ended by signal 15" in str(answer)
    assert {seen[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
    assert (seen["NoNewPrivs"], seen["descriptors"], seen["how many"]) == ("1", "0 1 2", "4")


def endless(_: Image) -> None:
    """Never comes to an end by itself."""
    while True:
        pass


@pytest.mark.slow
def test_what_takes_too_long_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_SECONDS", 1)
    monkeypatch.setattr(planning, "_BYTES_A_SECOND", 1 << 40)
    monkeypatch.setattr(planning, "_SLOWNESS", 300)  # a busy machine gives it less than one processor
    with pytest.raises(ElfError, match=r"^/usr/lib/libssl.so.3 was left out: reading it took more processor time"):
        run_apart(work(endless))


def test_what_takes_too_much_memory_is_ended_and_told() -> None:
    with pytest.raises(ElfError, match=r"^/usr/lib/libssl.so.3 was left out: reading it took more memory"):
        run_apart(work(lambda _: len(bytearray(3 << 30))))


def test_what_says_too_much_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_LARGEST_ANSWER", 1 << 16)
    with pytest.raises(ElfError, match="more came of it than can be"):
        run_apart(work(lambda _: "x" * (1 << 22)))


def test_what_crashes_is_told() -> None:
    with pytest.raises(ElfError, match=rf"was ended by signal {signal.SIGSEGV:d}\."):
        run_apart(work(lambda _: ctypes.string_at(0)))


def test_a_defect_is_told_as_one() -> None:
    with pytest.raises(ElfError, match=r"failed \(ZeroDivisionError\), which is a defect"):
        run_apart(work(lambda _: 1 // 0))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_waits_ends_it_at_once(number: int) -> None:
    """As while a trace is prepared: signals are blocked then."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        with pytest.raises(KeyboardInterrupt):
            run_all_apart([work(endless)], lambda: signal.pthread_kill(threading.get_ident(), number))
        assert signal.sigtimedwait({number}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


_PARENT = """
import os, signal, sys, time
from pathlib import Path
from ssllatency.tracing.planning import run_apart
from ssllatency.probes.cache.kept import Kind, Subject, Work
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
fork = os.fork
def told():
    pid = fork()
    if pid:
        print(pid, flush=True)
    return pid
os.fork = told
def endless(_):
    while True:
        pass
run_apart(Work(Kind("plain", None, None, None), Subject(sys.executable, "x"), endless))
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
        run_apart(work(lambda _: 0))


LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
FILES = (
    *("libssl.so.3", "libcrypto.so.3"),
    *("libssl-3.5-x86-64", "libcrypto-3.5-x86-64", "libssl-3.5-arm64", "libcrypto-3.5-arm64"),
)
KINDS: dict[str, tuple[Kind[Any], Callable[[Image], object]]] = {
    "plan": (PLANS, PlanSettings().make),
    "handshake plan": (HANDSHAKE_PLANS, HandshakeSettings().make),
    "names": (NAMES, names),
}


@pytest.mark.parametrize("kind", slow_except(KINDS, "plan", "names"))
@pytest.mark.parametrize("name", slow_except(FILES, "libssl.so.3"))
def test_what_is_found_out_apart_is_what_is_found_out_here(name: str, kind: str) -> None:
    """Nothing that it takes is missed there: no module, no file."""
    path = LIBRARIES / name if ".so" in name else foreign.needed(foreign.find(name))
    if not path.exists():
        pytest.skip(f"needs {name}")
    subject = Subject(str(path), str(path))
    apart, here = Work(KINDS[kind][0], subject, KINDS[kind][1]), Work(KINDS[kind][0], subject, KINDS[kind][1])
    here.copy()
    here.open()
    assert apart.checked(run_apart(apart)) == here.checked(here.values())
