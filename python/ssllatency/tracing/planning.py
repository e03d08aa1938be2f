# SPDX-License-Identifier: Apache-2.0
"""Files are read and planned by processes of their own, a few at once: bounded in time and memory, able to do nothing but
answer (confinement.py), and gone as soon as a signal asks for the end, or this process is gone."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError
from ssllatency.probes.cache.kept import Values, Work
from ssllatency.probes.cache.store import planning_modules
from ssllatency.tracing.confinement import confine, limit

_SECONDS, _BYTES_A_SECOND = 20, 5 << 20  # of processor time a file gets: so many, and one more for so many bytes of it
_SECONDS_UNHEEDING = 10  # the same where no signal ends it
_SLOWNESS = 4  # how many times as long it may take on a busy machine
_MOST_PROCESSES = 8
_LARGEST_ANSWER = 32 << 20
_PIPE_BYTES = 1 << 20
_LOOK_S = 0.05  # how often it is seen that a signal asks for the end
_STOP = {signal.SIGINT, signal.SIGTERM}

Answer = Values | SsllatencyError


def run_apart(work: Work[Any], *, heeding: bool = True) -> Values:
    """Has it worked out by a process of its own. ElfError where that can't be, or takes too much; else as run_all_apart()."""
    (answer,) = run_all_apart([work], heeding=heeding)
    if isinstance(answer, SsllatencyError):
        raise answer
    return answer


def run_all_apart(
    works: Sequence[Work[Any]], meanwhile: Callable[[], object] = lambda: None, *, heeding: bool = True
) -> list[Answer]:
    """The same for several, begun in their order, as many at once as there are processors; `meanwhile` is run by this process.

    An error is given in place of an answer. KeyboardInterrupt where SIGINT or SIGTERM waits to be taken; not so unless
    `heeding`, for what a report lacks once such a signal has ended the run: then it takes 40 s at most.
    """
    answers: list[Answer] = [ElfError("")] * len(works)
    waiting, running = list(enumerate(works)), list[_Child]()
    most = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    _prepare()
    try:
        while waiting or running:
            while waiting and len(running) < most:
                number, work = waiting.pop(0)
                try:
                    running.append(_start(number, work, heeding))
                except SsllatencyError as error:
                    answers[number] = error
            meanwhile()
            meanwhile = _nothing
            for child in _ended(running, heeding):
                running.remove(child)
                answers[child.number] = child.answer()
    finally:
        for child in running:
            child.kill()
    return answers


def _nothing() -> None:
    pass


@cache
def _prepare() -> None:
    """Brings in all that reads and plans, once and not in each process: later they may open no file."""
    for name in planning_modules():
        import_module(name.removesuffix(".__init__"))


@dataclass
class _Child:
    """A process that works, and what it has said so far."""

    number: int
    work: Work[Any]
    pid: int
    pipe: int
    until: float
    said: bytearray = field(default_factory=bytearray)
    obstacle: str = ""

    def read(self) -> bool:
        """Takes what it says; whether it is over."""
        piece = os.read(self.pipe, _PIPE_BYTES)
        self.said += piece
        if len(self.said) > _LARGEST_ANSWER:
            self.obstacle = "more came of it than can be"
        return not piece or bool(self.obstacle)

    def kill(self) -> int:
        """Ends it; its status as waitpid() gives it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> int:
        os.close(self.pipe)
        return os.waitpid(self.pid, 0)[1]

    def answer(self) -> Answer:
        """What it found out."""
        status = self.kill() if self.obstacle else self.wait()
        label = self.work.subject.label
        try:
            said = json.loads(self.said) if self.said and not self.obstacle else None
        except (ValueError, RecursionError):
            said = None
        if isinstance(said, dict) and set(said) == {"values"}:
            values: Values = said["values"]
            return values
        if isinstance(said, dict) and set(said) == {"error"}:
            return ElfError(str(said["error"]))
        return ElfError(f"{label} was left out: {self.obstacle or _why(status)}.")


def _why(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return "reading it took more processor time than a file gets"
    if os.WIFSIGNALED(status):
        return f"the process that read it was ended by signal {os.WTERMSIG(status)}"
    return "the process that read it gave no answer"


def _start(number: int, work: Work[Any], heeding: bool) -> _Child:
    work.copy()
    seconds = _SECONDS + work.stored // _BYTES_A_SECOND if heeding else _SECONDS_UNHEEDING
    receiving, sending = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(sending, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(receiving)
        os.close(sending)
        raise SsllatencyError(f"{work.subject.label} can't be read: no process can be started ({error.strerror}).") from None
    if pid == 0:
        _be_child(work, sending, seconds, parent)
    os.close(sending)
    work.forget()
    return _Child(number, work, pid, receiving, time.monotonic() + _SLOWNESS * seconds)


def _be_child(work: Work[Any], sending: int, seconds: int, parent: int) -> None:
    """Python's collector rests: looking through what the processes share, it would have each of them copy it."""
    try:
        gc.disable()
        limit(seconds, parent)
        _say(sending, _worked_out(work, sending))
    finally:
        os._exit(0)


def _worked_out(work: Work[Any], sending: int) -> dict[str, object]:
    label = work.subject.label
    try:
        work.open()
        confine(sending)
        return {"values": work.values()}
    except SsllatencyError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"{label} was left out: reading it took more memory than a file gets."}
    except Exception as error:
        return {
            "error": f"{label} was left out: reading it failed ({type(error).__name__}), which is a defect: please report it."
        }


def _say(sending: int, answer: dict[str, object]) -> None:
    data = memoryview(json.dumps(answer).encode())
    while data:
        data = data[os.write(sending, data) :]


def _ended(running: Sequence[_Child], heeding: bool) -> list[_Child]:
    """Those that are over, once there are any; takes what the others say meanwhile."""
    while running:
        if heeding and signal.sigpending() & _STOP:
            raise KeyboardInterrupt
        ready = select.select([child.pipe for child in running], [], [], _LOOK_S)[0]
        over = [child for child in running if child.pipe in ready and child.read()]
        for child in running:
            if time.monotonic() > child.until and child not in over:
                child.obstacle = "reading it took longer than a file gets"
                over.append(child)
        if over:
            return over
    return []
