# SPDX-License-Identifier: Apache-2.0
"""Runs one load generator to its end, its time limit or Ctrl-C, and keeps its output. Ends no other process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import IO, Any

from ssllatency.data_class import dataclass
from ssllatency.load.account import Account
from ssllatency.load.figures import LoadError

LOOK_S = 0.1  # how often progress() and stopped() are called
_GRACE_S = 3.0  # how long a tool may take to print its results once it is asked to end
_PIECE = 1 << 16
_HEAD, _TAIL = 1 << 16, 1 << 20  # what is kept of a stream: a tool's results stand at its end

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38  # linux/prctl.h


class StopReason(StrEnum):
    """The reason why a run ended: by itself, or ended by us."""

    ITSELF = "itself"
    TIMEOUT = "timeout"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ToolOutput:
    """The output of a tool. `status` is its exit status, negative for the signal that killed it; `duration_s` from its start to
    its end; `cut_bytes` of its output weren't kept, in the middle of what it printed."""

    stdout: str
    stderr: str
    status: int
    duration_s: float
    ended: StopReason = StopReason.ITSELF
    cut_bytes: int = 0


@dataclass
class _Stream:
    """A stream's beginning and end."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    cut: int = 0

    def add(self, piece: bytes) -> None:
        room = max(0, _HEAD - len(self.head))
        self.head += piece[:room]
        self.tail += piece[room:]
        extra = max(0, len(self.tail) - _TAIL)
        self.cut += extra
        del self.tail[:extra]

    def text(self) -> str:
        return (self.head + self.tail).decode(errors="replace")


def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    account: Account | None = None,
    progress: Callable[[float], None] | None = None,
    stopped: Callable[[], bool] | None = None,
) -> ToolOutput:
    """Runs the command until it ends, at most `timeout_s`, as another user where one is given; LoadError where it can't be
    started.

    `progress` is called several times a second with the seconds since the start. When `stopped` says so, or at
    KeyboardInterrupt, the tool is interrupted as by Ctrl-C, so that it may print its results, and what it printed comes back.
    An exception of `progress` ends the tool and is raised.
    """
    began = time.monotonic()
    process = _start(command, account)
    streams = (_Stream(), _Stream())
    try:
        ended = _follow(process, streams, began, timeout_s, progress, stopped)
    finally:
        _end(process, streams)
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
    out, err = streams
    return ToolOutput(out.text(), err.text(), process.returncode, time.monotonic() - began, ended, out.cut + err.cut)


def _start(command: Sequence[str], account: Account | None) -> subprocess.Popen[bytes]:
    ids: dict[str, Any] = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            bufsize=0,
            start_new_session=True,  # Ctrl-C at the terminal is ours to pass on
            preexec_fn=end_with_us,
            **ids,
        )
    except OSError as error:
        who = f" as user {account.uid} (--user names another)" if account else ""
        raise LoadError(f"{command[0]} can't be run{who}: {error.strerror}.") from None


def end_with_us() -> None:
    """Runs in the child before it executes the program. Lets it receive signals that a tracing command has blocked or a shell's
    background job ignores, has the kernel end it with its parent, and keeps it from gaining rights by what it runs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _follow(
    process: subprocess.Popen[bytes],
    streams: tuple[_Stream, _Stream],
    began: float,
    timeout_s: float,
    progress: Callable[[float], None] | None,
    stopped: Callable[[], bool] | None,
) -> StopReason:
    """Reads until the tool has ended or has to be ended; returns which of these."""
    look = _Reader(process, streams)
    try:
        while not look.over():
            now = time.monotonic() - began
            if progress:
                progress(now)
            if stopped and stopped():
                return StopReason.STOPPED
            if now >= timeout_s:
                return StopReason.TIMEOUT
            look.wait(min(LOOK_S, timeout_s - now))
    except KeyboardInterrupt:
        return StopReason.STOPPED
    finally:
        look.close()
    return StopReason.ITSELF


class _Reader:
    """Takes what a process prints."""

    def __init__(self, process: subprocess.Popen[bytes], streams: tuple[_Stream, _Stream]) -> None:
        self._process, self._selector = process, selectors.DefaultSelector()
        for pipe, stream in zip((process.stdout, process.stderr), streams, strict=True):
            if pipe and not pipe.closed:
                self._selector.register(pipe, selectors.EVENT_READ, stream)

    def over(self) -> bool:
        """Whether the process has ended; processes that it left behind aren't waited for."""
        if self._process.poll() is None:
            return False
        self.wait(0)
        return True

    def wait(self, timeout_s: float) -> None:
        """Reads what is there or arrives within the time; once all streams are closed, waits for the end of the process."""
        if not self._selector.get_map():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
            return
        for key, _ in self._selector.select(timeout_s):
            pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
            piece = os.read(pipe.fileno(), _PIECE)
            if piece:
                key.data.add(piece)
            else:
                self._selector.unregister(pipe)

    def close(self) -> None:
        self._selector.close()


def _end(process: subprocess.Popen[bytes], streams: tuple[_Stream, _Stream]) -> None:
    """Ends the process if it hasn't ended yet, with ever stronger signals, and reads what it prints meanwhile."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        process.send_signal(number)
        look, until = _Reader(process, streams), time.monotonic() + _GRACE_S
        while not look.over() and time.monotonic() < until:
            look.wait(LOOK_S)
        look.close()
    process.wait()
