# SPDX-License-Identifier: Apache-2.0
"""Finds the files to trace: the TLS code that processes map, each file once however many processes share it.

Every file that is mapped as code is a candidate, whatever its name: OpenSSL is linked into programs and into libraries of other
names. The caller's `holds` decides by the contents which of them contain TLS, and its `recognise` determines what such a file
is.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ssllatency.errors import SsllatencyError
from ssllatency.stacks.file_names import has_library_name, is_usual
from ssllatency.stacks.registry import LIBRARIES, is_called
from ssllatency.targets.identity import Identity, MappedFile
from ssllatency.targets.maps import Problem, executable_path, fail, mapped_files
from ssllatency.targets.opening import open_mapped
from ssllatency.targets.processes import PROC, Process, exists, root_of

_MOST_AHEAD = 32
# A process can map tens of thousands of files of any content. The most that are inspected, of one process and of all.
MOST_MAPPED, _MOST_FILES = 1024, 16384
MOST_OF_PROCESS = 64  # files of one process that are traced


class NoTlsFile(SsllatencyError):
    """None of the processes maps a file that is traced."""


Recognise = Callable[[int, str, str], str]
Holds = Callable[[int, str, str], bool]
Tell = Callable[[str], None]
T = TypeVar("T")
Users = dict[Identity, dict[int, MappedFile]]


@dataclass(frozen=True)
class TracedFile:
    """A file with TLS code, and the processes of the selection that map it.

    `kind` is what `recognise` called it. `mapping` is how process `pid` maps it, which is what open_mapped needs; `pids`
    are all that map it, ascending.
    """

    kind: str
    pid: int
    mapping: MappedFile
    pids: tuple[int, ...]

    @property
    def device(self) -> tuple[int, int]:
        """Major and minor number of the device, as maps writes them."""
        return self.mapping.device

    @property
    def inode(self) -> int:
        """The inode number, as maps writes it."""
        return self.mapping.inode

    @property
    def path(self) -> str:
        """The path as process `pid` sees it."""
        return self.mapping.path


def tls_files(
    processes: Iterable[Process],
    recognise: Recognise,
    proc: Path = PROC,
    *,
    holds: Holds = lambda _fd, _path, _root: True,
    named: Collection[Identity] = (),
    problem: Problem = fail,
    tell: Tell = lambda _: None,
    ahead: Callable[[Sequence[tuple[int, str, str]]], None] | None = None,
) -> list[TracedFile]:
    """The TLS files of `processes`, ordered by path.

    `holds(fd, path, root)` says whether a file may hold TLS code, where `root` is that of a process that maps it; only then
    `recognise(fd, path, root)` is asked what it is, "" for no TLS. Each is called once a file, and the descriptor is closed
    when it returns. `named` are files (see file_identity) that are recognised whatever is in them. `problem` takes the
    SsllatencyError of a process or file that can't be read; if it returns, the search goes on without. Processes that end
    meanwhile are left out. NoTlsFile where no process maps a TLS file. At most MOST_MAPPED files of one process are inspected
    and MOST_OF_PROCESS recognised, and of all processes together those that most processes map; `tell` takes a sentence about
    the rest.

    `ahead` gets the arguments of `recognise` for the first candidates, before any file is inspected.
    """
    processes = list(processes)
    users = _most_shared(_candidates(processes, proc, named, problem, tell), named, tell)
    users = _holding(users, processes, holds, named, tell, proc)
    if ahead:
        with ExitStack() as stack:
            ahead(_first_candidates(users, proc, stack))
    traced = [file for mappings in users.values() if (file := _traced_file(mappings, recognise, proc, problem))]
    if not traced:
        raise NoTlsFile(_none_found(processes))
    return sorted(traced, key=lambda file: (file.path, file.mapping.identity))


def tls_candidates(pid: int, proc: Path = PROC) -> list[MappedFile]:
    """The files that a process maps and that may hold TLS code; none where it is gone. SsllatencyError where it is refused."""
    return few_of(mapped_files(pid, proc), executable_path(pid, proc))


def holds_tls(pid: int, mapping: MappedFile, holds: Holds, proc: Path = PROC) -> bool:
    """Whether the file that process `pid` maps here contains TLS, by `holds`. SsllatencyError where it can't be read."""
    return first_opened({pid: mapping}, holds, proc)


def may_hold_tls(path: str) -> bool:
    """Whether the name of a mapped file suggests TLS: a TLS library's name, or a name that no library has (the executable)."""
    return has_library_name(path) or ".so" not in path.rpartition("/")[2]


