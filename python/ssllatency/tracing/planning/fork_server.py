# SPDX-License-Identifier: Apache-2.0
"""A process that brings in the ELF parser and the decoder while the command line is still being read, and then forks the
readers of files: the first start on a machine waits for these longest, and another processor has nothing to do meanwhile.

It is asked by lines of JSON in a pipe, and answers in another. It gets descriptors by their names under /proc, and parses
nothing itself. Where there is none, as where findings about files are kept already, readers are forked by the command.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import contextmanager, suppress

from ssllatency.own_processes import helpers
from ssllatency.probes.cache.folder import directory_path, has_plans
from ssllatency.stopping import STOP

TYPE_CHECKING = False  # typing itself takes longer to bring in than all that is needed here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO, NoReturn

    from ssllatency.probes.cache.kept import FileWork

_OWN_FILES = "/proc/self/"


class Child:
    """A process that was forked: its number, which stays its own until `wait` has returned its wait status."""

    def __init__(self, pid: int, wait: Callable[[], int]) -> None:
        self.pid, self.wait = pid, wait


class _ForkServer:
    """The command's end."""

    def __init__(self, pid: int, requests: int, answers: BinaryIO) -> None:
        self._pid, self._requests, self._answers = pid, requests, answers
        helpers.add(pid)
        self._children: set[int] = set()
        self._is_needed, self._is_gone = True, False

    @property
    def is_needed(self) -> bool:
        """Whether it is to fork more readers."""
        return self._is_needed and not self._is_gone

    def fork(self, work: FileWork, sending: int, *, interruptible: bool) -> Child | None:
        """A reader; None where the server has gone or is to go, or can't fork one."""
        from dataclasses import asdict

        from ssllatency.probes.cache.parts import PARTS

        if not self._is_needed or not set(work.parts) <= set(PARTS):
            return None
        request = {
            "path": _elsewhere(work.subject.path),
            "label": work.subject.label,
            "debug_roots": work.subject.debug_roots,
            "parts": [part.name for part in work.parts],
            "settings": asdict(work.settings),
            "pipe": _elsewhere(f"{_OWN_FILES}fd/{sending}"),
            "interruptible": interruptible,
        }
        pid = self._ask(request).get("pid")
        if not isinstance(pid, int):
            return None
        self._children.add(pid)
        return Child(pid, lambda: self._wait(pid))

    def end(self) -> None:
        """Has it end once its last reader has."""
        self._is_needed = False
        if not self._children:
            self.close()

    def close(self) -> None:
        """Ends it, and with it the readers that it forked."""
        if not self._is_gone:
            self._is_gone = True
            os.close(self._requests)
            self._answers.close()
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            helpers.discard(self._pid)

    def _wait(self, pid: int) -> int:
        status = self._ask({"wait": pid}).get("status")
        self._children.discard(pid)
        if not self._is_needed:
            self.end()
        return int(signal.SIGKILL) if status is None else int(status)  # that is how they end without the server

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Its answer; nothing where it has gone."""
        import json

        if self._is_gone:
            return {}
        with suppress(BrokenPipeError):
            os.write(self._requests, json.dumps(request).encode() + b"\n")
            if line := self._answers.readline():
                return dict(json.loads(line))
        self.close()
        return {}


_server: _ForkServer | None = None


@contextmanager
def running(wanted: bool) -> Iterator[None]:
    """Starts the server if it is `wanted`, nothing is kept yet, and another processor may run it. Ends it in the end at the
    latest."""
    global _server
    if wanted and not has_plans(directory_path()) and len(os.sched_getaffinity(0)) > 1:
        _server = _start()
    try:
        yield
    finally:
        if _server:
            _server.close()


def is_running() -> bool:
    """Whether there is a server that hasn't been told to end."""
    return _server is not None and _server.is_needed


def fork_reader(work: FileWork, sending: int, *, interruptible: bool) -> Child | None:
    """A reader that the server forked, which does the work and says it into `sending`. None where there is no server (now)."""
    return _server.fork(work, sending, interruptible=interruptible) if _server else None


def end() -> None:
    """Has the server end once the readers have that it forked: later ones are forked without it."""
    if _server:
        _server.end()


def _start() -> _ForkServer | None:
    """The server; None where no process can be started."""
    ends: list[int] = []
    try:
        ends += os.pipe()
        ends += os.pipe()
    except OSError:
        for end in ends:
            os.close(end)
        return None
    requests, requests_in, answers, answers_in = ends
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # until it has a session of its own
    try:
        pid = os.fork()
        if pid == 0:
            _be_server(requests, answers_in, parent)
        return _ForkServer(pid, requests_in, os.fdopen(answers, "rb"))
    except OSError:
        os.close(requests_in)
        os.close(answers)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(requests)
        os.close(answers_in)


def _elsewhere(path: str) -> str:
    """The path of a file of this process as other processes have it, wherever that /proc is from."""
    if not path.startswith(_OWN_FILES):
        return path
    return f"/proc/{os.readlink('/proc/self')}/{path.removeprefix(_OWN_FILES)}"  # noqa: PTH115


# The server.


def _be_server(requests: int, answers: int, parent: int) -> NoReturn:
    try:
        gc.disable()
        from ssllatency.tracing.planning.confinement import close_all_but, tie

        tie(parent)
        close_all_but(requests, answers)
        _bring_in(requests)
        gc.freeze()
        _serve(requests, answers)
    finally:
        os._exit(0)


def _bring_in(requests: int) -> None:
    """Import what every file is planned with, and then what only some commands ask for, until there is a file to read."""
    import select

    from ssllatency.probes.cache.parts import FACTS, PARTS, PLAN
    from ssllatency.tracing.planning.reader import prepare

    prepare((FACTS, PLAN))
    for part in PARTS:
        if select.select([requests], [], [], 0)[0]:
            return
        prepare((part,))


def _serve(requests: int, answers: int) -> None:
    """Answers requests until the command is gone."""
    import json

    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            request = json.loads(line)
            answer = {"status": os.waitpid(request["wait"], 0)[1]} if "wait" in request else _fork(request)
            os.write(answers, json.dumps(answer).encode() + b"\n")


def _fork(request: dict[str, Any]) -> dict[str, Any]:
    """The number of a reader; nothing where there can be none. The reader itself opens none of the command's descriptors, which
    may stand for other files by then."""
    from ssllatency.safe_open import open_regular
    from ssllatency.tracing.planning.reader import be_reader

    parent, opened = os.getpid(), []
    try:
        opened.append(open_regular(request["path"]))
        opened.append(os.open(request["pipe"], os.O_WRONLY | os.O_CLOEXEC))
        work = _work(request, opened[0])
        pid = os.fork()
        if pid == 0:
            be_reader(work, opened[1], parent, interruptible=request["interruptible"])
        return {"pid": pid}
    except OSError:
        return {}
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _work(request: dict[str, Any], file: int) -> FileWork:
    from ssllatency.code.machine import Emulation
    from ssllatency.probes.cache.kept import File, FileWork
    from ssllatency.probes.cache.parts import PARTS
    from ssllatency.probes.settings import PlanSettings

    by_name = {part.name: part for part in PARTS}
    settings = request["settings"]
    return FileWork(
        File(f"{_OWN_FILES}fd/{file}", request["label"], tuple(request["debug_roots"])),
        [by_name[name] for name in request["parts"]],
        PlanSettings(**settings | {"emulation": Emulation(**settings["emulation"])}),
    )
