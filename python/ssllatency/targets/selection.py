# SPDX-License-Identifier: Apache-2.0
"""Turns the target options of a command into processes. Several options select the union."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.errors import Absent, SsllatencyError, did_you_mean
from ssllatency.host.kernel_text import kernel_fields, number_in
from ssllatency.own_processes import own_pids
from ssllatency.targets.containers.cgroups import cgroup_folder, cgroup_members, unit_folder
from ssllatency.targets.containers.container import in_container
from ssllatency.targets.containers.pods import in_pod
from ssllatency.targets.identity import Identity
from ssllatency.targets.maps import Problem, fail, mapped_files
from ssllatency.targets.opening import file_identity
from ssllatency.targets.processes import PROC, Process, all_processes, descendants
from ssllatency.targets.sockets.listening import Owners, Ports

# The kernel keeps this many bytes of a name (TASK_COMM_LEN less the final zero).
_COMM_BYTES = 15
OPTIONS = "-p PID, --port PORT, --unit NAME, --comm NAME, --cgroup PATH, --container ID, --pod NAME, --library FILE or --all"


@dataclass(frozen=True)
class Selection:
    """The processes to trace: `pids` with their children, those of one of the names `comms`, those that map one of the files
    `libraries`, those in `container` (its ID, the beginning of that, or its name), those in the cgroup `cgroup` and below,
    those of systemd's unit `unit`, those that listen on one of the ports `ports` with their children, those in the containers
    of the Kubernetes pod `pod` (its name, NAMESPACE/NAME or UID), or everything."""

    pids: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    everything: bool = False
    container: str | None = None
    cgroup: str | None = None
    unit: str | None = None
    ports: tuple[int, ...] = ()
    pod: str | None = None

    @property
    def lasts(self) -> bool:
        """Whether it names what may be empty for a while, as a server that is restarted: a process may come at any time."""
        return bool(self.comms or self.ports) or self.cgroup is not None or self.pod is not None


def select(selection: Selection, proc: Path = PROC, *, problem: Problem = fail, nobody: bool = False) -> list[Process]:
    """The processes selected now, ascending by PID.

    A process named by its PID brings its children, and theirs. The calling process itself is selected by its PID only.
    `problem` takes the SsllatencyError of a process that may not be searched for `libraries`; if it returns, the search goes
    on without. SsllatencyError where a PID isn't there; Absent where no process maps a file, has the name, or is in the cgroup
    or container, unless `nobody` is allowed.
    """
    if selection == Selection():
        raise SsllatencyError(
            f"Nothing to trace is named: add {OPTIONS}.",
            status=2,
        )
    selection = with_folder(selection, proc, nobody=nobody)
    processes = all_processes(proc)
    others = _others(processes)
    chosen = [member for pid in selection.pids for member in _family(pid, processes, proc)]
    for comm in selection.comms:
        chosen += _named(comm, others, nobody=nobody)
    if selection.cgroup is not None:
        chosen += _grouped(Path(selection.cgroup), others, nobody=nobody)
    for library in selection.libraries:
        chosen += _mapping(library, others, proc, problem, nobody=nobody)
    if selection.container is not None:
        chosen += _contained(selection.container, others, proc, nobody=nobody)
    if selection.pod is not None:
        chosen += _contained(selection.pod, others, proc, nobody=nobody, find=in_pod)
    if selection.ports:
        chosen += _listening(selection.ports, others, proc, nobody=nobody)
    if selection.everything:
        chosen += others
    return sorted(set(chosen), key=lambda process: process.pid)


def with_folder(selection: Selection, proc: Path = PROC, *, nobody: bool = False) -> Selection:
    """The selection with its cgroup, or that of its unit, given by its folder. Absent where it isn't there, unless `nobody`."""
    if selection.unit is not None:
        return replace(selection, unit=None, cgroup=str(unit_folder(selection.unit, proc, nobody=nobody)))
    if selection.cgroup is not None:
        return replace(selection, cgroup=str(cgroup_folder(selection.cgroup, proc, nobody=nobody)))
    return selection


