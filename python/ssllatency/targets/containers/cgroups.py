# SPDX-License-Identifier: Apache-2.0
"""Control groups as a target: the folder that a path, or a unit of systemd, means, and the processes in it and below."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ssllatency.errors import Absent, SsllatencyError, did_you_mean
from ssllatency.host.kernel_text import kernel_lines, kernel_text
from ssllatency.targets.containers.container import MANAGER
from ssllatency.targets.processes import PROC

_PROCESSES = "cgroup.procs"
_UNIFIED = "cgroup2"
_ESCAPED = re.compile(r"\\([0-7]{3})")
_DEEPEST = 32  # folders below one another; a cgroup's own limit is the administrator's
_BOOTED = "run/systemd/system"  # there where systemd manages the machine: sd_booted(3)
_UNIT = re.compile(r"[\w:.\\@-]{1,249}\.(?:service|scope|slice)", re.ASCII)  # the kinds that have processes
_HOLDS_UNITS = re.compile(r".+\.slice|user@\d+\.service")


def cgroup_folder(text: str, proc: Path = PROC, *, nobody: bool = False) -> Path:
    """The folder of a cgroup, named by its path, or as /proc/PID/cgroup shows it. Absent if there is none, unless `nobody`
    allows an empty target: then the folder where it would be. A path of the second kind is searched for in cgroup 2 first."""
    points = [point for _, point, _ in _hierarchies(proc)]
    below = [point / text.lstrip("/") for point in points]
    for folder in (Path(text), *below):
        if _is_cgroup(folder):
            return folder.resolve()
    if nobody and below and text.strip("/"):
        return Path(text) if any(Path(text).is_relative_to(point) for point in points) else below[0]
    raise Absent(f"There is no cgroup {text}: name its folder, or the path that /proc/PID/cgroup shows.")


def unit_folder(name: str, proc: Path = PROC, root: Path = Path("/"), *, nobody: bool = False) -> Path:
    """The cgroup of a unit of systemd; a name without a suffix is that of a service, as for systemctl. Absent if it has none,
    unless `nobody` allows an empty target: then the folder where a service of the system would be."""
    unit = name if _UNIT.fullmatch(name) else f"{name}.service"
    if not _UNIT.fullmatch(unit):
        raise SsllatencyError(f"{name} isn't a unit's name, like nginx.service.", 2)
    # Of a version 1 hierarchy only systemd's own has every unit.
    points = [point for kind, point, own in _hierarchies(proc) if kind == _UNIFIED or own]
    places = [f"system.slice/{unit}", unit]
    folders = [point / place for place in places for point in points]
    found = next((folder for folder in folders if _is_cgroup(folder)), None) or _unit_below(unit, points)
    user = next((part for part in found.parts if MANAGER.fullmatch(part)), "") if found else ""
    if user and not nobody:
        raise SsllatencyError(f"The unit {unit} isn't one of the system's, but of {user}: --cgroup {found} names that.")
    if found and not user:
        return found.resolve()
    if not (root / _BOOTED).is_dir():
        raise SsllatencyError(
            f"There is no unit {unit}, as systemd doesn't manage this machine: name the server by --comm or --port."
        )
    if nobody and folders:
        return folders[0]
    meant = did_you_mean(unit, _names(points))
    raise Absent(f"The unit {unit} isn't running: {meant}check its name (systemctl status {unit}).")


def _names(points: Iterable[Path]) -> list[str]:
    """The units of the system that run."""
    names = []
    for point in points:
        with suppress(OSError):
            names += [entry.name for entry in os.scandir(point / "system.slice") if _UNIT.fullmatch(entry.name)]
    return names


def _unit_below(unit: str, points: Iterable[Path]) -> Path | None:
    """The folder of a unit in another slice: those of templates, of users, of machines."""
    for point in points:
        for folder in _folders(point, _DEEPEST, _HOLDS_UNITS):
            if _is_cgroup(folder / unit):
                return folder / unit
    return None


def _is_cgroup(folder: Path) -> bool:
    return (folder / _PROCESSES).is_file()


def is_unified(folder: Path, proc: Path = PROC) -> bool:
    """Whether the folder is one of cgroup 2."""
    holding = [(len(point.parts), kind) for kind, point, _ in _hierarchies(proc) if folder.is_relative_to(point)]
    return max(holding, default=(0, ""))[1] == _UNIFIED


def cgroup_members(folder: Path) -> set[int]:
    """The processes in a cgroup and in those below it; none where it is gone."""
    pids: set[int] = set()
    for path in _folders(folder, _DEEPEST):
        try:
            pids.update(int(line) for line in kernel_text(path / _PROCESSES).split())
        except (OSError, ValueError):  # gone meanwhile, or a group of threads only
            continue
    return pids - {0}


def _folders(folder: Path, depth: int, named: re.Pattern[str] = re.compile(".*")) -> Iterator[Path]:
    """The folder and those below it that have such names, and only they."""
    yield folder
    try:
        entries = [entry for entry in os.scandir(folder) if named.fullmatch(entry.name)]
        below = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in below if depth else ():
        yield from _folders(path, depth - 1, named)


def _hierarchies(proc: Path) -> list[tuple[str, Path, bool]]:
    """The cgroup file systems that we see, that of cgroup 2 first: the kind, the place, and whether it is systemd's own of
    cgroup 1."""
    try:
        lines = kernel_lines(proc / "self" / "mountinfo")
    except OSError:
        return []
    mounts = []
    for line in lines:
        head, _, tail = line.partition(" - ")
        kind = tail.partition(" ")[0]
        if kind in ("cgroup", _UNIFIED):
            point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), head.split(" ")[4])
            mounts.append((kind, Path(point), "name=systemd" in tail.split(" ")[-1].split(",")))
    return sorted(mounts, key=lambda mount: mount[0] != _UNIFIED)
