# SPDX-License-Identifier: Apache-2.0
"""Opens exactly the file that a process maps, whatever its paths say by now.

/proc/PID/map_files/RANGE is the kernel's own handle: it works for deleted files and in other mount namespaces, but needs
CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN, and for another user's process CAP_DAC_READ_SEARCH. Failing that the path is tried,
through the process's root first, as safe_open does. The kernel shows the path of a mapping without symbolic links, so one on
the way was put there later: none is followed. What is opened is kept only if it is the file that was found in maps.

Who reads a file of a file system in user space (FUSE) waits as long as the program likes that serves it, and no Ctrl-C ends
that. So such files are opened only of processes that were named one by one. Which they are is told by the device in maps, and
by the mounts that the process sees: to ask the file itself is to ask that program. A device that is mounted nowhere any more
may be one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from ssllatency.errors import SsllatencyError, raise_if_too_many
from ssllatency.safe_open import handle_below, is_served_kind, kinds_by_device, open_handle, open_regular
from ssllatency.targets.identity import Identity, MappedFile, identity_of, mapped_numbers, own_identity
from ssllatency.targets.maps import as_root
from ssllatency.targets.processes import PROC, exists

Device = tuple[int, int]

_named_processes = False


def open_mapped(pid: int, mapped: MappedFile, proc: Path = PROC) -> int:
    """A descriptor (read only, close on exec) of the very file that `pid` maps; the caller closes it.

    SsllatencyError where the process is gone, root is needed, or the file can't be reached any more; TooManyOpenFiles where no
    descriptor is left.
    """
    if is_in_user_space(pid, mapped.device, proc):
        raise SsllatencyError(
            f"{mapped.path}, which process {pid} maps, isn't read, as a program serves it (FUSE), which may never answer:"
            f" name the process (-p {pid}) to trace it all the same."
        )
    refused = False
    for find_handle in _ways(pid, mapped, proc):
        try:
            fd = open_handle(find_handle())
        except OSError as error:
            raise_if_too_many(error, mapped.path)
            refused = refused or isinstance(error, PermissionError)
            continue
        if _is_file(fd, mapped):
            return fd
        os.close(fd)
    raise _failure(pid, mapped, proc, refused)


def file_identity(path: str | Path) -> Identity:
    """The identity of the file at a path, which mapped_files() gives for every process that maps it.

    SsllatencyError where there is no such file, or it isn't a regular file with something in it.
    """
    try:
        fd = open_regular(path)
    except OSError as error:
        raise SsllatencyError(f"Can't open the library {path} ({error.strerror}): check the path.") from error
    try:
        told = identity_of(fd)
    finally:
        os.close(fd)
    if told is None:
        raise SsllatencyError(f"{path} can't be mapped, so no process runs code of it: name a library or an executable.")
    return told[0]


def _ways(pid: int, mapped: MappedFile, proc: Path) -> Iterator[Callable[[], int]]:
    base = proc / str(pid)
    yield partial(_handle, base / "map_files" / mapped.address_range)
    yield partial(handle_below, base / "root", mapped.path, links=False)
    # A process that changed its root after it loaded its libraries: the kernel then shows paths from our root.
    yield partial(handle_below, "/", mapped.path, links=False)


def _handle(path: Path) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _is_file(fd: int, mapped: MappedFile) -> bool:
    """Its numbers are asked for where they are all that is known of the mapping."""
    if own_identity(fd) == mapped.identity:
        return True
    return mapped.identity == mapped.numbers and mapped_numbers(fd) == mapped.numbers


def _failure(pid: int, mapped: MappedFile, proc: Path, refused: bool) -> SsllatencyError:
    if not exists(pid, proc):
        return SsllatencyError(f"Process {pid} has ended: trace one that is running.")
    if refused:
        advice = as_root("CAP_CHECKPOINT_RESTORE and CAP_DAC_READ_SEARCH")
        return SsllatencyError(f"Not permitted to open {mapped.path} as process {pid} maps it: {advice}.")
    return SsllatencyError(
        f"The file that process {pid} maps as {mapped.path} can't be reached any more: restart the process, so that it maps the"
        " file that is there now."
    )


def name_processes(*, named: bool) -> None:
    """Takes it that the processes to look at were named one by one, and so are traced whatever they map, or not so."""
    global _named_processes
    _named_processes = named


def is_in_user_space(pid: int, device: Device, proc: Path = PROC) -> bool:
    """Whether a file of that device, which the process maps, is, or may be, served by a program, and isn't to be opened."""
    if device[0] or _named_processes or device == _in_memory():
        return False
    kinds = {**_kinds_of("self", proc), **_kinds_of(str(pid), proc)}
    kind = kinds.get(device)
    if not kinds:
        return False
    return kind is None or is_served_kind(kind)


def _kinds_of(process: str, proc: Path) -> dict[Device, bytes]:
    """The kind of the file system on each device that the process sees mounted."""
    try:
        text = (proc / process / "mountinfo").read_bytes()
    except OSError:
        return {}
    return kinds_by_device(text)


@cache
def _in_memory() -> Device:
    """The device of files that are in memory alone (memfd), which is mounted nowhere."""
    try:
        descriptor = os.memfd_create("ssllatency", os.MFD_CLOEXEC)
    except OSError:
        return 0, 0
    try:
        status = os.fstat(descriptor)
        return os.major(status.st_dev), os.minor(status.st_dev)
    finally:
        os.close(descriptor)
