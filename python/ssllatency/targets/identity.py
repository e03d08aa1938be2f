# SPDX-License-Identifier: Apache-2.0
"""The identity of a file: the only place that says when two mappings, paths or descriptors are of one file.

A file's identity is the device and the inode number that its own descriptor tells, as stat() does: one file has it by all its
paths, and no other file as long as this one is mapped or open. Where it is remembered for longer, its times tell whether the
number has gone to another file since (`FileVersion`).

The numbers in /proc/PID/maps, and in the kernel's notices of mappings, are a hint. They name the device of the whole file
system, so files of two subvolumes of btrfs, or of two layers of an overlay, can share them, and whoever may make a subvolume
can give his file those of the host's libssl. Where they may lie, each mapping of each process is asked what it is. A file
system on a block device has that device, and an inode number for each file: there nobody is asked. Nor is it where one file of
a file system turns out to have the file system's own device: tmpfs, or an overlay whose layers are of one file system.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ssllatency.data_class import dataclass
from ssllatency.errors import raise_if_too_many
from ssllatency.safe_open import Status, stat_below, status_now
from ssllatency.targets.processes import PROC

Numbers = tuple[int, int, int]  # major, minor and inode as maps writes them
Identity = tuple[int, int, int]  # major, minor and inode of a file's own: the same as its numbers but on btrfs and overlays
_MOST_ASKED = 4096  # mappings of one process that are asked what they are; it may have made any number


@dataclass(frozen=True)
class MappedFile:
    """A file that a process maps executable.

    `path` is the one that the kernel shows, " (deleted)" stripped into `deleted`. For a process in a container it counts
    from the container's root, for a process in a chroot mostly from ours. `device` (major, minor) and `inode` are the ones
    that the kernel writes in maps, `own_identity` those that the file's own descriptor tells where they are others.
    `address_range` is written as /proc/PID/map_files names it.
    """

    path: str
    device: tuple[int, int]
    inode: int
    address_range: str
    deleted: bool
    own_identity: Identity | None = None

    @property
    def numbers(self) -> Numbers:
        """Major, minor, inode as maps has them: a hint, as another file may have the same (see above)."""
        return (*self.device, self.inode)

    @property
    def identity(self) -> Identity:
        """A key that every process's mapping of this file has, and no other file."""
        return self.own_identity or self.numbers


class FileVersion(NamedTuple):
    """A file and what it was when: not that of another file that has got its number later, nor of one that was written to.
    The time of the last change of an inode can't be set back."""

    identity: Identity
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0


def told_apart(pid: int, files: Iterable[MappedFile], proc: Path) -> list[MappedFile]:
    """The mappings of a process, with the identity of each file, and each file once.

    A file that can't be asked, because it isn't permitted or the mapping is gone, goes by its numbers.
    """
    asked, simple = 0, set[tuple[int, int]]()
    different: dict[Identity, MappedFile] = {}
    for file in files:
        known = file
        if _may_be_shared(file.numbers) and file.device not in simple and asked < _MOST_ASKED:
            asked += 1
            own = _own_identity(pid, file, proc)
            if own and own[:2] == file.device:
                simple.add(file.device)
            elif own:
                known = replace(file, own_identity=own)
        different.setdefault(known.identity, known)
    return list(different.values())


def mapped_version(pid: int, file: MappedFile, proc: Path = PROC) -> FileVersion:
    """The version of the file that a process maps; without times where it can't be asked."""
    status = status_told(pid, file.address_range, proc)
    if status is None or not (file.identity == file.numbers or status.identity == file.identity):
        return FileVersion(file.identity)
    return FileVersion(file.identity, *status[1:])


def status_told(pid: int, address_range: str, proc: Path = PROC) -> Status | None:
    """The status of the very file that a process maps there, through the kernel's own handle on the mapping: no file system is
    asked to look up a path. None where that isn't permitted, or nothing is mapped there any more."""
    try:
        return status_now(f"{proc}/{pid}/map_files/{address_range}") if address_range else None
    except OSError:
        return None


def own_identity(descriptor: int) -> Identity:
    """Of an open file, by its descriptor alone."""
    status = os.fstat(descriptor)
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


def identity_of(descriptor: int) -> tuple[Identity, Numbers] | None:
    """The identity of an open file, as told_apart() gives it of one that is mapped, and its numbers. None where it can't be
    mapped, so that no process runs code of it."""
    numbers, own = mapped_numbers(descriptor), own_identity(descriptor)
    if numbers is None:
        return None
    return own if _may_be_shared(numbers) and own[:2] != numbers[:2] else numbers, numbers


def version_of_open(descriptor: int) -> tuple[FileVersion, Numbers] | None:
    """The version of an open file, and its numbers; None where it can't be mapped."""
    told, status = identity_of(descriptor), os.fstat(descriptor)
    if told is None:
        return None
    return FileVersion(told[0], status.st_size, status.st_mtime_ns, status.st_ctime_ns), told[1]


def mapped_numbers(descriptor: int) -> Numbers | None:
    """The numbers by which maps would name an open file: mapped here for a moment and looked up in our own maps. None where it
    can't be mapped. TooManyOpenFiles where nobody can tell.

    Asking the same source is right on every kernel: older ones name the file of the layer below in the maps of an overlay.
    """
    import ctypes  # with mmap's buffer only

    try:
        with mmap.mmap(descriptor, 1, access=mmap.ACCESS_COPY) as mapping:
            anchor = ctypes.c_char.from_buffer(mapping)
            address = ctypes.addressof(anchor)
            del anchor
            text = Path("/proc/self/maps").read_bytes()
    except (OSError, ValueError) as error:
        raise_if_too_many(error, "/proc/self/maps")
        return None
    return _numbers_at(address, text)


def _may_be_shared(numbers: Numbers) -> bool:
    """Whether several files may have these numbers, as far as they tell: those of a block device are one file's."""
    return numbers[0] == 0


def _own_identity(pid: int, file: MappedFile, proc: Path) -> Identity | None:
    status = status_told(pid, file.address_range, proc)
    if status:
        return status.identity
    try:  # not permitted; what maps calls the path may be another file by now, which then has another inode
        found = stat_below(proc / str(pid) / "root", file.path, links=False)
    except OSError:
        return None
    own = os.major(found.st_dev), os.minor(found.st_dev), found.st_ino
    return own if found.st_ino == file.inode and not file.deleted else None


def _numbers_at(address: int, maps: bytes) -> Numbers | None:
    for match in re.finditer(rb"^(\w+)-(\w+) \S+ \w+ (\w+):(\w+) (\d+)", maps, re.MULTILINE):
        start, end, major, minor = (int(field, 16) for field in match.groups()[:4])
        if start <= address < end:
            return major, minor, int(match[5])
    return None
