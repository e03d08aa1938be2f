# SPDX-License-Identifier: Apache-2.0
"""The only module that opens files of targets, and any other file whose path somebody else may control.

Whoever owns a tree may put links, pipes and devices into it. A path below a root is therefore resolved by the kernel with that
root as its /, so that no link leads out, not even one of /proc (openat2, since Linux 5.6; where it is missing, folder by
folder, and no link is followed). The path is first opened with O_PATH only, which touches no device and waits for no pipe. It
is opened for reading once it proves to be a regular file, of a real file system (to open or read a file of /proc, /sys or
debugfs may have effects), and no larger than the caller can use.

Whoever looks a name up in a file system that a program serves (FUSE), or asks which one that is, waits for that program. So
files of such trees are looked up without leaving the mount of the root; where that doesn't do, folder by folder, and of each
mount on the way the kernel's own list says what it is, before anything is looked up in it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

LARGEST = 4 << 30
LARGEST_DEBUG_FILE = 2 << 30

_SYS_OPENAT2 = 437  # on every architecture
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_IN_ROOT = 0x01, 0x02, 0x04, 0x10  # linux/openat2.h
_MOST_TRIES = 8  # a renamed folder makes the kernel give up on a path with EAGAIN
# linux/magic.h: what the kernel makes up as it is read; and FUSE, whose files take as long to read as their owner likes.
_MADE_UP = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x73636673: "securityfs",
    0x62656570: "configfs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup2",
    0xCAFE4A11: "bpf",
    0x1CD1: "devpts",
    0x6E736673: "nsfs",
    0xDE5E81E4: "efivarfs",
    0x6165676C: "pstore",
    0x65735543: "fusectl",
    0xF97CFF8C: "selinuxfs",
    0x42494E4D: "binfmt_misc",
}
_FUSE = 0x65735546
_MOUNT = rb" [^ \n]+ [^ \n]+ [^ \n]+ (?:[^ \n]+ )*?- ([^ \n]+) "  # a line of mountinfo behind its numbers
_MOUNTED = re.compile(rb"^\d+ \d+ (\d+):(\d+)" + _MOUNT, re.MULTILINE)
_MOST_MOUNTS = 32  # that a path leads into, of each of which the lists are read
_LONGEST_LIST = 4 << 20  # bytes of mountinfo: some 20,000 mounts
_MOST_LINKS = 40  # as the kernel has it
_MOST_NAMES, _MOST_FOLDERS = 512, 128  # looked up for a path, its links' included; held open at once


# struct statx: inode, size; changed and modified, each in seconds and ns; device.
_AT_FDCWD, _AT_STATX_DONT_SYNC, _STATX_BASIC_STATS = -100, 0x4000, 0x7FF
_STATX = struct.Struct("=32x QQ 48x qI4x qI4x 8x II 112x")


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


class NotRegular(OSError):
    """The file is no regular one of a real file system, or is too large."""


class _CrossesMount(OSError):
    """The path leads into another mount, or out of the root by it."""


class Status(NamedTuple):
    """The marks of a file: major, minor and inode of its own, its size, and when its content and its inode were last
    changed."""

    identity: tuple[int, int, int]
    size: int
    modified_ns: int
    changed_ns: int


def status_now(path: str) -> Status:
    """The status of what a link of the kernel's below /proc leads to, as the kernel knows it: no server of a network's or a
    program's file system is asked, which may never answer. OSError where there is none, or the kernel doesn't say."""
    buffer = ctypes.create_string_buffer(_STATX.size)
    if not hasattr(_LIBC, "statx"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    if _LIBC.statx(_AT_FDCWD, os.fsencode(path), _AT_STATX_DONT_SYNC, _STATX_BASIC_STATS, buffer):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    inode, size, changed_s, changed_ns, modified_s, modified_ns, major, minor = _STATX.unpack(buffer.raw)
    return Status((major, minor, inode), size, modified_s * 10**9 + modified_ns, changed_s * 10**9 + changed_ns)


def open_regular(path: str | Path, largest: int = LARGEST) -> int:
    """A descriptor (read only, close on exec) of the file at a path of ours: one that the user named, or /proc/self/fd/N. Links
    are followed. OSError where there is none, NotRegular for anything but a regular file, which isn't touched."""
    return open_handle(os.open(path, os.O_PATH | os.O_CLOEXEC), largest)


