# SPDX-License-Identifier: Apache-2.0
"""The processor time of threads and processes, from /proc and the clocks that the kernel keeps of each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.engines.clock import process_clock_ns

# Fields of proc_pid_stat(5), where the first has the number 1, counted from the one after the name.
_PPID, _UTIME, _STIME, _CUTIME, _CSTIME, _STARTTIME = (number - 3 for number in (4, 14, 15, 16, 17, 22))


def _fields(stat: str) -> list[bytes]:
    """The fields of the file after the name, which may hold anything. Without pathlib: there may be hundreds of them."""
    with open(stat, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()


def thread_cpu_s(pid: int, tid: int) -> float | None:
    """Seconds that a thread has run so far, None where there is no such thread."""
    with suppress(OSError, IndexError, ValueError):
        fields = _fields(f"/proc/{pid}/task/{tid}/stat")
        return (int(fields[_UTIME]) + int(fields[_STIME])) / os.sysconf("SC_CLK_TCK")
    return None


def threads_cpu_s(pids: Iterable[int]) -> dict[int, float]:
    """Seconds that each thread of these processes has run so far, by thread."""
    seconds_by_tid: dict[int, float] = {}
    for pid in pids:
        with suppress(OSError):
            for tid in (int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()):
                seconds = thread_cpu_s(pid, tid)
                if seconds is not None:
                    seconds_by_tid[tid] = seconds
    return seconds_by_tid


@dataclass
class _Process:
    """The times of one process, in nanoseconds: what it had run, and what its children had that it has waited for, when it
    was first seen and when it was last seen. `started`: in ticks."""

    parent: int
    started: int
    first: tuple[int, int]
    last: tuple[int, int]

    @property
    def own_ns(self) -> int:
        return self.last[0] - self.first[0]

    @property
    def children_ns(self) -> int:
        return self.last[1] - self.first[1]


class ProcessTimes:
    """The processor time that processes have used since `begin`, or since they started if that was later.

    One that has ended counts by what its parent was told of it, where that is one of them too; else as far as it was last seen.
    """

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._ended_ns = 0
        self._began_ticks = 0
        self._total_ns: int | None = 0  # None: to be added up anew

    def begin(self, pids: Iterable[int]) -> None:
        """Counts from now on."""
        self._began_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
        self.see(pids)

    def see(self, pids: Iterable[int]) -> None:
        """Takes in those of these that are new, and looks at all again."""
        for pid in dict.fromkeys((*pids, *self._processes)):
            process = self._processes.get(pid)
            own_ns = process_clock_ns(pid)
            if process and own_ns == process.last[0]:
                continue  # nor has it waited for a child: most processes rest, and reading what they did takes long
            self._total_ns = None
            seen = None if own_ns is None else _look(pid, own_ns)
            if seen is None:
                self._end(pid)
                continue
            parent, started, now = seen
            if process and process.started != started:  # another one has its PID
                self._end(pid)
            if pid not in self._processes:
                first = now if started < self._began_ticks else (0, 0)
                self._processes[pid] = _Process(parent, started, first, now)
            self._processes[pid].last = now

    def _end(self, pid: int) -> None:
        process = self._processes.pop(pid, None)
        if process is None:
            return
        if process.parent in self._processes:  # which counts the whole of it as its children's time
            self._ended_ns -= process.first[0]
        else:
            self._ended_ns += process.own_ns + process.children_ns

    def of(self, pid: int) -> int | None:
        """The nanoseconds of one process, without its children; None where it isn't there, or wasn't seen."""
        process = self._processes.get(pid)
        return process.own_ns if process else None

    def clock_ns(self, pid: int) -> int | None:
        """The nanoseconds that a process has run since its start: of one that `see` has looked at, as they were then."""
        process = self._processes.get(pid)
        return process.last[0] if process else process_clock_ns(pid)

    @property
    def total_ns(self) -> int:
        """Those of all."""
        if self._total_ns is None:
            of_alive = sum(process.own_ns + process.children_ns for process in self._processes.values())
            self._total_ns = self._ended_ns + of_alive
        return self._total_ns


def _look(pid: int, own_ns: int) -> tuple[int, int, tuple[int, int]] | None:
    """The process's parent, when it started in clock ticks since boot, and the nanoseconds that it and its children have run.
    None where there is no such process."""
    with suppress(OSError, IndexError, ValueError):
        fields = _fields(f"/proc/{pid}/stat")
        children = (int(fields[_CUTIME]) + int(fields[_CSTIME])) * 10**9 // os.sysconf("SC_CLK_TCK")
        return int(fields[_PPID]), int(fields[_STARTTIME]), (own_ns, children)
    return None
