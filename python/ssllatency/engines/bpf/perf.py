# SPDX-License-Identifier: Apache-2.0
"""Uprobes by perf event with a cookie, by system calls alone, for engines without libbpf.

The file is opened by the kernel only: the probe goes when its descriptors are closed. Since Linux 5.15 (commit 82e6b1eee6a8) a
perf event's link carries a cookie. Where the kernel asks for CAP_SYS_ADMIN for a uprobe that is a perf event of its own, one of
tracefs is enabled instead (tracefs.py); else nothing is written there.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

from ssllatency.c_library import c_library
from ssllatency.engines.bpf import kernel, tracefs
from ssllatency.engines.bpf.loadable import Closable
from ssllatency.host.kernel_text import kernel_text

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_UPROBE_TYPE = Path("/sys/bus/event_source/devices/uprobe/type")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_AT_RETURN = 1  # format/retprobe: config:0
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_BPF_LINK_CREATE, _BPF_PERF_EVENT = 28, 41


class PerfProbe:
    """A probe: the link of the program to the perf event, and the event; and what forgets its definition in tracefs, where it
    has one."""

    def __init__(self, descriptors: list[int], forget: Callable[[], None] | None = None) -> None:
        self._descriptors, self._forget = descriptors, forget

    def close(self) -> None:
        """Detaches; may be called twice. Takes the kernel about 0.1 s, where no other process has the descriptors."""
        while self._descriptors:
            os.close(self._descriptors.pop(0))
        if self._forget:
            self._forget()
        self._forget = None


def leave_to_the_kernel(probes: Sequence[Closable]) -> None:
    """Closes the probes without waiting for their end: a process that does nothing else holds them while the kernel removes
    them, one after the other. They are gone with it, after about 0.1 s for each."""
    child = os.fork()
    if child == 0:
        _end_slowly()
    for probe in probes:
        probe.close()
    os.waitpid(child, 0)


def _end_slowly() -> NoReturn:
    """In a child: leaves a process that has all descriptors but the standard streams, for whose end somebody may wait."""
    try:
        os.setsid()
        if os.fork() == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
    finally:
        os._exit(0)


@cache
def _uprobe_type() -> int:
    return int(kernel_text(_UPROBE_TYPE))


def paranoid_level() -> int:
    """The setting kernel.perf_event_paranoid; 0 where it can't be read."""
    try:
        return int(kernel_text(_PARANOID))
    except (OSError, ValueError):
        return 0


def open_uprobe(path: str, offset: int, pid: int, *, at_return: bool) -> int:
    """The perf event of one site; OSError where the kernel refuses."""
    name = ctypes.create_string_buffer(path.encode())
    # struct perf_event_attr, version 1: type, size, config, …, config1 (the path), config2 (the offset).
    size = 72
    head = struct.pack("<IIQ", _uprobe_type(), size, _AT_RETURN if at_return else 0)
    attributes = head.ljust(56, b"\0") + struct.pack("<QQ", ctypes.addressof(name), offset)
    return open_event(attributes, pid=pid, cpu=0 if pid == -1 else -1)


def open_event(attributes: bytes, *, pid: int, cpu: int) -> int:
    """The descriptor of a perf event; `attributes` is a struct perf_event_attr. OSError where the kernel refuses."""
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    call = c_library().syscall
    event = int(call(_PERF_EVENT_OPEN[os.uname().machine], buffer, pid, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC)))
    if event < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return event


def _enable_event(
    events: tracefs.Events, path: str, offset: int, pid: int, *, at_return: bool
) -> tuple[int, Callable[[], None]]:
    """The perf event of a site that tracefs defines, and what forgets the definition; OSError where the kernel refuses."""
    file = os.open(path, os.O_PATH | os.O_CLOEXEC)  # a name without the spaces that the path may have
    try:
        name, attributes = events.define(f"/proc/self/fd/{file}", offset, at_return=at_return)
    finally:
        os.close(file)
    try:
        return open_event(attributes, pid=pid, cpu=0 if pid == -1 else -1), partial(events.remove, name)
    except OSError:
        events.remove(name)
        raise


def attach(program: int, path: str, offset: int, cookie: int, *, pid: int = -1, at_return: bool = False) -> PerfProbe:
    """Attaches the program with that descriptor at `offset` of the file at `path`; `pid` -1 is every process.

    OSError where the kernel refuses.
    """
    forget = None
    try:
        event = open_uprobe(path, offset, pid, at_return=at_return)
    except PermissionError:
        events = tracefs.events()
        if events is None:
            raise
        event, forget = _enable_event(events, path, offset, pid, at_return=at_return)
    link = kernel.bpf(_BPF_LINK_CREATE, struct.pack("<IIIIQ", program, event, _BPF_PERF_EVENT, 0, cookie))
    if link < 0:
        PerfProbe([event], forget).close()
        raise OSError(-link, os.strerror(-link))
    return PerfProbe([link, event], forget)