def open_below(root: str | Path, path: str, largest: int = LARGEST_DEBUG_FILE, *, by_owner: bool = False) -> int:
    """A descriptor of the file at a path of somebody else's tree: `root` stands for /, and links lead nowhere else. Never a
    file of FUSE, nor one below a folder of such: `by_owner` says that the host's owner alone decides what is mounted there."""
    return open_handle(_handle_of_disk(root, path, by_owner=by_owner), largest)


def stat_regular_below(
    root: str | Path, path: str, largest: int = LARGEST_DEBUG_FILE, *, by_owner: bool = False
) -> os.stat_result:
    """The status of a file that open_below() would open; OSError where it would open none."""
    handle = _handle_of_disk(root, path, by_owner=by_owner)
    try:
        return _regular(handle, largest)
    finally:
        os.close(handle)


def _handle_of_disk(root: str | Path, path: str, *, by_owner: bool) -> int:
    """A handle on a path of somebody else's tree that no program answers for, nor for a folder on the way: NotRegular where one
    does."""
    if by_owner:
        return _not_served(handle_below(root, path), path)
    if "\0" in path:
        raise OSError(errno.EINVAL, "is not a path as the kernel writes them", path)
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mounts = Mounts("/proc/self" if str(root) == "/" else Path(root).parent)
        if str(root) != "/" and mounts.is_served(folder):
            raise _served(path)
        with suppress(_CrossesMount):
            handle = _resolve(folder, path, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_XDEV)
            if handle is not None:
                return handle
        return walk_watching(folder, path, mounts.is_served)
    finally:
        os.close(folder)


def _not_served(handle: int, path: str) -> int:
    """The handle, unless a program serves its file: that is asked."""
    if file_system_of(handle) == _FUSE:
        os.close(handle)
        raise _served(path)
    return handle


def _served(path: str) -> NotRegular:
    return NotRegular(errno.EINVAL, "is of a file system in user space", path)


class Mounts:
    """The mounts that a process sees, given as its folder below /proc, for one look-up below its root."""

    def __init__(self, process: str | Path) -> None:
        self._lists = {Path(process) / "mountinfo", Path("/proc/self/mountinfo")}
        self._left = _MOST_MOUNTS

    def is_served(self, handle: int, above: int | None = None) -> bool:
        """Whether a program serves the file system that a handle is in, or nobody can tell, as of a mount that isn't listed, or
        of one too many. The file system isn't asked. `above` is another open handle, whose file system no program serves.

        The lists are read anew for each mount: while the handle is open, no other mount or file system can have the numbers of
        its own, but one that was listed before may have had them."""
        number = mount_of(handle)
        if above is not None and number == mount_of(above) != -1:
            return False
        self._left -= 1
        if self._left < 0:
            return True
        major, minor, _ = status_now(f"/proc/self/fd/{handle}").identity
        listed = self._read()
        if listed is None:
            return True
        # The mount of a root that chroot made isn't listed for its process: another one of that device may be.
        kind = _kind_in(listed, rb"%d \d+ \d+:\d+" % number) or _kind_in(listed, rb"\d+ \d+ %d:%d" % (major, minor))
        if kind is None:
            return bool(listed) and not major  # a disk's has a major number
        return is_served_kind(kind)

    def _read(self) -> bytes | None:
        """The lists of the process and of our own; None where one is longer than what is looked through."""
        texts = []
        for path in self._lists:
            with suppress(OSError):
                texts.append(_list_at(path))
        return None if any(len(text) > _LONGEST_LIST for text in texts) else b"".join(texts)


def _list_at(path: Path) -> bytes:
    """A list of mounts; of a longer one than is looked through no more than shows that."""
    with path.open("rb") as file:
        return file.read(_LONGEST_LIST + 1)


def _kind_in(listed: bytes, numbers: bytes) -> bytes | None:
    """The kind of the file system of the mount with these numbers; None where none is listed."""
    match = re.search(rb"^" + numbers + _MOUNT, listed, re.MULTILINE)
    return match[1] if match else None


def is_served_kind(kind: bytes) -> bool:
    """Whether a program serves file systems of this kind, as mountinfo calls it."""
    return kind.partition(b".")[0] in (b"fuse", b"fuseblk")  # the latter is of a disk, too


def kinds_by_device(listed: bytes) -> dict[tuple[int, int], bytes]:
    """The kind of the file system on each device, given as its major and minor number, in the text of a mountinfo."""
    return {(int(major), int(minor)): kind for major, minor, kind in _MOUNTED.findall(listed)}


def mount_of(handle: int) -> int:
    """The number of the mount that a handle is in; -1 where the kernel doesn't tell."""
    with open(f"/proc/self/fdinfo/{handle}", "rb", buffering=0) as file:  # noqa: PTH123
        number = re.search(rb"^mnt_id:\s*(\d+)$", file.read(1 << 12), re.MULTILINE)
    return int(number[1]) if number else -1


