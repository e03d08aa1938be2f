# SPDX-License-Identifier: Apache-2.0
"""Turns the target options of a command into processes. Several options select the union."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ssllatency.errors import Absent, SsllatencyError
from ssllatency.targets.containers.cgroups import cgroup_folder, cgroup_members
from ssllatency.targets.containers.container import in_container
from ssllatency.targets.maps import Identity, Problem, fail, mapped_files
from ssllatency.targets.opening import file_identity
from ssllatency.targets.processes import PROC, Process, all_processes, descendants

# The kernel keeps this many bytes of a name (TASK_COMM_LEN less the final zero).
_COMM_BYTES = 15


@dataclass(frozen=True)
class Selection:
    """Whom to trace: `pids` with their children, those of one of the names `comms`, those that map one of the files
    `libraries`, those in `container` (its ID, the beginning of that, or its name), those in the cgroup `cgroup` and below, or
    everything."""

    pids: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    everything: bool = False
    container: str | None = None
    cgroup: str | None = None


def select(selection: Selection, proc: Path = PROC, *, problem: Problem = fail, nobody: bool = False) -> list[Process]:
    """The processes selected now, ascending by PID.

    A process named by its PID brings its children, and theirs. The calling process itself is selected by its PID only.
    `problem` takes the SsllatencyError of a process that may not be searched for `libraries`; if it returns, the search goes
    on without. SsllatencyError where a PID isn't there; Absent where no process maps a file, has the name, or is in the cgroup
    or container, unless `nobody` is allowed.
    """
    if selection == Selection():
        raise SsllatencyError(
            "Nothing to trace is named: add -p PID, --comm NAME, --cgroup PATH, --container ID, --library FILE or --all.",
            status=2,
        )
    processes = all_processes(proc)
    others = [process for process in processes if process.pid != os.getpid()]
    chosen = [member for pid in selection.pids for member in _family(pid, processes, proc)]
    for comm in selection.comms:
        chosen += _named(comm, others, nobody=nobody)
    if selection.cgroup is not None:
        chosen += _grouped(selection.cgroup, others, proc, nobody=nobody)
    for library in selection.libraries:
        chosen += _mapping(library, others, proc, problem, nobody=nobody)
    if selection.container is not None:
        chosen += _contained(selection.container, others, proc, nobody=nobody)
    if selection.everything:
        chosen += others
    return sorted(set(chosen), key=lambda process: process.pid)


def members(selection: Selection, proc: Path = PROC) -> dict[int, bool]:
    """The processes that `pids`, `comms`, `container` and `cgroup` select now, by PID; true for one selected by its name or
    cgroup only."""
    processes = all_processes(proc)
    others = [process for process in processes if process.pid != os.getpid()]
    grouped = cgroup_members(Path(selection.cgroup)) if selection.cgroup else set()
    named = {kept_comm(comm) for comm in selection.comms}
    targets = {process.pid: True for process in others if process.comm in named or process.pid in grouped}
    kin = {member.pid for pid in selection.pids for member in descendants(pid, processes)} | set(selection.pids)
    if selection.container is not None:
        with suppress(SsllatencyError):  # gone
            kin |= {process.pid for process in in_container(selection.container, others, proc)}
    return targets | {process.pid: False for process in processes if process.pid in kin}


def _family(pid: int, processes: Iterable[Process], proc: Path) -> list[Process]:
    head = [process for process in processes if process.pid == pid]
    if not head:
        raise _absent(pid, proc)
    return head + descendants(pid, processes)


def _absent(pid: int, proc: Path) -> SsllatencyError:
    leader = _leader(pid, proc)
    if leader not in (None, pid):
        return SsllatencyError(f"{pid} is a thread of process {leader}: name the process (-p {leader}).")
    return SsllatencyError(f"There is no process {pid}: check the PID (pgrep -a nginx shows candidates).")


def _leader(tid: int, proc: Path) -> int | None:
    """The process that thread `tid` belongs to: /proc doesn't list threads, but has a folder for each."""
    try:
        text = (proc / str(tid) / "status").read_text(errors="replace")
    except OSError:
        return None
    return next((int(line[5:]) for line in text.splitlines() if line.startswith("Tgid:")), None)


def kept_comm(comm: str) -> str:
    """The part of a name that the kernel keeps, as in Process.comm."""
    return comm.encode()[:_COMM_BYTES].decode(errors="backslashreplace")


def _grouped(cgroup: str, processes: Iterable[Process], proc: Path, *, nobody: bool) -> list[Process]:
    folder = cgroup_folder(cgroup, proc, nobody=nobody)
    inside = cgroup_members(folder)
    grouped = [process for process in processes if process.pid in inside]
    if not grouped and not nobody:
        raise Absent(f"No process is in the cgroup {folder}: check its file cgroup.procs.")
    return grouped


def _named(comm: str, processes: Iterable[Process], *, nobody: bool) -> list[Process]:
    kept = kept_comm(comm)
    named = [process for process in processes if process.comm == kept]
    if not named and not nobody:
        raise Absent(f"No process is named {comm}: check the name (ps -eo pid,comm shows them all).")
    return named


def _contained(container: str, processes: Iterable[Process], proc: Path, *, nobody: bool) -> list[Process]:
    try:
        return in_container(container, processes, proc)
    except Absent:
        if nobody:
            return []
        raise


def _mapping(library: str, processes: Iterable[Process], proc: Path, problem: Problem, *, nobody: bool) -> list[Process]:
    wanted = file_identity(library)
    users = [process for process in processes if wanted in _identities(process.pid, proc, problem)]
    if not users and not nobody:
        raise Absent(f"No process maps {library}: check which copy the server loads (grep libssl /proc/PID/maps).")
    return users


def _identities(pid: int, proc: Path, problem: Problem) -> set[Identity]:
    try:
        return {file.identity for file in mapped_files(pid, proc)}
    except SsllatencyError as error:
        problem(error)
        return set()
