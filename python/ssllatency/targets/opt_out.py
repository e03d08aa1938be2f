# SPDX-License-Identifier: Apache-2.0
"""Opting out: a process in whose environment SSLLATENCY_OFF is set gets no probe, nor does one that /etc/ssllatency/never
names.

The variable is its owner's. What counts is the environment as the kernel shows it, in /proc/PID/environ: what the process was
given when it executed its program. Who may write there can only have less done to that process. The kernel reads no mapping of
a file for it, so that no file system keeps the reader waiting.

The file is the host's owner's, for processes that nobody wants to restart; of a container that sees the host's processes, the
host's and its own. Users' names are those of etc/passwd below the same root, looked up when the file is read: nobody else is
asked, and no directory service keeps the tracer waiting. It is read anew whenever it has changed; a line that can't be
understood stops everything at the start, as nobody knows whom it would have spared.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from ssllatency.errors import SsllatencyError, are_too_many_open, raise_if_too_many
from ssllatency.host.kernel_text import kernel_fields, kernel_text, number_in
from ssllatency.safe_open import open_below, stat_regular_below
from ssllatency.targets.processes import PROC
from ssllatency.targets.selection import kept_comm

VARIABLE = "SSLLATENCY_OFF"
NEVER = Path("/etc/ssllatency/never")
_ROOTS = (Path("/"), PROC / "1" / "root")  # in a container with the host's processes the other is the host's
_LONGEST = (6 << 20) + (1 << 12)  # bytes: what the kernel allows for arguments and environment together
_LONGEST_LIST, _MOST_ENTRIES = 256 << 10, 500
_USERS, _LONGEST_USERS = "/etc/passwd", 16 << 20
_COMMENT = re.compile(r"(?:^|\s)#")  # a name may have a # in it
_NUMBER = re.compile(r"[0-9]{1,10}")
_MOST_NOTES = 4
_SET = re.compile(rb"\0" + VARIABLE.encode() + rb"=(?!0?\0)")  # without a list of what may be millions of others
_KINDS = ("comm", "exe", "unit", "user")


class SparedName(NamedTuple):
    """A line of the file: which kind of name it has, the name as it is written there, and as processes have it."""

    kind: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


_Version = tuple[int, int, int, int]
SparedNames = Mapping[str, Mapping[str, SparedName]]  # by kind and key


class _Read:
    """The file as it was last read, what told that version of it from others, and what is to be said of how it went."""

    version: tuple[_Version, ...] | None = None
    entries: SparedNames = {}  # noqa: RUF012 (never changed, but replaced)
    notes: tuple[str, ...] = ()


def has_opted_out(pid: int, proc: Path = PROC) -> bool:
    """Whether the variable is set, to anything but 0 and nothing, or the file names the process. False where it is gone, or may
    not be read: then it can't be traced either. TooManyOpenFiles where nobody can tell."""
    return has_variable(pid, proc) or _entry_of(pid, proc) is not None


def opt_out_reason(pid: int, proc: Path = PROC) -> str:
    """Return why a process gets no probe that has opted out, "" for any other: "is in /etc/ssllatency/never (unit db.service)",
    or "has SSLLATENCY_OFF in its environment (user 33)", with its user by number as this machine counts users ("user unknown"
    where it is gone meanwhile). TooManyOpenFiles where nobody can tell."""
    if has_variable(pid, proc):
        user = _user(pid, proc)
        return f"has {VARIABLE} in its environment (user {'unknown' if user is None else user})"
    entry = _entry_of(pid, proc)
    return f"is in {NEVER} ({entry})" if entry else ""


def entries_of(text: str, users: Callable[[], Mapping[str, int]]) -> tuple[SparedName, ...]:
    """The file's lines: `comm NAME`, `exe PATH`, `unit NAME` and `user NAME`; # begins a comment, first or after a blank.
    SsllatencyError where one is none of these, names a user whom `users`, which is called for these alone, doesn't have, or
    where there are too many."""
    entries = []
    for number, line in enumerate(text.split("\n"), 1):
        kind, *names = _COMMENT.split(line, maxsplit=1)[0].split(None, 1)[:2] or [""]
        if not kind:
            continue
        if not (kind in _KINDS and names):
            raise SsllatencyError(
                f"line {number} of {NEVER} isn't understood, so nobody knows which processes it spares: it takes comm NAME, "
                "exe PATH, unit NAME or user NAME."
            )
        name = names[0].strip()
        key = _key(kind, name, users)
        if key is None:
            raise SsllatencyError(
                f"line {number} of {NEVER} names the user {name}, who isn't in the {_USERS} beside it, so nobody knows which"
                " processes it spares: give the user's number (id -u)."
            )
        entries.append(SparedName(kind, name, key))
        if len(entries) > _MOST_ENTRIES:
            raise SsllatencyError(
                f"{NEVER} has more than {_MOST_ENTRIES} names, too many to compare each process with: name a unit, a slice or a"
                " user in place of many programs."
            )
    return tuple(entries)


