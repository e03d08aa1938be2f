# SPDX-License-Identifier: Apache-2.0
"""Ends a command at one of its system calls, or has that call fail, and looks what stays: nothing may.

strace injects a signal or an error at the N-th call of that name of any of the command's threads and processes. A SIGKILL that
comes while the kernel takes breakpoints out has it leave some in the memory of the processes, without a program ("uprobe: ...
failed to unregister, leaking uprobe"): that costs them a trap a hit, until the next run on the same file takes them out.
By hand, over the whole of a command:

    PYTHONPATH=python build/venv/bin/python -m tests.live.safety.kills handshakes --points 300
    PYTHONPATH=python build/venv/bin/python -m tests.live.safety.kills trace --error ENOMEM --points 100
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.commands.trace import PROGRAM
from tests.live.servers.file_systems import openssl_in
from tests.live.servers.late import Late, late

# Those by which something comes into being that could stay, or goes.
CALLS = (
    *("bpf", "perf_event_open", "ioctl", "openat", "mkdir", "rename", "renameat", "unlink", "unlinkat", "ftruncate", "write"),
    *(
        "memfd_create",
        "pipe2",
        "socket",
        "clone",
        "clone3",
        "fork",
        "vfork",
        "setsid",
        "prctl",
        "dup2",
        "kill",
        "wait4",
        "mount",
    ),
    *("mmap", "close", "epoll_ctl", "rt_sigprocmask", "rt_sigtimedwait", "pread64", "exit_group"),
)
ERRORS = ("ENOMEM", "EPERM", "EIO", "EINTR", "EMFILE", "ENOSPC")
_ENDS_S = 40.0  # how long a command may take that was injected something into
_GONE_S = 10.0  # how long the kernel may take to remove what a process has left
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_LINE = re.compile(r"^\d+\s+(\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Point:
    """The `number`-th call of that name of each thread: there it is killed, or the call fails with `error`."""

    call: str
    number: int
    error: str = ""

    @property
    def injection(self) -> str:
        what = f"error={self.error}" if self.error else "signal=SIGKILL"
        return f"inject={self.call}:{what}:when={self.number}"


@dataclass
class Ended:
    """How a command ended, and what it wrote to standard error."""

    point: Point
    status: int
    said: str
    wrong: list[str] = field(default_factory=list)


class Ground:
    """A server that is traced, and folders that the command writes to."""

    def __init__(self, server: Late, libssl: Path, folder: Path, *, warm: bool = True) -> None:
        self._server, self._libssl, self._folder, self._warm = server, libssl, folder, warm
        self._temporary, self._cache = folder / "tmp", folder / "cache"
        for made in (self._temporary, self._cache):
            made.mkdir(exist_ok=True)
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # whom the command leaves behind becomes our child
        self._children, self._mounts, self._programs = _children(), _mounts(), _programs()

    def words(self, words: Sequence[str]) -> list[str]:
        """Those of COMMANDS with the folder that they write to."""
        return [word.format(folder=self._folder) for word in words]

    def command(self, words: Sequence[str]) -> list[str]:
        """As it is run; `export` ends at a signal only."""
        prefix = ["timeout", "--signal=TERM", "2"] if words[0] == "export" else []
        return [*prefix, str(PROGRAM), *words, "-p", str(self._server.process.pid)]

    def calls_of(self, words: Sequence[str]) -> Counter[str]:
        """How many of each of these system calls the command makes, all its threads together."""
        log = self._folder / "calls"
        self._run(["-o", str(log)], words)
        return Counter(_LINE.findall(log.read_text()))

    def end_at(self, point: Point, words: Sequence[str]) -> Ended:
        """Runs the command up to there; what stays is in `wrong`."""
        if not self._warm:
            for entry in self._cache.rglob("*.json"):
                entry.unlink()
        done = self._run(["-o", os.devnull, "-e", point.injection], words)
        ended = Ended(point, done.returncode, done.stderr)
        if not point.error and done.returncode == 0:
            ended.said += "(not reached)"
        if point.error:
            ended.wrong += _misbehaviour(done)
        ended.wrong += self._left_behind()
        if not point.error and _until_gone(lambda: not self._is_clean()):
            ended.said += "(the kernel left breakpoints)"
            self._run(["-o", os.devnull], words)
        if _until_gone(lambda: not self._is_clean()):
            ended.wrong.append("a breakpoint stays")
        return ended

    def _run(self, options: Sequence[str], words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """With a filter of system calls strace is much faster, but then it injects no signals."""
        faster = () if "signal=" in options[-1] else ("--seccomp-bpf",)
        traced = ["strace", "-f", "-qq", *faster, "-e", f"trace={','.join(CALLS)}", *options]
        environment = {
            **os.environ, "TMPDIR": str(self._temporary), "XDG_CACHE_HOME": str(self._cache), "PYTHONDONTWRITEBYTECODE": "1"
        }  # fmt: skip
        return subprocess.run(
            [*traced, *self.command(words)], env=environment, capture_output=True, text=True, timeout=_ENDS_S, check=False
        )

    def _left_behind(self) -> list[str]:
        """What is wrong now, after the time that the kernel takes."""
        checks: dict[str, Callable[[], object]] = {
            "a process": lambda: _children() - self._children,
            "a mount": lambda: _mounts() ^ self._mounts,
            "a program of BPF": lambda: _programs() - self._programs,
            "a temporary file": lambda: list(self._temporary.iterdir()),
            "half a recording": lambda: [path for path in (self._folder / "incidents").glob("*") if not _is_recording(path)],
            "half an entry": lambda: [entry for entry in self._cache.rglob("*.json") if not _is_whole(entry)],
        }
        wrong = [f"{what} stays: {left}" for what, check in checks.items() if (left := _until_gone(check))]
        self._server.do("serve 1", 1)
        if self._server.process.poll() is not None:
            wrong.append("the server has died")
        return wrong

    def _is_clean(self) -> bool:
        """Whether the server's code is the file's to the byte: no breakpoint is in it."""
        maps = Path(f"/proc/{self._server.process.pid}/maps").read_text()
        line = next(line for line in maps.splitlines() if " r-xp " in line and line.endswith(str(self._libssl)))
        addresses, _, offset, *_ = line.split()
        start, end = (int(word, 16) for word in addresses.split("-"))
        with Path(f"/proc/{self._server.process.pid}/mem").open("rb", buffering=0) as memory:
            own = os.pread(memory.fileno(), end - start, start)
        content = self._libssl.read_bytes()[int(offset, 16) :][: len(own)]
        return own[: len(content)] == content


def _misbehaviour(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is wrong with how a command ended of which a call failed. It may have gone on without what failed."""
    wrong = []
    if "Traceback" in done.stderr or "defect" in done.stderr:
        wrong.append("it spoke of a defect")
    if done.returncode and not done.stderr.strip():
        wrong.append(f"it ended with status {done.returncode} and said nothing")
    if done.returncode < 0 or done.returncode > 2:
        wrong.append(f"it ended with status {done.returncode}")
    return wrong


