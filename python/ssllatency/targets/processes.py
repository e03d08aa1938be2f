# SPDX-License-Identifier: Apache-2.0
"""The processes of this machine and their family tree, from /proc/PID/stat, which every user may read.

Processes come and go while the list is made: one that vanishes on the way is left out, never an error.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError, raise_if_too_many

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process as it was when the list was made.

    `comm` is its name, of at most 15 bytes for a program; bytes that aren't UTF-8 appear as \\xNN. `start_time` counts
    clock ticks since boot: with the PID it names a process for good, for PIDs are used again.
    """

    pid: int
    ppid: int
    comm: str
    start_time: int


def all_pids(proc: Path = PROC) -> list[int]:
    """The PID of every process, in no order; SsllatencyError where `proc` can't be listed at all."""
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208
    except OSError as error:
        raise_if_too_many(error, str(proc))
        raise SsllatencyError(
            f"Can't list the processes in {proc} ({error.strerror}): mount it (mount -t proc proc /proc)."
        ) from error


def all_processes(proc: Path = PROC) -> list[Process]:
    """Every process, ascending by PID; SsllatencyError where `proc` can't be listed at all."""
    processes = (_read_process(f"{proc}/{pid}/stat") for pid in all_pids(proc))
    return sorted((process for process in processes if process), key=lambda process: process.pid)


def descendants(pid: int, processes: Iterable[Process]) -> list[Process]:
    """The children of `pid`, their children and so on, ascending by PID, without `pid` itself."""
    children = defaultdict(list)
    for process in processes:
        children[process.ppid].append(process)
    offspring: dict[int, Process] = {}
    waiting = deque([pid])
    while waiting:
        # The list isn't taken at one instant, so a PID used again may close a ring: each process counts once.
        new = [child for child in children[waiting.popleft()] if child.pid != pid and child.pid not in offspring]
        offspring.update((child.pid, child) for child in new)
        waiting.extend(child.pid for child in new)
    return [offspring[key] for key in sorted(offspring)]


def exists(pid: int, proc: Path = PROC) -> bool:
    """Whether process (or thread) `pid` is there now."""
    return (proc / str(pid) / "stat").exists()


def root_of_any(pids: Iterable[int]) -> str | None:
    """The root of the first of these processes that is there now; None where none is."""
    return next((root_of(pid) for pid in pids if exists(pid)), None)


def root_of(pid: int, proc: Path = PROC) -> str:
    """The path, as we see it, of the root of a process's file system."""
    return str(proc / str(pid) / "root")


def process_of(pid: int, proc: Path = PROC) -> Process | None:
    """One process; None where it isn't there."""
    return _read_process(f"{proc}/{pid}/stat")


def _read_process(stat: str) -> Process | None:
    """Without pathlib: a machine may have thousands of them."""
    try:
        with open(stat, "rb", buffering=0) as file:  # noqa: PTH123
            return _parse_stat(file.read())
    except (OSError, ValueError, IndexError):
        return None


def _parse_stat(line: bytes) -> Process:
    # The name stands in parentheses and may itself hold spaces and parentheses: the last one closes it.
    opening, closing = line.index(b"("), line.rindex(b")")
    fields = line[closing + 1 :].split()
    return Process(
        pid=int(line[:opening]),
        ppid=int(fields[1]),
        comm=line[opening + 1 : closing].decode(errors="backslashreplace"),
        start_time=int(fields[19]),
    )
