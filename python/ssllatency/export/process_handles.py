# SPDX-License-Identifier: Apache-2.0
"""Handles on processes (pidfd_open(2)). As long as the process of a handle hasn't ended, its PID is nobody else's, however much
it has run: one question about all of them takes less than reading a file of each."""

from __future__ import annotations

import os
import resource
import select

_MOST = 1024
_SHARE = 8  # of the files that may be open: handles take no more than this part of them


class ProcessHandles:
    """The handles of at most so many processes, by PID; of others, and where the kernel gives none, nothing is known."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._by_pid: dict[int, int] = {}
        self._pids: dict[int, int] = {}  # by handle
        self._ends: select.epoll | None = None

    def __len__(self) -> int:
        return len(self._by_pid)

    def open(self, pid: int) -> None:
        """Opens one on the process that has the PID now, if there is none: what is read of a process between this and an answer
        of `lives` is of that one, if it lives."""
        if pid in self._by_pid or len(self) >= min(self._most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE):
            return
        try:
            handle = os.pidfd_open(pid)
        except (OSError, AttributeError):  # a Python that was built on an old kernel has no such function
            return
        try:
            self._ends = self._ends or select.epoll()
            self._ends.register(handle, select.EPOLLIN)
        except OSError:
            os.close(handle)
            return
        self._by_pid[pid], self._pids[handle] = handle, pid

    def lives(self, pid: int) -> bool:
        """Whether the process with a handle by that PID hasn't ended; False where there is none."""
        if pid not in self._by_pid:
            return False
        assert self._ends  # since there is one
        for handle, _ in self._ends.poll(0):
            self.close(self._pids[handle])
        return pid in self._by_pid

    def close(self, pid: int) -> None:
        """Closes that of a PID, if there is one."""
        handle = self._by_pid.pop(pid, None)
        if handle is not None and self._ends:
            del self._pids[handle]
            self._ends.unregister(handle)  # closing it does so only where no child that was forked has it, too
            os.close(handle)
