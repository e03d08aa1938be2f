# SPDX-License-Identifier: Apache-2.0
"""The command's end of the processes that read files: starts one for a file, hears what it says, and ends it as soon as a
signal asks for the end.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from ssllatency.elf.source import ElfError
from ssllatency.errors import SsllatencyError, TooManyOpenFiles, are_too_many_open
from ssllatency.own_processes import helpers
from ssllatency.probes.cache.kept import Content, FileWork, Origin
from ssllatency.probes.cache.parts import FilePart
from ssllatency.stopping import readable, stop_is_asked_for
from ssllatency.tracing.planning import fork_server
from ssllatency.tracing.planning.fork_server import Child
from ssllatency.tracing.planning.reader import be_reader, prepare, processor_seconds

_SLOWNESS = 4  # how many times as long it may take on a busy machine
_LARGEST_ANSWER = 32 << 20
_PIPE_BYTES = 1 << 20
_NICENESS = 10
# So many of the processes that this one forks bring in for themselves what they read with, side by side; this one, which lasts,
# needs none of it. Where there are more, it is brought in once, here.
_PREPARE_THEMSELVES = 4
_forked = itertools.count()
_LOOK_S = 0.05  # how often it is seen that a signal asks for the end
NO_ANSWER = "was left out: the process that read it gave no answer"
_NO_SENSE = "could not be read: its answer was malformed"


class _Answer:
    """The text that comes of a process, of at most `most_lines` lines; `unread` is the last one, which isn't whole yet."""

    def __init__(self, most_lines: int) -> None:
        self._bytes, self._lines, self._most_lines = 0, 0, most_lines
        self.unread = bytearray()

    def add(self, piece: bytes) -> list[bytearray] | None:
        """Take what comes next: the lines that are whole now, None where more came than can be."""
        self._bytes += len(piece)
        self._lines += piece.count(b"\n")
        if self._bytes > _LARGEST_ANSWER or self._lines > self._most_lines:
            return None
        self.unread += piece
        if b"\n" not in piece:
            return []
        *lines, self.unread = self.unread.split(b"\n")
        return lines


class ReadingProcess:
    """A process that reads a file, and what it has said so far: `content`, `origin`, and in `values` or `errors` the parts by
    name.

    `over`: it has ended. `failure` says why it did before it had said all. `is_hurried`: see hurry().
    """

    def __init__(self, work: FileWork, child: Child, pipe: int, *, interruptible: bool = True) -> None:
        self.work = work
        self.content, self.origin = Content(), Origin()
        self.values: dict[str, object] = {}
        self.errors: dict[str, SsllatencyError] = {}
        self.over, self.failure, self.is_hurried = False, "", False
        self._stands_back = False
        self._child, self._pipe, self._interruptible = child, pipe, interruptible
        helpers.add(child.pid)
        self._until = self._end_of_time()
        self._answer = _Answer(2 + len(work.parts))

    def fileno(self) -> int:
        """The pipe's descriptor, for select()."""
        return self._pipe

    def has_said(self, part: FilePart[Any]) -> bool:
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
        self.is_hurried, self._interruptible = True, False
        self.go_on()
        self._set_niceness(os.getpriority(os.PRIO_PROCESS, 0))
        self._until = min(self._until, self._end_of_time())

    def take(self) -> None:
        """Takes what it says next."""
        piece = os.read(self._pipe, _PIPE_BYTES)
        lines = self._answer.add(piece)
        if lines is None:
            self._end("was left out: more came of it than can be")
        elif not self._hear_lines(lines):
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

    def _hear_lines(self, lines: Sequence[bytes | bytearray]) -> bool:
        """Takes lines; whether they make sense."""
        try:
            for line in lines:
                self._hear(json.loads(line))
        except (ValueError, RecursionError, TypeError, KeyError):
            return False
        return True

    def _hear(self, said: dict[str, Any]) -> None:
        """Content comes first, from before the file was parsed: what comes later of a process that the file took over can't
        change it."""
        if "digest" in said and not self.content.digest:
            self.content = Content(str(said["digest"]), int(said["size"]), int(said["stored"]))
            self._until = min(self._until, self._end_of_time()) if self.is_hurried else self._end_of_time()
        elif "error" in said:
            error = ElfError(str(said["error"]))
            for part in [said["part"]] if "part" in said else [part.name for part in self.work.parts]:
                self.errors[str(part)] = error
        elif not self.content.digest:
            raise ValueError("no content")
        elif "build_id" in said:
            build_id, debug = said["build_id"], said["debug"]
            if not isinstance(build_id, str) or not isinstance(debug, str) or "\0" in debug:
                raise ValueError("no origin")
            self.origin = Origin(build_id, debug)
        else:
            self.values[str(said["part"])] = said["values"]

    def _end_of_time(self) -> float:
        """Until when it may take, from now, by the monotonic clock."""
        return time.monotonic() + _SLOWNESS * processor_seconds(
            self.work, self.content.stored, interruptible=self._interruptible
        )

    def _set_niceness(self, niceness: int) -> None:
        if not self.over:  # then its number may be another's
            with suppress(OSError):  # we may only stand back
                os.setpriority(os.PRIO_PROCESS, self._child.pid, niceness)

    def _signal(self, number: int) -> None:
        if not self.over:
            with suppress(ProcessLookupError):
                os.kill(self._child.pid, number)

    def _ended(self) -> None:
        status = self._wait()
        if status:
            self.failure = _why(status)
        elif not (self.values or self.errors) or self._answer.unread:
            self.failure = NO_ANSWER

    def _end(self, failure: str) -> None:
        self._signal(signal.SIGKILL)
        self._wait()
        self.failure = failure

    def _wait(self) -> int:
        self.over = True
        os.close(self._pipe)
        status = self._child.wait()
        helpers.discard(self._child.pid)
        return status


