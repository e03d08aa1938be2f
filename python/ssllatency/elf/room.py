# SPDX-License-Identifier: Apache-2.0
"""The memory that a stranger's file may take: never so much that the limit of our own control group ends us, as services have
one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ssllatency.host.kernel_text import kernel_lines, kernel_text

_MOST_COPIED = _MOST_PARSED = 1 << 30
_PART = 8  # of the limit, for the copy of a file, and as much for what is made of it: some files are read at once
_FILES = (("memory.max", ""), ("memory.limit_in_bytes", "memory"))  # of cgroup 2 and of version 1


@cache
def most_copied() -> int:
    """The bytes of a file that are copied at most."""
    return min(_MOST_COPIED, (memory_limit() or _MOST_COPIED * _PART) // _PART)


@cache
def most_parsed() -> int:
    """The bytes of memory that parsing it may take beyond that."""
    return min(_MOST_PARSED, (memory_limit() or _MOST_PARSED * _PART) // _PART)


def memory_limit(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The least limit of our control groups in bytes; None where there is none, or it can't be read."""
    try:
        lines = [line.split(":", 2) for line in kernel_lines(proc / "self/cgroup")]
    except OSError:
        return None
    limits = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        for name, controller in _FILES:
            if controller in controllers.split(","):
                folder = cgroups / controller / path.lstrip("/")
                limits += [limit for place in (folder, *folder.parents) if (limit := _limit(place / name)) is not None]
    return min(limits, default=None)


def _limit(file: Path) -> int | None:
    try:
        return int(kernel_text(file))
    except (OSError, ValueError):  # "max", or no control group
        return None
