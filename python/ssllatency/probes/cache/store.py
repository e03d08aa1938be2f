# SPDX-License-Identifier: Apache-2.0
"""Entries on disk: findings about a file, under a name derived from everything that they depend on.

An entry or a folder with anything unexpected is ignored: a cache never causes a failure, at worst it saves no time. Nothing
here brings in the ELF parser or the decoder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import ssllatency
from ssllatency.elf.room import most_copied
from ssllatency.elf.source import read_through
from ssllatency.probes.cache.folder import ENTRY_SUFFIX, directory_path
from ssllatency.safe_open import open_regular, stat_regular_below

# These rooms, and the modules below them, make what is cached about a file.
PLANNING_ROOMS = ("code", "elf", "stacks", "probes")
_BELOW = ("abi", "data_class", "errors", "facts", "fields", "host/kernel_text", "safe_open")
_LARGEST_ENTRY = 1 << 20
_MOST_ENTRIES = 64
_DRAFT, _DRAFT_LASTS_S = re.compile(r"\.[0-9a-f]{16}"), 60
_TIMES_TELL_NS = 1_000_000_000  # two writes this far apart give a file different times
_PROCESS_ROOT = re.compile(r"(/proc/\d+/root)/")


def default_directory() -> Path:
    """The folder of the cache."""
    return Path(directory_path())


def is_there(directory: Path) -> bool:
    """Whether there is a folder, in which there may be entries, that can be looked at."""
    return os.path.isdir(directory)  # noqa: PTH112 - Path's raises where a folder above it may not be searched


# What an entry depends on.


def entry_name(content: str, *settings: object, suffix: str = ENTRY_SUFFIX) -> str:
    """The name of the entry about a file with this `content`, a digest, made by this program's code with these settings.

    "" where there can be none: the file, or the program's own source, can't be read.
    """
    code = _own_code()
    parts = " ".join(map(str, (content, code, *settings)))
    return hashlib.sha256(parts.encode()).hexdigest() + suffix if content and code else ""


_digests: dict[tuple[int, ...], str] = {}


def digest(path: str | Path) -> str:
    """The digest of a file's contents (Source.digest), "" if it can't be read, or isn't a file that Source.copied would take.

    It is remembered as long as the file's times say that nothing was written, once they are old enough to tell.
    """
    with suppress(OSError, EOFError), os.fdopen(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        if 0 < status.st_size <= most_copied():
            key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            settled = time.time_ns() - status.st_ctime_ns > _TIMES_TELL_NS
            if not settled or key not in _digests:
                _digests[key] = read_through(file.fileno(), status.st_size)[0]
            return _digests[key]
    return ""


@cache
def planning_modules() -> dict[str, str]:
    """The modules that what is kept about a file depends on, each with its source's path: those of PLANNING_ROOMS, and what
    these import. Without pathlib, as it takes part in every start."""
    package = os.path.dirname(ssllatency.__file__)  # noqa: PTH120
    sources = {f"ssllatency.{name.replace('/', '.')}": f"{package}/{name}.py" for name in _BELOW}
    for room in PLANNING_ROOMS:
        for folder, _, files in os.walk(f"{package}/{room}"):
            inside = folder.removeprefix(package).replace("/", ".")
            names = (file.removesuffix(".py") for file in files if file.endswith(".py"))
            sources |= {f"ssllatency{inside}.{name}": f"{folder}/{name}.py" for name in names}
    return dict(sorted(sources.items()))


@cache
def _own_code() -> str:
    """A digest of what makes entries, "" where its source can't be read."""
    digest = hashlib.sha256(ssllatency.__version__.encode())
    try:
        for name, source in planning_modules().items():
            with open(source, "rb", buffering=0) as file:  # noqa: PTH123
                digest.update(name.encode() + b"\0" + file.read())
    except OSError:
        return ""
    return digest.hexdigest()


def identity(path: str) -> list[Any] | None:
    """The text that tells that a file is still the same, None where there is none."""
    if not path:
        return None
    with suppress(OSError):
        match = _PROCESS_ROOT.match(path)
        status = stat_regular_below(match[1], path[match.end() :]) if match else stat_regular_below("/", path)
        return [path, status.st_mtime_ns, status.st_size]
    return [path, 0, 0]


def same_debug_file(kept_identity: object, debug_roots: Sequence[str]) -> bool:
    """Whether `kept_identity`, an identity() from an entry, is that of a file in these roots which hasn't changed since."""
    return (
        isinstance(kept_identity, list)
        and len(kept_identity) == 3
        and isinstance(kept_identity[0], str)
        and "\0" not in kept_identity[0]
        and _lies_in(kept_identity[0], debug_roots)
        and identity(kept_identity[0]) == kept_identity
    )


def _lies_in(path: str, debug_roots: Sequence[str]) -> bool:
    """Whether a file that was found in one of some roots lies in one of these: a container's debug file is used only for that
    container."""
    return any(path.startswith(f"{root}/") if root != "/" else not _PROCESS_ROOT.match(path) for root in debug_roots)


def debug_file_has_come(build_id: str, debug_roots: Sequence[str]) -> bool:
    """Whether there is a debug file now for a file that had none: one that would be opened."""
    place = f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    return any(_is_there(root, place) for root in debug_roots)


def _is_there(root: str, place: str) -> bool:
    with suppress(OSError):
        stat_regular_below(root, place)
        return True
    return False


# Entries.


def load(directory: Path, name: str) -> object:
    """The values of the entry; None where there is none, or it isn't one of ours."""
    try:
        with _opened(directory, create=False) as folder:
            return json.loads(_read(folder, name))
    except (OSError, ValueError, RecursionError):
        return None


def store(directory: Path, name: str, entry: dict[str, Any]) -> None:
    """Keeps the entry, if it can, and removes the oldest ones."""
    with suppress(OSError), _opened(directory, create=True) as folder:
        _write(folder, name, json.dumps(entry).encode())
        _prune(folder)


def _ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextmanager
def _opened(directory: Path, *, create: bool) -> Iterator[int]:
    """A descriptor of the cache's folder; PermissionError for a folder that others own or may write to."""
    if create:
        _create(directory)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not _ours(os.fstat(folder)):
            raise PermissionError(f"{directory} isn't ours alone")
        yield folder
    finally:
        os.close(folder)


def _create(directory: Path) -> None:
    """Makes the folder, and the one above it, but never inside somebody else's (as under sudo with another user's home)."""
    for folder in (directory.parent, directory):
        if not folder.exists():
            if not _ours(folder.parent.stat()):
                raise PermissionError(f"{folder.parent} isn't ours alone")
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)


def _read(folder: int, name: str) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _ours(status) or status.st_size > _LARGEST_ENTRY:
            raise PermissionError(f"{name} isn't an entry of ours")
        return file.read(_LARGEST_ENTRY)


def _write(folder: int, name: str, data: bytes) -> None:
    """Readers see the whole entry or none."""
    draft = f".{os.urandom(8).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _prune(folder: int) -> None:
    """Removes the oldest entries beyond _MOST_ENTRIES, and what was left of one whose writer was killed."""
    entries, old_drafts = [], []
    for name in os.listdir(folder):
        with suppress(OSError):
            if name.endswith(ENTRY_SUFFIX):
                entries.append((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns, name))
            elif _DRAFT.fullmatch(name):
                age_s = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
                old_drafts += [name] if age_s > _DRAFT_LASTS_S else []
    for name in (*(name for _, name in sorted(entries)[:-_MOST_ENTRIES]), *old_drafts):
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