def _key(kind: str, name: str, users: Callable[[], Mapping[str, int]]) -> str | None:
    """The name as processes have it; None for a user nobody knows."""
    if kind == "comm":
        return kept_comm(name)
    if kind != "user":
        return name
    uid = int(name) if _NUMBER.fullmatch(name) else users().get(name)
    return None if uid is None else str(uid)


def read_never() -> SparedNames:
    """The file's lines now. Once it could be read, or wasn't there, what was read last where it can't be any more; before that
    SsllatencyError. TooManyOpenFiles where nobody can tell now."""
    try:
        found = {root: mark for root in _ROOTS if (mark := _version_below(root))}
        version = tuple(found.values())
        if version == _Read.version:
            return _Read.entries
        entries: dict[str, dict[str, SparedName]] = {}
        for root in found:
            for entry in entries_of(_text(root, str(NEVER), _LONGEST_LIST), cache(partial(_users_below, root))):
                entries.setdefault(entry.kind, {}).setdefault(entry.key, entry)
    except (OSError, SsllatencyError) as error:
        raise_if_too_many(error, str(NEVER))
        why = error if isinstance(error, SsllatencyError) else _unreadable(error)
        if _Read.version is None:
            raise why from None
        _note(f"{why} What was read before holds until this run ends, or the file is right again.")
        return _Read.entries
    if _Read.version is not None and any(
        by_key.keys() - entries.get(kind, {}).keys() for kind, by_key in _Read.entries.items()
    ):
        _note(f"Lines have gone from {NEVER} since this run began: processes that they named may get probes from then on.")
    _Read.version, _Read.entries = version, entries
    return entries


def never_notes() -> tuple[str, ...]:
    """Read the file again if it has changed: the sentences on what has become of it since it was first read."""
    with suppress(SsllatencyError):
        read_never()
    return _Read.notes


def _note(sentence: str) -> None:
    if sentence not in _Read.notes:
        _Read.notes = (*_Read.notes, sentence)[-_MOST_NOTES:]


def _unreadable(error: OSError) -> SsllatencyError:
    why = f"is larger than {_LONGEST_LIST >> 10} KiB" if error.errno == errno.EFBIG else error.strerror
    return SsllatencyError(f"{NEVER} can't be read ({why}), so nobody knows which processes it spares.")


def _users_below(root: Path) -> dict[str, int]:
    """The numbers of the users whom etc/passwd below the root names, by name; none where it can't be read."""
    users: dict[str, int] = {}
    try:
        for line in _text(root, _USERS, _LONGEST_USERS).split("\n"):
            fields = line.split(":")
            if len(fields) > 2 and _NUMBER.fullmatch(fields[2]):
                users.setdefault(fields[0], int(fields[2]))
    except OSError as error:
        if are_too_many_open(error):
            raise
    return users


def _version_below(root: Path) -> _Version | None:
    """Return the marks of this version of the file below the root; None where it isn't there."""
    try:
        status = stat_regular_below(root, str(NEVER), _LONGEST_LIST, by_owner=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        if root == _ROOTS[0]:
            raise
        return None  # who may not look at the host's first process sees only what is their own
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _text(root: Path, path: str, largest: int) -> str:
    """The text of a file below the root, so much of it at most."""
    with os.fdopen(open_below(root, path, largest, by_owner=True), "rb") as file:
        return file.read(largest).decode(errors="surrogateescape")


def _entry_of(pid: int, proc: Path) -> SparedName | None:
    """The line that names the process."""
    for kind, by_key in read_never().items():
        for name in _names(pid, kind, proc):
            if name in by_key:
                return by_key[name]
    return None


def _names(pid: int, kind: str, proc: Path) -> tuple[str, ...]:
    """The process's names of one kind; none where it is gone. TooManyOpenFiles where nobody can tell."""
    folder = proc / str(pid)
    try:
        if kind == "comm":
            return ((folder / "comm").read_bytes().removesuffix(b"\n").decode(errors="backslashreplace"),)
        if kind == "exe":
            return ((folder / "exe").readlink().as_posix().removesuffix(" (deleted)"),)
        if kind == "unit":
            folders = re.split(r"[/:\n]", kernel_text(folder / "cgroup", "surrogateescape"))
            return (*folders, *(name.removesuffix(".service") for name in folders if name.endswith(".service")))
        user = _user(pid, proc)
        return () if user is None else (str(user),)
    except OSError as error:
        raise_if_too_many(error, f"/proc/{pid}")
        return ()


def _user(pid: int, proc: Path) -> int | None:
    try:
        return number_in(kernel_fields(proc / str(pid) / "status").get("Uid", ""))
    except OSError as error:
        raise_if_too_many(error, f"/proc/{pid}/status")
        return None


def has_variable(pid: int, proc: Path = PROC) -> bool:
    """Whether the variable is set in the environment that the process was given. TooManyOpenFiles where nobody can tell."""
    try:
        with (proc / str(pid) / "environ").open("rb", buffering=0) as file:
            text = b"\0" + _read(file.fileno()) + b"\0"
    except OSError as error:
        raise_if_too_many(error, f"/proc/{pid}/environ")
        return False
    return _SET.search(text) is not None


def _read(descriptor: int) -> bytes:
    """A page at a time is what the kernel gives."""
    parts, left = [], _LONGEST
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 16))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
