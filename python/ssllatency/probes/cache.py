# SPDX-License-Identifier: Apache-2.0
"""Keeps plans on disk, so that attaching again takes milliseconds.

An entry is found by what it depends on: the contents of the planned file, this program's own code and the planner's settings;
and it is checked against the separate debug file that it was made with. An entry, or a folder, that is odd in any way is
ignored: the cache never fails, it only doesn't help. Nothing here brings in the ELF parser or the decoder.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ssllatency
from ssllatency.probes import codec
from ssllatency.probes.machine import BASELINE, Emulation
from ssllatency.probes.plan import ImagePlan

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_LARGEST_ENTRY = 1 << 20
_MOST_ENTRIES = 64
_SUFFIX = ".json"


def cached_plan(
    path: str | Path,
    open_image: Callable[[], Image],
    *,
    label: str = "",
    return_probes: bool = True,
    emulation: Emulation = BASELINE,
    branch_exits: bool = True,
    debug_roots: Sequence[str] = ("/",),
    directory: Path | None = None,
) -> tuple[ImagePlan, bool]:
    """The plan of the file `path`, and whether it came from the cache.

    `open_image` opens the same file where it must be planned; `label` is the path that the plan shows (`path` if not given);
    `debug_roots` are those that the image is opened with; `directory` is the folder of the cache (`default_directory()`).
    """
    directory = directory or default_directory()
    content = _digest(path)
    name = _entry_name(content, return_probes, emulation, branch_exits) if content else ""
    found = _load(directory, name, path, debug_roots) if name else None
    if found:
        return replace(found, path=label or str(path)), True
    from ssllatency.probes.planner import plan_image

    image = open_image()
    plan = plan_image(image, return_probes=return_probes, emulation=emulation, branch_exits=branch_exits)
    if name and plan.build_id and _digest(path) == content:
        _store(directory, name, {"debug": _identity(image.debug_file), "plan": codec.to_values(plan)})
    return plan, False


def default_directory() -> Path:
    """$XDG_CACHE_HOME/ssllatency, or ~/.cache/ssllatency."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home.startswith("/") else Path("~/.cache").expanduser()) / "ssllatency"


# What an entry depends on.


def _digest(path: str | Path) -> str:
    """The SHA-256 of a file's contents, "" if it can't be read."""
    with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - a path under /proc is not to be resolved
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


@cache
def _own_code() -> str:
    """A digest of the planner: this package's rooms `elf` and `probes`, "" where their source can't be read."""
    package = Path(ssllatency.__file__).parent
    digest = hashlib.sha256(ssllatency.__version__.encode())
    try:
        for source in sorted((*package.glob("elf/*.py"), *package.glob("probes/*.py"))):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()


def _entry_name(content: str, return_probes: bool, emulation: Emulation, branch_exits: bool) -> str:
    code = _own_code()
    parts = f"{content} {code} {return_probes} {emulation} {branch_exits}"
    return hashlib.sha256(parts.encode()).hexdigest() + _SUFFIX if code else ""


def _identity(path: str) -> list[Any] | None:
    """What tells that a file is still the same, None where there is none."""
    if not path:
        return None
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116
        return [path, status.st_mtime_ns, status.st_size]
    return [path, 0, 0]


def _still_true(debug: object, plan: ImagePlan, debug_roots: Sequence[str]) -> bool:
    """Whether the debug file of the entry is unchanged or, where there was none, none has come that might name more."""
    if isinstance(debug, list):
        return len(debug) == 3 and isinstance(debug[0], str) and "\0" not in debug[0] and _identity(debug[0]) == debug
    if debug is not None:
        return False
    place = f"usr/lib/debug/.build-id/{plan.build_id[:2]}/{plan.build_id[2:]}.debug"
    return not plan.missing or not any(os.path.exists(os.path.join(root, place)) for root in debug_roots)  # noqa: PTH110, PTH118


# Entries on disk.


def _load(directory: Path, name: str, path: str | Path, debug_roots: Sequence[str]) -> ImagePlan | None:
    try:
        size = os.stat(path).st_size  # noqa: PTH116
        with _opened(directory, create=False) as folder:
            entry = json.loads(_read(folder, name))
        if not isinstance(entry, dict) or set(entry) != {"debug", "plan"}:
            return None
        plan = codec.from_values(entry["plan"], file_size=size)
    except (OSError, ValueError, RecursionError, codec.DamagedPlan):
        return None
    return plan if plan.build_id and _still_true(entry["debug"], plan, debug_roots) else None


def _store(directory: Path, name: str, entry: dict[str, Any]) -> None:
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
    for each in (directory.parent, directory):
        if not each.exists():
            if not _ours(each.parent.stat()):
                raise PermissionError(f"{each.parent} isn't ours alone")
            with suppress(FileExistsError):
                each.mkdir(mode=0o700)


def _read(folder: int, name: str) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _ours(status) or status.st_size > _LARGEST_ENTRY:
            raise PermissionError(f"{name} isn't an entry of ours")
        return file.read(_LARGEST_ENTRY)


def _write(folder: int, name: str, data: bytes) -> None:
    """Readers see the whole entry or none."""
    draft = f".{secrets.token_hex(8)}"
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
    """Removes the oldest entries beyond _MOST_ENTRIES."""
    entries = []
    for name in os.listdir(folder):
        if name.endswith(_SUFFIX):
            with suppress(OSError):
                entries.append((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns, name))
    for _, name in sorted(entries)[:-_MOST_ENTRIES]:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
