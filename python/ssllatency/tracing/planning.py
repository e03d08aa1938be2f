# SPDX-License-Identifier: Apache-2.0
"""Files are read and planned by processes of their own: bounded in time and memory, able to do nothing but answer
(confinement.py), and gone as soon as a signal asks for the end, or this process is gone.

Such a process opens one file once, and says each part of what is to be found out as soon as it has it: lines of JSON. First the
file's origin, then each part's values, or the sentence that says why there are none.
"""

from __future__ import annotations

import fcntl
import gc
import itertools
import json
import os
import select
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from typing import Any

from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError
from ssllatency.probes.cache.kept import Origin, Work
from ssllatency.probes.cache.parts import PARTS, Part
from ssllatency.probes.cache.store import planning_modules
from ssllatency.tracing.confinement import confine, limit

# Of processor time a file gets: so many for each part, and one more for so many bytes of the file.
_SECONDS, _BYTES_A_SECOND = 20, 5 << 20
_SECONDS_UNINTERRUPTIBLE = 10  # the same where no signal ends it
_SLOWNESS = 4  # how many times as long it may take on a busy machine
_LARGEST_ANSWER = 32 << 20
_PIPE_BYTES = 1 << 20
_NICENESS = 10
# So many processes bring in for themselves what they read with, side by side; this one, which lasts, needs none of it. Where
# there are more, it is brought in once, here.
_PREPARE_THEMSELVES = 4
_started = itertools.count()
_LOOK_S = 0.05  # how often it is seen that a signal asks for the end
_STOP = {signal.SIGINT, signal.SIGTERM}
NO_ANSWER = "was left out: the process that read it gave no answer"
_NO_SENSE = "could not be read: its answer was malformed"


class Reading:
    """A process that reads a file, and what it has said so far: `origin`, and in `values` or `errors` the parts by name.

    `over`: it has ended. `failure` says why it did before it had said all. `is_hurried`: see hurry().
    """

    def __init__(self, work: Work, pid: int, pipe: int, seconds: int) -> None:
        self.work = work
        self.origin = Origin("", "")
        self.values: dict[str, object] = {}
        self.errors: dict[str, SsllatencyError] = {}
        self.over, self.failure, self.is_hurried = False, "", False
        self._stands_back = False
        self._pid, self._pipe = pid, pipe
        self._until = time.monotonic() + _SLOWNESS * seconds
        self._unread = bytearray()
        self._bytes, self._lines = 0, 0

    def fileno(self) -> int:
        """The pipe's descriptor, for select()."""
        return self._pipe

    def has_said(self, part: Part[Any]) -> bool:
        """Whether it has told of that part."""
        return part.name in self.values or part.name in self.errors

    def stand_back(self) -> None:
        """Stops it until go_on(), and lets others run first from then on: nobody waits for what is still to be said, and
        processors that share a core slow each other down."""
        if not self._stands_back:
            self._stands_back = True
            self._set_niceness(_NICENESS)
            self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Has it go on, if it has been stopped."""
        if self._stands_back:
            self._signal(signal.SIGCONT)

    def hurry(self) -> None:
        """Has it go on as fast as others, and bounds the time that is left as where no signal ends it."""
        self.is_hurried = True
        self.go_on()
        self._set_niceness(os.getpriority(os.PRIO_PROCESS, 0))
        self._until = min(self._until, time.monotonic() + _SLOWNESS * _SECONDS_UNINTERRUPTIBLE)

    def take(self) -> None:
        """Takes what it says next."""
        piece = os.read(self._pipe, _PIPE_BYTES)
        self._bytes += len(piece)
        self._lines += piece.count(b"\n")
        if self._bytes > _LARGEST_ANSWER or self._lines > 1 + len(self.work.parts):
            self._end("was left out: more came of it than can be")
            return
        self._unread += piece
        if b"\n" in piece and not self._hear_lines():
            self._end(_NO_SENSE)
        elif not piece:
            self._ended()

    def is_late(self) -> bool:
        """Whether it has had its time; then it is ended."""
        if time.monotonic() > self._until:
            self._end("was left out: reading it took longer than a file gets")
        return self.over

    def kill(self) -> None:
        """Ends it, if it hasn't ended."""
        if not self.over:
            self._end("was left out: it isn't needed any more")

    def _hear_lines(self) -> bool:
        """Takes the lines that are whole; whether they make sense."""
        *lines, self._unread = self._unread.split(b"\n")
        try:
            for line in lines:
                self._hear(json.loads(line))
        except (ValueError, RecursionError, TypeError, KeyError):
            return False
        return True

    def _hear(self, said: dict[str, Any]) -> None:
        if "build_id" in said:
            build_id, debug = said["build_id"], said["debug"]
            if not isinstance(build_id, str) or not isinstance(debug, str) or "\0" in debug:
                raise ValueError("no origin")
            self.origin = Origin(build_id, debug)
        elif "values" in said:
            self.values[str(said["part"])] = said["values"]
        else:
            error = ElfError(str(said["error"]))
            for part in [said["part"]] if "part" in said else [part.name for part in self.work.parts]:
                self.errors[str(part)] = error

    def _set_niceness(self, niceness: int) -> None:
        if not self.over:  # then its number may be another's
            with suppress(OSError):  # we may only stand back
                os.setpriority(os.PRIO_PROCESS, self._pid, niceness)

    def _signal(self, number: int) -> None:
        if not self.over:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _ended(self) -> None:
        status = self._wait()
        if status:
            self.failure = _why(status)
        elif not (self.values or self.errors) or self._unread:
            self.failure = NO_ANSWER

    def _end(self, failure: str) -> None:
        self._signal(signal.SIGKILL)
        self._wait()
        self.failure = failure

    def _wait(self) -> int:
        self.over = True
        os.close(self._pipe)
        return os.waitpid(self._pid, 0)[1]


