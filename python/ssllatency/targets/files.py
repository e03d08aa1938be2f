# SPDX-License-Identifier: Apache-2.0
"""Finds the files to trace: those with TLS code that processes map, each file once however many processes share it.

Every file that is mapped as code is a candidate, whatever its name: OpenSSL is linked into programs and into libraries of other
names. The caller's `holds` decides by the contents which of them may contain TLS. The maps of a process are read once, for all
that is asked of it. A file is opened once, but for those beyond what may stay open: what it is, its plan and its probes are
found by the same descriptor.
"""

from __future__ import annotations

import os
import resource
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError, Unforeseen, about_one_of_many, raise_if_too_many
from ssllatency.stacks.by_name import ByName
from ssllatency.stacks.file_names import has_library_name, is_usual, untraced_in
from ssllatency.stacks.registry import LIBRARIES, is_called
from ssllatency.targets.identity import Identity, MappedFile
from ssllatency.targets.maps import Problem, executable_path, fail, mapped_files
from ssllatency.targets.opening import open_mapped
from ssllatency.targets.processes import PROC, Process, exists, root_of, root_of_any

# A process can map tens of thousands of files of any content. The most that are inspected, of one process and of all.
MOST_MAPPED, _MOST_FILES = 1024, 16384
MOST_OF_PROCESS = 64  # files of one process that are traced
_MOST_OPEN = 256  # files that stay open while it isn't known yet which are traced; further ones are opened once more
_PART_OPEN = 8  # at most such a part of all that may be open, as each is open several times while it is planned

HoldsMapped = Callable[[int, MappedFile, str], bool]
Tell = Callable[[str], None]
Users = dict[Identity, dict[int, MappedFile]]
Refused = list[tuple[dict[int, MappedFile], dict[int, SsllatencyError]]]


@dataclass(frozen=True)
class ProcessMaps:
    """The code that a process maps, as its maps had it when they were read: how many files these are, those whose contents tell
    whether they hold TLS, at most MOST_MAPPED, and the implementations that are told by names alone. Nothing is kept of the
    others: anybody can have tens of thousands in each of many processes."""

    process: Process
    executable: str | None
    number: int
    candidates: tuple[MappedFile, ...]
    untraced: tuple[ByName, ...]


@dataclass(frozen=True)
class TracedFile:
    """A file that holds, or may hold, TLS code, and the processes of the selection that map it.

    `kind` is the library that it is, "" before anybody has looked. `mapping` is how process `pid` maps it, which is what
    open_mapped needs; `pids` are all that map it, ascending. `descriptor`: open as long as whoever searched says; None where it
    is opened for each use.
    """

    kind: str
    pid: int
    mapping: MappedFile
    pids: tuple[int, ...]
    descriptor: int | None = None

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

    @property
    def is_there(self) -> bool:
        """Whether any of the processes that mapped it when it was found hasn't ended."""
        return any(exists(pid) for pid in self.pids)

    @property
    def root(self) -> str:
        """The root of a process that mapped it and is still there, where it may have its debug file."""
        return root_of_any((self.pid, *self.pids)) or root_of(self.pid)


def read_processes(
    processes: Iterable[Process],
    refused: Callable[[Process, SsllatencyError], object],
    proc: Path = PROC,
    *,
    named: Collection[Identity] = (),
) -> list[ProcessMaps]:
    """Return what each of these processes maps. `refused` takes those that may not be inspected; who has ended maps nothing.
    MOST_MAPPED files of each are candidates, those first that are `named` (see file_identity)."""
    read = []
    for process in processes:
        try:
            with about_one_of_many():
                read.append(_maps_of(process, proc, named))
        except Unforeseen as error:
            refused(process, SsllatencyError(f"{process.comm} ({process.pid}) can't be inspected: {error}"))
        except SsllatencyError as error:
            refused(process, error)
    return read


def _maps_of(process: Process, proc: Path, named: Collection[Identity]) -> ProcessMaps:
    mapped, executable = mapped_files(process.pid, proc), executable_path(process.pid, proc)
    untraced = untraced_in(file.path for file in mapped)
    return ProcessMaps(process, executable, len(mapped), tuple(few_of(mapped, executable, named)), untraced)