class Members:
    """The processes that a selection's `pids`, `comms`, `container`, `cgroup`, `ports` and `pod` select, at each call those of
    that moment."""

    def __init__(self, selection: Selection) -> None:
        self._selection, self._ports = selection, Ports(selection.ports)

    def __call__(self, proc: Path = PROC) -> dict[int, bool]:
        """By PID; true for one selected by its name or cgroup only."""
        selection, processes = self._selection, all_processes(proc)
        others = _others(processes)
        grouped = cgroup_members(Path(selection.cgroup)) if selection.cgroup else set()
        named = {kept_comm(comm) for comm in selection.comms}
        targets = {process.pid: True for process in others if process.comm in named or process.pid in grouped}
        heads = {*selection.pids, *self._owners(others, proc)}
        kin = heads | {member.pid for pid in heads for member in descendants(pid, processes)}
        for find, name in ((in_container, selection.container), (in_pod, selection.pod)):
            with suppress(SsllatencyError):  # gone
                kin |= {process.pid for process in find(name, others, proc)} if name is not None else set()
        return targets | {process.pid: False for process in processes if process.pid in kin}

    def _owners(self, processes: Iterable[Process], proc: Path) -> set[int]:
        if not self._selection.ports:
            return set()
        return set().union(*self._ports.owners(processes, proc).by_port.values())


def members(selection: Selection, proc: Path = PROC) -> dict[int, bool]:
    """The members of this moment."""
    return Members(selection)(proc)


def _others(processes: Iterable[Process]) -> list[Process]:
    """All but those that are this command."""
    own = own_pids()
    return [process for process in processes if process.pid not in own]


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
        return number_in(kernel_fields(proc / str(tid) / "status").get("Tgid", ""))
    except OSError:
        return None


def kept_comm(comm: str) -> str:
    """The part of a name that the kernel keeps, as in Process.comm."""
    return comm.encode(errors="surrogateescape")[:_COMM_BYTES].decode(errors="backslashreplace")


def _grouped(folder: Path, processes: Iterable[Process], *, nobody: bool) -> list[Process]:
    inside = cgroup_members(folder)
    grouped = [process for process in processes if process.pid in inside]
    if not grouped and not nobody:
        raise Absent(f"No process is in the cgroup {folder}: check its file cgroup.procs.")
    return grouped


def _named(comm: str, processes: Iterable[Process], *, nobody: bool) -> list[Process]:
    kept = kept_comm(comm)
    named = [process for process in processes if process.comm == kept]
    if not named and not nobody:
        raise Absent(
            f"No process is named {comm}: {did_you_mean(kept, (process.comm for process in processes))}check the name"
            " (ps -eo pid,comm shows them all)."
        )
    return named


def _listening(ports: Iterable[int], processes: Sequence[Process], proc: Path, *, nobody: bool) -> list[Process]:
    owners = Ports(ports).owners(processes, proc)
    empty = next((port for port, pids in owners.by_port.items() if not pids), None)
    if empty is not None and not nobody:
        raise _nobody_listens(empty, owners)
    return [member for pid in set().union(*owners.by_port.values()) for member in _family(pid, processes, proc)]


def _nobody_listens(port: int, owners: Owners) -> SsllatencyError:
    if owners.holders:
        holder = owners.holders[0]
        return Absent(
            f"{holder.comm} (PID {holder.pid}) holds port {port} for another process: name that one (`ssllatency targets`"
            " lists what does TLS)."
        )
    unseen = f" ({owners.hidden} of them couldn't be inspected)" if owners.hidden else ""
    return Absent(f"No process listens on port {port}{unseen}: `ssllatency targets` lists the ports of what does TLS.")


def _contained(
    name: str, processes: Sequence[Process], proc: Path, *, nobody: bool, find: Callable[..., list[Process]] = in_container
) -> list[Process]:
    try:
        return find(name, processes, proc)
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