def _until_gone(check: Callable[[], object]) -> object:
    ends = time.monotonic() + _GONE_S
    while (left := check()) and time.monotonic() < ends:
        time.sleep(0.02)
    return left


def _children() -> set[int]:
    found = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    for pid in list(found):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                found.discard(pid)
        except ChildProcessError:
            found.discard(pid)
    return found


def _mounts() -> set[str]:
    return {line.split(" ", 2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def _programs() -> set[int]:
    """The programs that the kernel has of types that ssllatency loads."""
    shown = subprocess.run(["bpftool", "-j", "prog", "show"], check=True, capture_output=True, text=True).stdout
    return {
        program["id"] for program in json.loads(shown or "[]") if program["type"] in ("kprobe", "raw_tracepoint", "tracing")
    }


def _is_whole(entry: Path) -> bool:
    try:
        return isinstance(json.loads(entry.read_text()), dict | list)
    except ValueError:
        return False


def _is_recording(path: Path) -> bool:
    return not path.name.startswith(".") and path.read_text().endswith("}\n")


@contextmanager
def ground(folder: Path, certificates: Path, *, warm: bool = True) -> Iterator[Ground]:
    """A server with a libssl of its own."""
    libssl = openssl_in(folder / "own")
    with late(certificates, "env", f"LD_LIBRARY_PATH={libssl.parent}") as server:
        server.do("load")
        yield Ground(server, libssl, folder, warm=warm)


def points(calls: Counter[str], number: int, chance: random.Random, errors: Sequence[str] = ("",)) -> list[Point]:
    """So many points at most, spread over all calls of all names: the rare ones first, as they come to more."""
    chosen: list[Point] = []
    names = sorted(calls, key=lambda name: calls[name])
    for index, name in enumerate(names):
        share = max(1, (number - len(chosen)) // (len(names) - index))
        numbers = range(1, calls[name] + 1)
        taken = sorted(chance.sample(numbers, min(share, len(numbers))))
        chosen += [Point(name, at, chance.choice(errors)) for at in taken]
    return chosen[:number] if number < len(names) else chosen


COMMANDS = {
    "trace": ("trace", "-d", "0.3"),
    "perf": ("trace", "-d", "0.3", "--attach", "perf"),
    "budget": ("trace", "-d", "0.5", "--budget", "2%"),
    "handshakes": ("handshakes", "-d", "0.3"),
    "snoop": ("snoop", "--handshakes", "-d", "0.3"),
    "watch": (
        *("watch", "--when", "handshake count < 1 for 1s", "-d", "3", "--after", "1s", "--json"),
        *("-o", "{folder}/incidents", "--run", "sleep 60", "--run-timeout", "1s"),
    ),
    "top": ("top", "--once", "-i", "0.3"),
    "export": ("export", "--listen", "127.0.0.1:29743"),
    "record": ("record", "-d", "0.3", "-o", "{folder}/tmp/../recording.jsonl", "--force"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--error", action="append", default=[], choices=ERRORS)
    parser.add_argument("--cold", action="store_true", help="without kept plans")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _certificate(folder)
        with ground(folder, folder, warm=not arguments.cold) as place:
            words = place.words(COMMANDS[arguments.command])
            calls = place.calls_of(words)
            if not arguments.cold:
                calls = place.calls_of(words)
            calls = Counter({call: count for call, count in calls.items() if not arguments.only or call in arguments.only})
            print(dict(calls))
            failed, began, statuses = 0, time.monotonic(), Counter[int]()
            for point in points(calls, arguments.points, random.Random(arguments.seed), arguments.error or ("",)):
                ended = place.end_at(point, words)
                if time.monotonic() - began > arguments.seconds:
                    print("time is over at", point)
                    break
                statuses[ended.status] += 1
                if ended.wrong:
                    failed += 1
                    print(point, ended.status, ended.wrong, ended.said[-600:], flush=True)
            print(f"{sum(statuses.values())} points, statuses {dict(statuses)}: at {failed} something stayed or went wrong")
    sys.exit(failed > 0)


def _certificate(folder: Path) -> None:
    subject = ("-subj", "/CN=localhost", "-nodes", "-keyout", str(folder / "ecdsa.key"), "-out", str(folder / "ecdsa.crt"))
    new = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    subprocess.run([*new, *subject], check=True, capture_output=True)


if __name__ == "__main__":
    main()
