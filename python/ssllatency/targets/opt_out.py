# SPDX-License-Identifier: Apache-2.0
"""Opting out: a process in whose environment SSLLATENCY_OFF is set gets no probe, nor does one that /etc/ssllatency/never
names.

The variable is its owner's. What counts is the environment as the kernel shows it, in /proc/PID/environ: what the process was
given when it executed its program. Who may write there can only have less done to that process. The kernel reads no mapping of
a file for it, so that no file system keeps the reader waiting.

The file is the host's owner's, for processes that nobody wants to restart; of a container that sees the host's processes, the
host's and its own. It is read anew whenever it has changed; a line that can't be understood stops everything at the start, as
nobody knows whom it would have spared.
"""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ssllatency.errors import SsllatencyError
from ssllatency.safe_open import open_below, stat_regular_below
from ssllatency.targets.processes import PROC

VARIABLE = "SSLLATENCY_OFF"
NEVER = Path("/etc/ssllatency/never")
_ROOTS = (Path("/"), PROC / "1" / "root")  # in a container with the host's processes the other is the host's
_LONGEST = (6 << 20) + (1 << 12)  # bytes: what the kernel allows for arguments and environment together
_LONGEST_LIST = 1 << 20
_SET = re.compile(rb"\0" + VARIABLE.encode() + rb"=(?!0?\0)")  # without a list of what may be millions of others
_KINDS = ("comm", "exe", "unit", "user")


class SparedName(NamedTuple):
    """A line of the file: which kind of name it has, and the name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


_Version = tuple[str, int, int, int, int]


class _Read:
    """The file as it was last read, and what told that version of it from others."""

    version: tuple[_Version, ...] | None = None
    entries: tuple[SparedName, ...] = ()


def has_opted_out(pid: int, proc: Path = PROC) -> bool:
    """Whether the variable is set, to anything but 0 and nothing, or the file names the process. False where it is gone, or may
    not be read: then it can't be traced either."""
    return has_variable(pid, proc) or _entry_of(pid, proc) is not None


def opt_out_reason(pid: int, proc: Path = PROC) -> str:
    """Return why a process that has opted out gets no probe: "is in /etc/ssllatency/never (unit db.service)", or "has
    SSLLATENCY_OFF in its environment (user 33)", with its user by number as this machine counts users ("user unknown" where
    it is gone)."""
    entry = None if has_variable(pid, proc) else _entry_of(pid, proc)
    if entry:
        return f"is in {NEVER} ({entry})"
    user = _user(pid, proc)
    return f"has {VARIABLE} in its environment (user {'unknown' if user is None else user})"


def entries_of(text: str) -> tuple[SparedName, ...]:
    """The file's lines: `comm NAME`, `exe PATH`, `unit NAME` and `user NAME`; # begins a comment. SsllatencyError where one is
    none of these."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, name = line.partition("#")[0].strip().partition(" ")
        if kind and not (kind in _KINDS and name.strip()):
            raise SsllatencyError(
                f"line {number} of {NEVER} isn't understood, so nobody knows which processes it spares: it takes comm NAME, "
                "exe PATH, unit NAME or user NAME."
            )
        if kind:
            entries.append(SparedName(kind, name.strip()))
    return tuple(entries)


def read_never() -> tuple[SparedName, ...]:
    """The file's lines now. Once it could be read, or wasn't there, what was read last where it can't be any more; before that
    SsllatencyError."""
    try:
        version = tuple(filter(None, map(_version_below, _ROOTS)))
        if version == _Read.version:
            return _Read.entries
        entries = tuple(dict.fromkeys(entry for root in _ROOTS for entry in entries_of(_text_below(root))))
    except (OSError, SsllatencyError) as error:
        if _Read.version is not None:
            return _Read.entries
        if isinstance(error, SsllatencyError):
            raise
        raise SsllatencyError(f"{NEVER} can't be read ({error.strerror}), so nobody knows which processes it spares.") from None
    _Read.version, _Read.entries = version, entries
    return entries


def _version_below(root: Path) -> _Version | None:
    """Return the marks of this version of the file below the root; None where it isn't there."""
    try:
        status = stat_regular_below(root, str(NEVER), _LONGEST_LIST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        if root == _ROOTS[0]:
            raise
        return None  # who may not look at the host's first process sees only what is their own
    return str(NEVER), status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _text_below(root: Path) -> str:
    if _version_below(root) is None:
        return ""
    with os.fdopen(open_below(root, str(NEVER), _LONGEST_LIST), encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_LONGEST_LIST)


def _entry_of(pid: int, proc: Path) -> SparedName | None:
    """The line that names the process."""
    entries = read_never()
    return next((entry for entry in entries if entry.name in _names(pid, entry.kind, proc)), None) if entries else None


def _names(pid: int, kind: str, proc: Path) -> tuple[str, ...]:
    """The process's names of one kind; none where it is gone."""
    folder = proc / str(pid)
    with suppress(OSError):
        if kind == "comm":
            return ((folder / "comm").read_text(errors="surrogateescape").rstrip("\n"),)
        if kind == "exe":
            return ((folder / "exe").readlink().as_posix().removesuffix(" (deleted)"),)
        if kind == "unit":
            folders = re.split(r"[/:\n]", (folder / "cgroup").read_text(errors="surrogateescape"))
            return (*folders, *(name.removesuffix(".service") for name in folders if name.endswith(".service")))
        user = _user(pid, proc)
        if user is not None:
            with suppress(KeyError):
                return str(user), pwd.getpwuid(user).pw_name
            return (str(user),)
    return ()


def _user(pid: int, proc: Path) -> int | None:
    with suppress(OSError):
        for line in (proc / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return None


def has_variable(pid: int, proc: Path = PROC) -> bool:
    """Whether the variable is set in the environment that the process was given."""
    try:
        with (proc / str(pid) / "environ").open("rb", buffering=0) as file:
            text = b"\0" + _read(file.fileno()) + b"\0"
    except OSError:
        return False
    return _SET.search(text) is not None


def _read(descriptor: int) -> bytes:
    """A page at a time is what the kernel gives."""
    parts, left = [], _LONGEST
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 16))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