def tls_files(
    maps: Sequence[ProcessMaps],
    holds: HoldsMapped,
    stack: ExitStack,
    proc: Path = PROC,
    *,
    named: Collection[Identity] = (),
    problem: Problem = fail,
    tell: Tell = lambda _: None,
) -> list[TracedFile]:
    """The files that these processes map and that may hold TLS code, ordered by path; the first _MOST_OPEN of them are open as
    long as `stack`.

    `holds(fd, mapping, root)` says whether a file may, where `root` is that of a process that maps it. It is called once a
    file, but for those that are `named`, which are returned whatever is in them. `problem` takes the SsllatencyError of a file
    that can't be opened and whose name suggests TLS; if it returns, the search goes on without. Files that nobody maps any more
    are left out. At most MOST_OF_PROCESS files of one process are returned, and of all processes together those that most
    processes map; `tell` takes a sentence about the rest.
    """
    for each in maps:
        if each.number > MOST_MAPPED:
            tell(too_many(each.process, each.number))
    users = _most_shared(_users(maps), named, tell)
    found, refused = _holding(users, {each.process.pid: each.process.comm for each in maps}, holds, stack, named, tell, proc)
    for mappings, errors in refused:
        still = [error for pid, error in errors.items() if exists(pid, proc) and _still_maps(pid, mappings[pid], proc)]
        if still:
            problem(still[0])
    return sorted(found, key=lambda file: (file.path, file.mapping.identity))


@contextmanager
def opened(file: TracedFile, proc: Path = PROC) -> Iterator[int]:
    """A descriptor of the very file: its own, or one that is closed again. SsllatencyError where nobody maps it any more."""
    if file.descriptor is not None:
        yield file.descriptor
        return
    descriptor = open_shared(file, proc)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def descriptor_of(file: TracedFile, proc: Path = PROC) -> int:
    """A descriptor of the very file that the caller closes. SsllatencyError where no process maps it any more that is there."""
    if file.descriptor is None:
        return open_shared(file, proc)
    if not any(exists(pid, proc) for pid in file.pids):
        raise _unmapped(file)
    try:
        return os.dup(file.descriptor)
    except OSError as error:
        raise_if_too_many(error, file.path)
        raise SsllatencyError(f"{file.path} can't be opened: {error.strerror}.") from None


def tls_candidates(pid: int, proc: Path = PROC) -> list[MappedFile]:
    """The files that a process maps and that may hold TLS code; none where it is gone. SsllatencyError where it is refused."""
    return few_of(mapped_files(pid, proc), executable_path(pid, proc))


def open_file(pid: int, mapping: MappedFile, stack: ExitStack) -> TracedFile:
    """The file that process `pid` maps here, open as long as `stack`. SsllatencyError where it can't be opened."""
    descriptor = open_mapped(pid, mapping)
    stack.callback(os.close, descriptor)
    return TracedFile("", pid, mapping, (pid,), descriptor)


def may_hold_tls(path: str) -> bool:
    """Whether the name of a mapped file suggests TLS: a TLS library's name, or a name that no library has (the executable)."""
    return has_library_name(path) or ".so" not in path.rpartition("/")[2]


def open_shared(file: TracedFile, proc: Path = PROC) -> int:
    """A descriptor (read only, close on exec) of the very file, through any of the processes that map it; the caller closes it.

    SsllatencyError where none of them lets us, or none maps it any more: they may have ended or unloaded it since it was found.
    """
    problem = _unmapped(file)
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


def _unmapped(file: TracedFile) -> SsllatencyError:
    return SsllatencyError(f"No process maps {file.path} any more: it was unloaded, or its processes have ended, meanwhile.")


def _mapping_of(pid: int, identity: Identity, proc: Path) -> MappedFile | None:
    """Return how the process maps the file by now, None where it doesn't, or is gone."""
    with suppress(SsllatencyError):
        return next((mapping for mapping in mapped_files(pid, proc) if mapping.identity == identity), None)
    return None