def _why(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return "was left out: reading it took more processor time than a file gets"
    if os.WIFSIGNALED(status):
        return f"was left out: the process that read it was ended by signal {os.WTERMSIG(status)}"
    return NO_ANSWER


def listen(readings: Collection[Reading], *, interruptible: bool = True) -> None:
    """Waits until one of them has said something, or has ended. KeyboardInterrupt where SIGINT or SIGTERM waits to be taken;
    not so unless `interruptible`, for what a report lacks once such a signal has ended the run."""
    while True:
        if interruptible and signal.sigpending() & _STOP:
            raise KeyboardInterrupt
        if hear(readings, _LOOK_S):
            return


def hear(readings: Collection[Reading], timeout_s: float = 0) -> bool:
    """Takes what they say, or have said already; whether any has, or has ended."""
    ready = select.select(readings, [], [], timeout_s)[0]
    for reading in ready:
        reading.take()
    late = [reading for reading in readings if reading not in ready and reading.is_late()]
    return bool(ready or late)


def _prepare(parts: Collection[Part[Any]] = PARTS) -> None:
    """Brings in what makes these parts: later a process that reads may open no file."""
    others = tuple(f"{part.room}." for part in PARTS if part.room and part not in parts)
    for name in planning_modules():
        if not name.startswith(others):
            import_module(name.removesuffix(".__init__"))


def start(work: Work, *, interruptible: bool = True) -> Reading:
    """Has the work done by a process of its own, in 40 s at most unless `interruptible`. SsllatencyError where it can't be."""
    if next(_started) == _PREPARE_THEMSELVES:
        _prepare()
    work.copy()
    seconds = _SECONDS * len(work.parts) + work.stored // _BYTES_A_SECOND if interruptible else _SECONDS_UNINTERRUPTIBLE
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
    return Reading(work, pid, receiving, seconds)


def _be_child(work: Work, sending: int, seconds: int, parent: int) -> None:
    """Python's collector rests: looking through what the processes share, it would have each of them copy it."""
    status = 1
    try:
        gc.disable()
        limit(seconds, parent)
        _work(work, sending)
        status = 0
    finally:
        os._exit(status)


def _work(work: Work, sending: int) -> None:
    label = work.subject.label
    try:
        _prepare(work.parts)
        origin = work.open()
        confine(sending)
    except Exception as error:
        _say(sending, {"error": _sentence(error, label)})
        return
    _say(sending, {"build_id": origin.build_id, "debug": origin.debug})
    for part in work.parts:
        if _make(work, part, sending):
            return


def _make(work: Work, part: Part[Any], sending: int) -> bool:
    """Says one part; whether it shows that the others aren't needed."""
    try:
        made = work.make(part)
        _say(sending, {"part": part.name, "values": part.to_values(made)})
    except Exception as error:
        _say(sending, {"part": part.name, "error": _sentence(error, work.subject.label)})
        return False
    return part.suffices(made)


def _sentence(error: Exception, label: str) -> str:
    if isinstance(error, SsllatencyError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"{label} was left out: reading it took more memory than a file gets."
    return f"{label} was left out: reading it failed ({type(error).__name__}), which is a defect: please report it."


def _say(sending: int, line: dict[str, object]) -> None:
    data = memoryview(json.dumps(line).encode() + b"\n")
    while data:
        data = data[os.write(sending, data) :]