def recognised_file(pid: int, mapping: MappedFile, recognise: Recognise, proc: Path = PROC) -> TracedFile | None:
    """The file that process `pid` maps here, if it contains TLS code. SsllatencyError where it can't be read."""
    return _recognised(open_mapped(pid, mapping, proc), pid, {pid: mapping}, recognise, fail, proc)


def open_shared(file: TracedFile, proc: Path = PROC) -> int:
    """A descriptor (read only, close on exec) of the very file, through any of the processes that map it; the caller closes it.

    SsllatencyError where none of them lets us, or none maps it any more: they may have ended or unloaded it since it was found.
    """
    problem = SsllatencyError(f"No process maps {file.path} any more: it was unloaded, or its processes have ended, meanwhile.")
    for pid in (file.pid, *(pid for pid in file.pids if pid != file.pid)):
        mapping = _mapping_of(pid, file.mapping.identity, proc)
        if mapping is None:
            continue
        try:
            return open_mapped(pid, mapping, proc)
        except SsllatencyError as error:
            if _mapping_of(pid, mapping.identity, proc):
                problem = error
    raise problem


def _mapping_of(pid: int, identity: Identity, proc: Path) -> MappedFile | None:
    """Return how the process maps the file by now, None where it doesn't, or is gone."""
    with suppress(SsllatencyError):
        return next((mapping for mapping in mapped_files(pid, proc) if mapping.identity == identity), None)
    return None


def most_important(
    files: Sequence[TracedFile], most: int, named: Collection[Identity] = ()
) -> tuple[list[TracedFile], list[TracedFile]]:
    """The most important files, as many as are allowed, in their order, and the rest: named files first, then those that most
    processes map, libraries that applications call before others."""

    def rank(file: TracedFile) -> tuple[bool, int, bool]:
        return file.mapping.identity not in named, -len(file.pids), not is_called(file.kind)

    chosen = {file.mapping.identity for file in sorted(files, key=rank)[:most]}
    parts: tuple[list[TracedFile], list[TracedFile]] = [], []
    for file in files:
        parts[file.mapping.identity not in chosen].append(file)
    return parts


def few_of(files: Sequence[MappedFile], executable: str | None, named: Collection[Identity] = ()) -> list[MappedFile]:
    """MOST_MAPPED of the files of one process at most: first come the named ones, the executable, and TLS libraries by name."""

    def rank(file: MappedFile) -> tuple[bool, bool, bool, bool]:
        usual, library = is_usual(file.path), has_library_name(file.path)
        return file.identity not in named, file.path != executable, not usual, not library

    return sorted(files, key=rank)[:MOST_MAPPED]


def too_many(process: Process, files: int) -> str:
    """The sentence about the files of a process that aren't inspected."""
    return f"{process.comm} (PID {process.pid}) maps {files} files as code: only {MOST_MAPPED} of them were inspected."


def _most_shared(users: Users, named: Collection[Identity], tell: Tell) -> Users:
    if len(users) <= _MOST_FILES:
        return users
    tell(f"The processes map {len(users)} files as code: only the {_MOST_FILES} most shared were inspected.")
    kept = sorted(users, key=lambda identity: (identity not in named, -len(users[identity])))[:_MOST_FILES]
    return {identity: users[identity] for identity in kept}


def _candidates(processes: Iterable[Process], proc: Path, named: Collection[Identity], problem: Problem, tell: Tell) -> Users:
    """The candidate files by identity; for each, how every process maps it."""
    users: Users = defaultdict(dict)
    for process in processes:
        try:
            mapped, executable = mapped_files(process.pid, proc), executable_path(process.pid, proc)
        except SsllatencyError as error:
            problem(error)
            continue
        if len(mapped) > MOST_MAPPED:
            tell(too_many(process, len(mapped)))
        for file in few_of(mapped, executable, named):
            users[file.identity][process.pid] = file
    return users


