# SPDX-License-Identifier: Apache-2.0
"""The files whose code a process maps, from /proc/PID/maps, whose lines read

    7f1401549000-7f140154a000 r-xp 00002000 fe:00 316533     /usr/lib/x86_64-linux-gnu/libssl.so.3

with a newline in the path written as \\012 (and nothing else escaped), and " (deleted)" behind a file that has no name any
more. Reading it needs the right to ptrace the process: its own user's, or root's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from ssllatency.errors import SsllatencyError, raise_if_too_many
from ssllatency.targets.identity import MappedFile, Numbers, told_apart
from ssllatency.targets.processes import PROC

_DELETED = b" (deleted)"
# Range, major, minor, inode (never 0 for a file) and path of the executable file mappings alone. Other lines, by far the
# most, never reach Python code.
_EXECUTABLE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) ..x. [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) ([1-9][0-9]*) +(/.*)$", re.MULTILINE
)

Problem = Callable[[SsllatencyError], None]


def mapped_files(pid: int, proc: Path = PROC) -> list[MappedFile]:
    """The files that `pid` maps executable, each once, in the order of their addresses.

    Empty for a kernel thread, and for a process that is gone. SsllatencyError where reading isn't permitted.
    """
    try:
        text = (proc / str(pid) / "maps").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    except PermissionError as error:
        raise denied(pid) from error
    except OSError as error:
        raise_if_too_many(error, f"/proc/{pid}/maps")
        raise
    return told_apart(pid, parse_maps(text), proc)


def read_maps(pid: int, proc: Path = PROC) -> bytes:
    """The text of a process's maps; b"" where it is gone, or reading isn't permitted. TooManyOpenFiles where it can't be
    told."""
    try:
        return (proc / str(pid) / "maps").read_bytes()
    except OSError as error:
        raise_if_too_many(error, f"/proc/{pid}/maps")
        return b""


def executable_path(pid: int, proc: Path = PROC) -> str | None:
    """The path of the executable that `pid` runs, as MappedFile.path has it; None for a kernel thread or a process gone."""
    try:
        target = os.fsencode((proc / str(pid) / "exe").readlink())
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError as error:
        raise denied(pid) from error
    return os.fsdecode(target.removesuffix(_DELETED))


def parse_maps(text: bytes) -> list[MappedFile]:
    """The executable file mappings in the text of a maps file, the first of each numbers and path."""
    files: dict[tuple[Numbers, str, bool], MappedFile] = {}
    for match in _EXECUTABLE.finditer(text):
        mapped = _mapped_file(*match.groups())
        files.setdefault((mapped.numbers, mapped.path, mapped.deleted), mapped)
    return list(files.values())


def shown_path(file: MappedFile) -> bytes:
    """The path as maps writes it."""
    return as_written(file.path) + (_DELETED if file.deleted else b"")


def as_written(path: str) -> bytes:
    """A path as maps writes it, but for " (deleted)"."""
    return os.fsencode(path).replace(b"\n", b"\\012")


def fail(error: SsllatencyError) -> None:
    """The default for `problem` arguments: the first process or file that can't be read ends the search."""
    raise error


def denied(pid: int) -> SsllatencyError:
    """The error for a process that we aren't allowed to inspect."""
    return SsllatencyError(f"Not permitted to inspect process {pid}: {as_root('CAP_SYS_PTRACE')}.")


def as_root(capability: str) -> str:
    """The advice where something isn't permitted that `capability` permits. Root may be refused as well, by a container or a
    security module."""
    if os.geteuid():
        return f"run ssllatency as root (sudo), or with {capability}"
    return "run ssllatency on the host with all of root's capabilities, or trace another process"


def _mapped_file(start: bytes, end: bytes, major: bytes, minor: bytes, inode: bytes, path: bytes) -> MappedFile:
    return MappedFile(
        path=os.fsdecode(path.removesuffix(_DELETED).replace(b"\\012", b"\n")),
        device=(int(major, 16), int(minor, 16)),
        inode=int(inode),
        # maps pads addresses to 8 digits, map_files doesn't: 00401000 of a static executable is 401000 there.
        address_range=f"{int(start, 16):x}-{int(end, 16):x}",
        deleted=path.endswith(_DELETED),
    )
