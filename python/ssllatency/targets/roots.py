# SPDX-License-Identifier: Apache-2.0
"""The debug files that are trusted for a mapped file: the host's always, and first; those in the process's own root only where
that root is a separate file system that the file is part of.

A process may make a root for itself in a user namespace, with files of the host bound into it, and put debug files beside them
that say of the host's libraries what it likes. So the root of such a process isn't searched, nor any root for a file that was
merely mounted or passed into it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

from ssllatency.safe_open import handle_below, mount_of

_NS_GET_USERNS = 0xB701
_OWN_NAMESPACE = "/proc/self/ns/user"


def debug_roots(file: str | Path, path: str, root: str) -> tuple[str, ...]:
    """The roots in which debug files of the open `file` are looked for, in this order.

    `path` is where its process has it, `root` where that process's root lies for us (/proc/PID/root).
    """
    return ("/", root) if root != "/" and _speaks_for(file, path, root) else ("/",)


def _speaks_for(file: str | Path, path: str, root: str) -> bool:
    try:
        return not os.path.samefile(root, "/") and _is_ours(Path(root).parent) and _holds(root, path, os.stat(file))  # noqa: PTH116, PTH121
    except OSError:
        return False


def _is_ours(process: Path) -> bool:
    """Whether the process's mounts were set up with our own privileges: neither the process nor its mounts belong to another
    user namespace."""
    ours = os.stat(_OWN_NAMESPACE)  # noqa: PTH116
    if not os.path.samestat(os.stat(process / "ns/user"), ours):  # noqa: PTH116
        return False
    with ExitStack() as stack:
        mounts = _opened(stack, os.open(process / "ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        return os.path.samestat(os.fstat(_opened(stack, fcntl.ioctl(mounts, _NS_GET_USERNS))), ours)


def _holds(root: str, path: str, status: os.stat_result) -> bool:
    """Whether the file lies at `path` below the root, on the very mount that the root is on.

    Of a root below ours in one tree of mounts, as chroot alone makes it, the kernel shows us paths that begin with the root's.
    """
    above = os.readlink(root).rstrip("/")  # noqa: PTH115
    paths = [path, *([path.removeprefix(above)] if above and path.startswith(f"{above}/") else [])]
    with ExitStack() as stack:
        top = _opened(stack, os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        return any(_is_at(root, candidate, status, _mount(top)) for candidate in paths)


def _is_at(root: str, path: str, status: os.stat_result, mount: int) -> bool:
    with ExitStack() as stack:
        try:
            fd = _opened(stack, handle_below(root, path, links=False))
        except OSError:
            return False
        return os.path.samestat(os.fstat(fd), status) and _mount(fd) == mount


def _opened(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _mount(descriptor: int) -> int:
    """The number of the mount that a descriptor was opened on."""
    number = mount_of(descriptor)
    if number < 0:
        raise OSError(0, "the kernel doesn't tell mounts")
    return number
