# SPDX-License-Identifier: Apache-2.0
"""Uprobes by events of tracefs, for who may write there and lacks CAP_SYS_ADMIN, for which updated kernels ask where a uprobe
is a perf event of its own ("perf: Revert to requiring CAP_SYS_ADMIN for uprobes", July 2025).

A definition in tracefs sets no breakpoint: the perf event that enables it does, and goes with its descriptor, whichever way the
tracer ends. Definitions themselves stay until they are removed. So a process that does nothing else holds their names, and
removes them when the tracer is gone, killed or not. Each probe has a definition of its own, as perf events of one definition
would all run each other's programs.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ssllatency.forked import close_others, drop_capabilities, forbid_inspection, unmap_shared
from ssllatency.host.kernel_text import kernel_text
from ssllatency.own_processes import helpers

PLACES = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_TRACEPOINT = 2  # PERF_TYPE_TRACEPOINT
_PERF_EVENT_SIZE = 72  # struct perf_event_attr, version 1
# Until the perf events of a tracer that has ended are gone, which takes 0.1 s for each: at least, for each, at most.
_PATIENCE_S, _PATIENCE_FOR_EACH_S, _MOST_PATIENCE_S = 120.0, 0.3, 3600.0
_PAUSE_S = 0.3
_MOST_UNUSED = 512  # definitions: their removal keeps perf events waiting, so it isn't done as long as the tracer works
_numbers = itertools.count(1)


class Events:
    """The definitions of this process in a tracefs. OSError where they can't be written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Unlike anybody's: tracefs is the host's, PIDs are a namespace's and come again, and what is defined by a name that is
        # there is added to that event, at whatever place it has.
        self._group = f"ssllatency_{os.getpid()}_{os.urandom(6).hex()}"
        group = folder / "events" / self._group
        if group.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(group))
        # Never truncated: that would remove the events of all others.
        self._definitions = os.open(folder / "uprobe_events", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._remover = _start_remover(self._definitions)

    def define(self, path: str, offset: int, *, at_return: bool) -> tuple[str, bytes]:
        """A new definition at that place: its name, and the struct perf_event_attr that enables it. OSError where the kernel
        refuses. `path` has no space."""
        name = f"{self._group}/site_{next(_numbers)}"
        _tell(self._remover, f"+{name}\n")  # before it is there: who is killed in between leaves none
        os.write(self._definitions, f"{'r' if at_return else 'p'}:{name} {path}:{offset:#x}\n".encode())
        number = int(kernel_text(self._folder / "events" / name / "id"))
        return name, struct.pack("<IIQ", _TRACEPOINT, _PERF_EVENT_SIZE, number).ljust(_PERF_EVENT_SIZE, b"\0")

    def remove(self, name: str) -> None:
        """Has the definition removed, now that its perf event is closed: when there are many, or at the end. Returns at
        once."""
        _tell(self._remover, f"-{name}\n")


class _Opened:
    """The events of this process, once they were asked for."""

    events: Events | None = None
    pid = 0


def events() -> Events | None:
    """This process's, by the first tracefs that it may write to; None where there is none."""
    if _Opened.events is None or _Opened.pid != os.getpid():
        _Opened.events, _Opened.pid = _first_writable(), os.getpid()
    return _Opened.events


def _first_writable() -> Events | None:
    for place in PLACES:
        with suppress(OSError):
            return Events(place)
    return None


def _tell(remover: int, line: str) -> None:
    with suppress(BrokenPipeError):  # it was killed: what it would have removed stays, without a breakpoint
        os.write(remover, line.encode())


def _start_remover(definitions: int) -> int:
    """Start the process that removes definitions: the end of a pipe by which it hears of them, and that they are no longer used
    once it is closed. OSError where none can be started."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    number, telling = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _leave(reading, definitions, telling)
    os.close(reading)
    os.close(telling)
    with os.fdopen(number, "rb") as told:
        remover = told.read()
    os.waitpid(child, 0)
    if not remover:
        os.close(writing)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    helpers.add(int(remover))  # no target, though its name is the tracer's
    return writing


def _leave(reading: int, definitions: int, telling: int) -> NoReturn:
    """In a child: its child, for whose end nobody waits, removes definitions. Tells its PID."""
    try:
        remover = os.fork()
        if remover:
            os.write(telling, str(remover).encode())
        else:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            close_others({reading, definitions})  # for the end of others somebody may wait
            _give_up()
            _remove_as_told(reading, definitions)
    finally:
        os._exit(0)


def _give_up() -> None:
    """All but the two descriptors, for which no capability is asked any more."""
    unmap_shared()
    forbid_inspection()  # whoever may not define uprobes mustn't get at the descriptor
    drop_capabilities()


def _remove_as_told(reading: int, definitions: int) -> None:
    used: dict[str, None] = {}
    unused: list[str] = []
    rest = b""
    while part := os.read(reading, 1 << 16):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            name = line[1:].decode()
            if line.startswith(b"+"):
                used[name] = None
            elif name in used:
                del used[name]
                unused.append(name)
        if len(unused) > _MOST_UNUSED:
            unused = [name for name in unused if not _is_removed(definitions, name)]
    left = [*unused, *used]
    over = time.monotonic() + _patience_s(len(left))
    while left and time.monotonic() < over:
        left = [name for name in left if not _is_removed(definitions, name)]
        time.sleep(_PAUSE_S if left else 0)


def _patience_s(definitions: int) -> float:
    return min(max(_PATIENCE_S, definitions * _PATIENCE_FOR_EACH_S), _MOST_PATIENCE_S)


def _is_removed(definitions: int, name: str) -> bool:
    """Whether the definition is gone now. It isn't while a perf event uses it, which the kernel may close later."""
    try:
        os.write(definitions, f"-:{name}\n".encode())
    except OSError as error:
        return error.errno != errno.EBUSY
    return True