def _why(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return "was left out: reading it took more processor time than a file gets"
    if os.WIFSIGNALED(status):
        return f"was left out: the process that read it was ended by signal {os.WTERMSIG(status)}"
    return NO_ANSWER


def listen(readings: Collection[ReadingProcess], *, interruptible: bool = True) -> None:
    """Waits until one of them has said something, or has ended. KeyboardInterrupt where SIGINT or SIGTERM waits to be taken;
    not so unless `interruptible`, for what a report lacks once such a signal has ended the run."""
    while True:
        if interruptible and stop_is_asked_for():
            raise KeyboardInterrupt
        if hear(readings, _LOOK_S):
            return


def hear(readings: Collection[ReadingProcess], timeout_s: float = 0) -> bool:
    """Takes what they say, or have said already; whether any has, or has ended."""
    can_be_read = readable([reading.fileno() for reading in readings], timeout_s)
    ready = [reading for reading in readings if reading.fileno() in can_be_read]
    for reading in ready:
        reading.take()
    late = [reading for reading in readings if reading not in ready and reading.is_late()]
    return bool(ready or late)


def start(work: FileWork, *, interruptible: bool = True) -> ReadingProcess:
    """Has the work done by a process of its own, in 40 s at most unless `interruptible`. SsllatencyError where it can't be."""
    try:
        receiving, sending = os.pipe()
    except OSError as error:
        raise _not_started(work, error) from None
    with suppress(OSError):
        fcntl.fcntl(sending, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    try:
        child = fork_server.fork_reader(work, sending, interruptible=interruptible)
        child = child or _fork(work, sending, interruptible=interruptible)
    except OSError as error:
        os.close(receiving)
        raise _not_started(work, error) from None
    finally:
        os.close(sending)
    return ReadingProcess(work, child, receiving, interruptible=interruptible)


def _not_started(work: FileWork, error: OSError) -> SsllatencyError:
    if are_too_many_open(error):
        return TooManyOpenFiles(work.subject.label)
    return SsllatencyError(f"{work.subject.label} can't be read: no process can be started ({error.strerror}).")


def _fork(work: FileWork, sending: int, *, interruptible: bool) -> Child:
    if next(_forked) == _PREPARE_THEMSELVES:
        prepare()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        be_reader(work, sending, parent, interruptible=interruptible)
    return Child(pid, lambda: os.waitpid(pid, 0)[1])