def _holding(
    users: Users, processes: Iterable[Process], holds: Holds, named: Collection[Identity], tell: Tell, proc: Path
) -> Users:
    """The files that may contain TLS, at most MOST_OF_PROCESS of one process. A file that can't be opened stays if its name
    suggests TLS: its error is reported when it is recognised."""
    candidates: Users = {}
    file_counts: Counter[int] = Counter()
    crowded: set[int] = set()
    unopened = Unopened()
    for identity, mappings in users.items():
        full = {pid for pid in mappings if file_counts[pid] >= MOST_OF_PROCESS}
        try:
            if identity not in named and not (len(full) < len(mappings) and first_opened(mappings, holds, proc)):
                crowded |= full
                continue
        except SsllatencyError as error:
            if not may_hold_tls(next(iter(mappings.values())).path):
                unopened.add(error, mappings, proc)
                continue
        candidates[identity] = mappings
        file_counts.update(mappings.keys())
    comms = {process.pid: process.comm for process in processes}
    for pid in sorted(crowded):
        tell(f"{comms[pid]} (PID {pid}) maps more than {MOST_OF_PROCESS} files with TLS: only that many were inspected.")
    for sentence in unopened.sentences():
        tell(sentence)
    return candidates


class Unopened:
    """Files that can't be opened, and whose names don't suggest TLS: told of in one sentence."""

    def __init__(self) -> None:
        self._first, self._number = "", 0

    def add(self, error: SsllatencyError, pids: Iterable[int], proc: Path) -> None:
        """Takes the error of one more file, which these processes map. Those that are gone map nothing."""
        if any(exists(pid, proc) for pid in pids):
            self._first, self._number = self._first or str(error), self._number + 1

    def sentences(self) -> list[str]:
        """A sentence about them, if there are any."""
        if not self._number:
            return []
        files = "One mapped file" if self._number == 1 else f"{self._number} mapped files"
        return [f"{files} couldn't be opened, so it isn't known whether they contain TLS. {self._first}"]


def first_opened(mappings: Mapping[int, MappedFile], ask: Callable[[int, str, str], T], proc: Path) -> T:
    """The result of `ask` for a file, called with its descriptor, path and root, through the first process that lets us open
    it. SsllatencyError if none does."""
    first: SsllatencyError | None = None
    for pid, mapping in mappings.items():
        try:
            fd = open_mapped(pid, mapping, proc)
        except SsllatencyError as error:
            first = first or error
            continue
        try:
            return ask(fd, mapping.path, root_of(pid, proc))
        finally:
            os.close(fd)
    assert first is not None
    raise first


def _first_candidates(users: Users, proc: Path, stack: ExitStack) -> list[tuple[int, str, str]]:
    """Some of the candidates with the descriptors, open as long as `stack`, the paths and the roots."""
    opened = []
    for pid, mapping in (next(iter(mappings.items())) for mappings in islice(users.values(), _MOST_AHEAD)):
        with suppress(SsllatencyError):  # reported when the file is inspected
            fd = open_mapped(pid, mapping, proc)
            stack.callback(os.close, fd)
            opened.append((fd, mapping.path, root_of(pid, proc)))
    return opened


def _traced_file(mappings: dict[int, MappedFile], recognise: Recognise, proc: Path, problem: Problem) -> TracedFile | None:
    """The file as `recognise` describes it, opened through the first process that permits that."""
    errors = []
    for pid in sorted(mappings):
        try:
            fd = open_mapped(pid, mappings[pid], proc)
        except SsllatencyError as error:
            if exists(pid, proc) and _still_maps(pid, mappings[pid], proc):
                errors.append(error)
            continue
        return _recognised(fd, pid, mappings, recognise, problem, proc)
    if errors:
        problem(errors[0])
    return None


def _still_maps(pid: int, mapping: MappedFile, proc: Path) -> bool:
    """Whether the process maps the file by now. One of its identity elsewhere and by another name is another file, to which the
    file system has given the inode of this one."""
    try:
        same = [file for file in mapped_files(pid, proc) if file.identity == mapping.identity]
    except SsllatencyError:
        return True
    return any(file.address_range == mapping.address_range or file.path == mapping.path for file in same)


def _recognised(
    fd: int, pid: int, mappings: dict[int, MappedFile], recognise: Recognise, problem: Problem, proc: Path
) -> TracedFile | None:
    mapping = mappings[pid]
    try:
        kind = recognise(fd, mapping.path, root_of(pid, proc))
    except SsllatencyError as error:
        problem(error)
        return None
    finally:
        os.close(fd)
    return TracedFile(kind, pid, mapping, tuple(sorted(mappings))) if kind else None


def _none_found(processes: list[Process]) -> str:
    advice = (
        f"{', '.join(LIBRARIES)}, or OpenSSL inside the executable; look in /proc/PID/maps, and name the process that does TLS"
    )
    if len(processes) == 1:
        return f"{processes[0].comm} (PID {processes[0].pid}) maps no TLS library ({advice})."
    names = sorted({process.comm for process in processes})
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"None of the {len(processes)} processes ({shown}) maps a TLS library ({advice})."
