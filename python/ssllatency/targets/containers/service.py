# SPDX-License-Identifier: Apache-2.0
"""Which service a process belongs to: its pod, its container, its systemd unit, or else its name. By the paths of
/proc/PID/cgroup, which every user may read, and the runtimes' own files for names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ssllatency.targets.containers.container import Container, parse_cgroup
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.processes import PROC

_HIERARCHIES = ("", "name=systemd")  # those that systemd manages: cgroup v2's, and its own of v1
_MANAGER = re.compile(r"user@\d+\.service")  # the user's own systemd, whose services lie below it
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # how systemd writes odd characters of a name
_SHOWN = 8  # characters of a pod's UID

NamesOf = Callable[[str], Mapping[str, str]]  # the names of containers, by ID, as far as they are known


class Kind(StrEnum):
    """What names the service. COMM: nothing but the process's own name."""

    POD = "pod"
    CONTAINER = "container"
    UNIT = "unit"
    COMM = "comm"


@dataclass(frozen=True)
class Service:
    """A service: "shop/web-7f9c" (NAMESPACE/POD), "docker:web", "nginx.service", "nginx". The name may have been chosen by
    anybody: it is to be made printable where it is shown."""

    name: str
    kind: Kind


def service_of(pid: int, comm: str, proc: Path = PROC, root: Path = Path("/")) -> Service:
    """The service of a process; of one that has ended, its name `comm`."""
    try:
        text = (proc / str(pid) / "cgroup").read_text(errors="backslashreplace")
    except OSError:
        text = ""
    return service_in(text, comm, lambda container: container_names([container], root))


def service_in(cgroup: str, comm: str, names_of: NamesOf) -> Service:
    """The service that the text of /proc/PID/cgroup tells of, the innermost where containers are nested."""
    containers = parse_cgroup(cgroup)
    if containers:
        return _contained(containers[-1], names_of)
    unit = unit_of(cgroup)
    return Service(unit, Kind.UNIT) if unit else Service(comm, Kind.COMM)


def _contained(container: Container, names_of: NamesOf) -> Service:
    name = names_of(container.id).get(container.id, "")
    if container.pod:
        pod = "/".join(name.split("/")[:2]) if name.count("/") >= 2 else f"pod:{container.pod[:_SHOWN]}"
        return Service(pod, Kind.POD)
    return Service(f"{container.runtime}:{name}" if name else container.shown, Kind.CONTAINER)


def unit_of(cgroup: str) -> str:
    """The innermost service of systemd that the text of /proc/PID/cgroup tells of, "" where there is none: in a session, a
    scope, or where systemd doesn't run."""
    lines = [line.split(":", 2) for line in cgroup.splitlines() if line.count(":") >= 2]
    for _, hierarchy, path in lines:
        folders = path.removesuffix(" (deleted)").split("/") if hierarchy in _HIERARCHIES else []
        for folder in reversed(folders):
            if folder.endswith(".service") and not _MANAGER.fullmatch(folder):
                return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), folder)
    return ""
