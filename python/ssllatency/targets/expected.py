# SPDX-License-Identifier: Apache-2.0
"""The TLS libraries that future processes will map: a server that starts a process for each connection may have no process at
the moment, and the first call of its first process must count as well.

What a program will load is known where its loader looks: in the folders of LD_LIBRARY_PATH, beside the executable, in what
/etc/ld.so.cache lists, and where there is no cache in the usual folders; all of it in the root of the processes that will start
others. The owner of that root may put anything there. So each file is opened by safe_open, below that root only, and is treated
as any file that a process may map: the caller inspects it, and nothing in it is believed about another file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError
from ssllatency.safe_open import open_below, open_regular
from ssllatency.stacks.file_names import LOADED_AS, SONAMES, is_usual
from ssllatency.targets.identity import FileVersion, Identity, MappedFile, version_of_open
from ssllatency.targets.maps import executable_path
from ssllatency.targets.processes import PROC, root_of

_CACHE, _LARGEST_CACHE = "/etc/ld.so.cache", 16 << 20
_FOLDERS = ("/usr/local/lib64", "/usr/local/lib", "/usr/lib64", "/lib64", "/usr/lib", "/lib")
_MOST_ROOTS, _MOST_PATHS, _MOST_PROCESSES, _MOST_FOLDERS = 8, 256, 64, 16
_MOST_FILES = 16  # of a root
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class ExpectedFile:
    """A file that processes are expected to map. `descriptor` is open for reading, for as long as the caller's stack; `root` is
    where their root lies for us; `mapping`, which has no addresses yet, and `version` are what mapped_files() and
    mapped_version() will give for who maps it."""

    descriptor: int
    mapping: MappedFile
    root: str
    version: FileVersion

    @property
    def pair(self) -> tuple[str, str, str]:
        """A key that a libssl and the libcrypto that goes with it share."""
        folder, _, name = self.mapping.path.rpartition("/")
        return self.root, folder, name.partition(".so")[2]


def expected_files(pids: Iterable[int], stack: ExitStack, proc: Path = PROC, *, host: bool = False) -> list[ExpectedFile]:
    """The libssl and libcrypto that programs would load which these processes start; with `host` those of our own root as well.

    Each file once. Files that can't be opened are left out.
    """
    files: dict[Identity, ExpectedFile] = {}
    for root, inside in _roots(pids, proc, host=host):
        in_root: dict[Identity, ExpectedFile] = {}
        for path in islice(dict.fromkeys(_paths(root, inside, proc)), _MOST_PATHS):
            file = open_expected(path, root, stack) if len(in_root) < _MOST_FILES else None
            if file:
                in_root.setdefault(file.mapping.identity, file)
        files |= {identity: file for identity, file in in_root.items() if identity not in files}
    return list(files.values())


def open_expected(path: str, root: str, stack: ExitStack) -> ExpectedFile | None:
    """The file at `path` below `root`, open as long as `stack`; None where there is none that can be mapped."""
    try:
        descriptor = open_below(root, path)
    except (OSError, ValueError):
        return None
    return _expected(descriptor, root, stack)


def named_files(library: str, stack: ExitStack) -> list[ExpectedFile]:
    """A library that the user named and its companion: the libcrypto beside a libssl, or the other way round. SsllatencyError
    where it can't be opened."""
    folder, _, name = str(Path(library).absolute()).rpartition("/")
    try:
        named = _expected(open_regular(library), "/", stack)
    except OSError as error:
        raise SsllatencyError(f"Can't open the library {library} ({error.strerror}): check the path.") from error
    ours = next((prefix for prefix in LOADED_AS if name.startswith(prefix)), None)
    others = [f"{folder}/{prefix}{name.removeprefix(ours)}" for prefix in LOADED_AS if prefix != ours] if ours else []
    return [file for file in (named, *(open_expected(other, "/", stack) for other in others)) if file]


def root_paths(pids: Iterable[int], proc: Path = PROC) -> list[str]:
    """The paths, as we see them, of the different roots of these processes; only the first few."""
    return [root for root, _ in _roots(pids, proc, host=False)]


def _expected(descriptor: int, root: str, stack: ExitStack) -> ExpectedFile | None:
    told = version_of_open(descriptor)
    if told is None:
        os.close(descriptor)
        return None
    stack.callback(os.close, descriptor)
    shown = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - without links, as a process's maps show it
    version, numbers = told
    own = None if version.identity == numbers else version.identity
    mapping = MappedFile(shown, numbers[:2], numbers[2], "", deleted=False, own_identity=own)
    return ExpectedFile(descriptor, mapping, root, version)


def _roots(pids: Iterable[int], proc: Path, *, host: bool) -> list[tuple[str, list[int]]]:
    """The different roots, each with the first processes in it."""
    inside: dict[tuple[int, ...], tuple[str, list[int]]] = {}
    for pid in pids:
        key = _root_identity(proc / str(pid))
        if key and (key in inside or len(inside) < _MOST_ROOTS):
            inside.setdefault(key, (root_of(pid, proc), []))[1].append(pid)
    ours = _root_identity(proc / "self")
    if host and ours:
        inside.setdefault(ours, ("/", []))
    return [(root, members[:_MOST_PROCESSES]) for root, members in inside.values()]


def _root_identity(process: Path) -> tuple[int, ...] | None:
    """An identity of the root that processes share if they see the same files."""
    try:
        mounts, root = os.stat(process / "ns/mnt"), os.stat(process / "root")  # noqa: PTH116
    except OSError:
        return None
    return mounts.st_ino, root.st_dev, root.st_ino


def _paths(root: str, pids: Sequence[int], proc: Path) -> Iterator[str]:
    """The paths at which a library may lie, in the order in which a loader looks."""
    folders = [folder for pid in pids for folder in (*_asked_for(pid, proc), *_beside(pid, proc))]
    for folder in islice(dict.fromkeys(folders), _MOST_FOLDERS):
        yield from (f"{folder}/{name}" for name in SONAMES)
    listed = _listed(root)
    yield from listed or (f"{folder}/{name}" for folder in _FOLDERS for name in SONAMES)


def _asked_for(pid: int, proc: Path) -> list[str]:
    """The folders of a process's LD_LIBRARY_PATH."""
    try:
        words = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
    value = next((word.partition(b"=")[2] for word in words if word.startswith(b"LD_LIBRARY_PATH=")), b"")
    return [os.fsdecode(folder) for folder in re.split(rb"[:;]", value) if folder.startswith(b"/")]


def _beside(pid: int, proc: Path) -> list[str]:
    """Folders in which a program may bring its own libraries."""
    path = None
    with suppress(SsllatencyError):
        path = executable_path(pid, proc)
    folder = path.rpartition("/")[0] if path else ""
    return [folder, f"{folder}/lib", f"{folder.rpartition('/')[0]}/lib"] if folder else []


def _listed(root: str) -> list[str]:
    """The libraries that the loader's cache in this root lists; only the paths in that file are read."""
    try:
        descriptor = open_below(root, _CACHE, _LARGEST_CACHE)
    except OSError:
        return []
    with os.fdopen(descriptor, "rb") as file:
        words = file.read(_LARGEST_CACHE).split(b"\0")
    paths = (os.fsdecode(word) for word in words if word.startswith(b"/") and len(word) < _LONGEST_PATH)
    return [path for path in paths if is_usual(path)]