def none_found(processes: Sequence[Process]) -> str:
    """The sentence that says that none of these processes maps a TLS file that is traced."""
    advice = (
        f"{', '.join(LIBRARIES)}, or OpenSSL inside the executable; look in /proc/PID/maps, and name the process that does TLS"
    )
    if len(processes) == 1:
        return f"{processes[0].comm} (PID {processes[0].pid}) maps no TLS library ({advice})."
    names = sorted({process.comm for process in processes})
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"None of the {len(processes)} processes ({shown}) maps a TLS library ({advice})."


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


def _users(maps: Iterable[ProcessMaps]) -> Users:
    """The candidate files by identity; for each, how every process maps it."""
    users: Users = defaultdict(dict)
    for each in maps:
        for file in each.candidates:
            users[file.identity][each.process.pid] = file
    return users


def _holding(
    users: Users,
    comms: Mapping[int, str],
    holds: HoldsMapped,
    stack: ExitStack,
    named: Collection[Identity],
    tell: Tell,
    proc: Path,
) -> tuple[list[TracedFile], Refused]:
    """The files that may contain TLS, at most MOST_OF_PROCESS of one process; and those whose names suggest it and that can't
    be opened, with the error for each process that maps one."""
    found: list[TracedFile] = []
    refused: Refused = []
    file_counts: Counter[int] = Counter()
    crowded: set[int] = set()
    unopened = Unopened()
    for identity, mappings in users.items():
        full = {pid for pid in mappings if file_counts[pid] >= MOST_OF_PROCESS}
        if identity not in named and len(full) == len(mappings):
            crowded |= full
            continue
        errors: dict[int, SsllatencyError] = {}
        file = _opened(mappings, errors, proc)
        try:
            may_hold = identity in named or _may_hold(file, errors, holds, proc)
        except SsllatencyError as error:
            may_hold = may_hold_tls(next(iter(mappings.values())).path)  # then it is told why it can't be looked into
            if not may_hold:
                unopened.add(error, mappings, proc)
        else:
            crowded |= set() if may_hold else full
        if may_hold:
            file_counts.update(mappings.keys())
        if file and may_hold:
            found.append(_kept(file, len(found), stack))
        elif file:
            _close(file)
        elif may_hold:
            refused.append((mappings, errors))
    for pid in sorted(crowded):
        tell(f"{comms[pid]} (PID {pid}) maps more than {MOST_OF_PROCESS} files with TLS: only that many were inspected.")
    for sentence in unopened.sentences():
        tell(sentence)
    return found, refused


def _opened(mappings: Mapping[int, MappedFile], errors: dict[int, SsllatencyError], proc: Path) -> TracedFile | None:
    """The file, opened through the first process that lets us; None if none does. `errors` takes those of the others."""
    for pid, mapping in mappings.items():
        try:
            return TracedFile("", pid, mapping, tuple(sorted(mappings)), open_mapped(pid, mapping, proc))
        except SsllatencyError as error:
            errors[pid] = error
    return None


def _may_hold(file: TracedFile | None, errors: Mapping[int, SsllatencyError], holds: HoldsMapped, proc: Path) -> bool:
    """Whether the file may hold TLS. SsllatencyError where it couldn't be opened or can't be read."""
    if file is None or file.descriptor is None:
        raise next(iter(errors.values()))
    return holds(file.descriptor, file.mapping, root_of(file.pid, proc))


def _kept(file: TracedFile, others: int, stack: ExitStack) -> TracedFile:
    """The file, open as long as `stack`, or closed where enough others are open."""
    most = min(_MOST_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART_OPEN)
    if file.descriptor is not None and others < most:
        stack.callback(os.close, file.descriptor)
        return file
    _close(file)
    return replace(file, descriptor=None)


def _close(file: TracedFile) -> None:
    if file.descriptor is not None:
        os.close(file.descriptor)


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


def _still_maps(pid: int, mapping: MappedFile, proc: Path) -> bool:
    """Whether the process maps the file by now. One of its identity elsewhere and by another name is another file, to which the
    file system has given the inode of this one."""
    try:
        same = [file for file in mapped_files(pid, proc) if file.identity == mapping.identity]
    except SsllatencyError:
        return True
    return any(file.address_range == mapping.address_range or file.path == mapping.path for file in same)
