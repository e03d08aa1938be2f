# SPDX-License-Identifier: Apache-2.0
"""The processor time of threads, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_UTIME, _STIME = 13 - 2, 14 - 2  # fields 14 and 15 of proc_pid_stat(5), counted from the one after the name


def thread_cpu_s(pid: int, tid: int) -> float | None:
    """Seconds that a thread has run so far, None where there is no such thread."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[_UTIME]) + int(fields[_STIME])) / os.sysconf("SC_CLK_TCK")
    return None


def threads_cpu_s(pids: Iterable[int]) -> dict[int, float]:
    """The same of all threads of these processes, by thread."""
    seconds_by_tid: dict[int, float] = {}
    for pid in pids:
        with suppress(OSError):
            for tid in (int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()):
                seconds = thread_cpu_s(pid, tid)
                if seconds is not None:
                    seconds_by_tid[tid] = seconds
    return seconds_by_tid
