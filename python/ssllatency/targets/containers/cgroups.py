# SPDX-License-Identifier: Apache-2.0
"""Control groups as a target: the folder that a path means, and the processes in it and below."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ssllatency.errors import Absent
from ssllatency.targets.processes import PROC

_PROCESSES = "cgroup.procs"
_UNIFIED = "cgroup2"
_ESCAPED = re.compile(r"\\([0-7]{3})")
_DEEPEST = 32  # folders below one another; a cgroup's own limit is the administrator's


def cgroup_folder(text: str, proc: Path = PROC, *, nobody: bool = False) -> Path:
    """The folder of a cgroup, named by its path, or as /proc/PID/cgroup shows it. Absent if there is none, unless `nobody`
    allows an empty target: then the folder where it would be. A path of the second kind is searched for in cgroup 2 first."""
    points = [point for _, point in sorted(_mounts(proc), key=lambda mount: mount[0] != _UNIFIED)]
    below = [point / text.lstrip("/") for point in points]
    for folder in (Path(text), *below):
        if (folder / _PROCESSES).is_file():
            return folder.resolve()
    if nobody and below and text.strip("/"):
        return Path(text) if any(Path(text).is_relative_to(point) for point in points) else below[0]
    raise Absent(f"There is no cgroup {text}: name its folder, or the path that /proc/PID/cgroup shows.")


def is_unified(folder: Path, proc: Path = PROC) -> bool:
    """Whether the folder is one of cgroup 2."""
    holding = [(len(point.parts), kind) for kind, point in _mounts(proc) if folder.is_relative_to(point)]
    return max(holding, default=(0, ""))[1] == _UNIFIED


def cgroup_members(folder: Path) -> set[int]:
    """The processes in a cgroup and in those below it; none where it is gone."""
    pids: set[int] = set()
    for path in _folders(folder, _DEEPEST):
        try:
            pids.update(int(line) for line in (path / _PROCESSES).read_text().split())
        except (OSError, ValueError):  # gone meanwhile, or a group of threads only
            continue
    return pids - {0}


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    yield folder
    try:
        below = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in below if depth else ():
        yield from _folders(path, depth - 1)


def _mounts(proc: Path) -> list[tuple[str, Path]]:
    """The kinds and places of the cgroup file systems that we see."""
    try:
        lines = (proc / "self" / "mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    mounts = []
    for line in lines:
        head, _, tail = line.partition(" - ")
        kind = tail.partition(" ")[0]
        if kind in ("cgroup", _UNIFIED):
            point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), head.split()[4])
            mounts.append((kind, Path(point)))
    return mounts