def _close_all(handles: Iterable[int]) -> None:
    for handle in handles:
        os.close(handle)


def _too_long(path: str) -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def walk_watching(folder: int, path: str, is_served: Callable[[int, int], bool]) -> int:
    """A handle on a path below the folder, which is / for its links: found folder by folder, of which none may be served by a
    program. NotRegular where one is. A folder stays open until the path has left it, as nothing else leads back safely."""
    with ExitStack() as opened:
        above = [os.dup(folder)]
        opened.callback(_close_all, above)
        names, links, looked_up = deque(path.split("/")), 0, 0
        while names:
            name = names.popleft()
            if name == "..":
                for _ in above[1:][-1:]:
                    os.close(above.pop())
            if name in ("", ".", ".."):
                continue
            looked_up += 1
            if looked_up > _MOST_NAMES or len(above) > _MOST_FOLDERS:
                raise _too_long(path)
            above.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above[-1]))
            if is_served(above[-1], above[-2]):
                raise _served(path)
            if stat.S_ISLNK(os.fstat(above[-1]).st_mode):
                leads_to, links = os.readlink("", dir_fd=above[-1]), links + 1
                if links > _MOST_LINKS or file_system_of(above[-1]) in _MADE_UP:  # those of /proc lead anywhere
                    raise _too_long(path)
                for _ in range(len(above) - 1 if leads_to.startswith("/") else 1):
                    os.close(above.pop())
                names.extendleft(reversed(leads_to.split("/")))
        return above.pop() if len(above) > 1 else os.dup(folder)


def stat_below(root: str | Path, path: str, *, links: bool = True) -> os.stat_result:
    """The status of what is at a path of somebody else's tree; without `links` a path that holds one is an error. OSError where
    nothing is there."""
    handle = handle_below(root, path, links=links)
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def handle_below(root: str | Path, path: str, *, links: bool = True) -> int:
    """A handle (O_PATH) on a path of somebody else's tree, for the caller to close. OSError where nothing is there, or a link
    would have to be followed without `links`."""
    if "\0" in path or (not links and {".", ".."} & set(path.split("/"))):
        raise OSError(errno.EINVAL, "is not a path as the kernel writes them", path)
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        handle = _resolve(folder, path, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS | (0 if links else _RESOLVE_NO_SYMLINKS))
        return _walk(folder, path) if handle is None else handle
    finally:
        os.close(folder)


def open_handle(handle: int, largest: int = LARGEST) -> int:
    """Opens for reading what an O_PATH handle, which is closed, stands for, as open_regular() does."""
    try:
        _regular(handle, largest)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        os.close(handle)


def _regular(handle: int, largest: int) -> os.stat_result:
    """The status of a handle's file; NotRegular for what isn't to be opened for reading."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(errno.EINVAL, "is not a regular file")
    if status.st_size > largest:
        raise NotRegular(errno.EFBIG, f"is larger than {largest >> 30} GiB, more than any library")
    if file_system_of(handle) in _MADE_UP:
        raise NotRegular(errno.EINVAL, "is not a regular file of a disk")
    return status


def _resolve(folder: int, path: str, resolve: int) -> int | None:
    """By openat2; None where the kernel, or a filter of system calls around us, doesn't have it."""
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, resolve)
    name = ctypes.c_char_p(os.fsencode(path))
    for _ in range(_MOST_TRIES):
        handle = _LIBC.syscall(
            ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(folder), name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if handle >= 0:
            return int(handle)
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM):
            return None
        if number == errno.EXDEV and resolve & _RESOLVE_NO_XDEV:
            raise _CrossesMount(number, os.strerror(number), path)
        if number != errno.EAGAIN:
            break
    raise OSError(number, os.strerror(number), path)


def _walk(folder: int, path: str) -> int:
    """Folder by folder; OSError where a link or ".." would have to be followed."""
    handle = os.dup(folder)
    try:
        for name in filter(None, path.split("/")):
            if name == "..":
                raise OSError(errno.EINVAL, "leads upwards", path)
            following = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            os.close(handle)
            handle = following
            if stat.S_ISLNK(os.fstat(handle).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def file_system_of(handle: int) -> int:
    """The magic number of the file system that a handle is in. OSError where it can't be told."""
    words = (ctypes.c_long * 32)()  # struct statfs, whose first member is f_type
    if _LIBC.fstatfs(handle, ctypes.byref(words)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(words[0]) & 0xFFFFFFFF
