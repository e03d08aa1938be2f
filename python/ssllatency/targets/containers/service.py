# SPDX-License-Identifier: Apache-2.0
"""The service that a process belongs to: its pod, its container, its systemd unit, or else its name. By the paths of
/proc/PID/cgroup, which every user may read, and the runtimes' own files for names.

What lies below a user's own systemd that user has named, whatever it is called: user@1000.service/nginx.service isn't the
system's nginx.service. So has what lies below a service of the system that was given its own cgroups: of several names the
outermost counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.targets.containers.container import MANAGER, Container, cgroup_of, cgroup_paths, parse_cgroup
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.processes import PROC

_HIERARCHIES = ("", "name=systemd")  # those that systemd manages: cgroup v2's, and its own of v1
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # how systemd writes odd characters of a name
_SHOWN = 8  # characters of a pod's UID

NamesOf = Callable[[str], Mapping[str, str]]  # the names of containers, by ID, as far as they are known


class ServiceKind(StrEnum):
    """The source of the service's name. COMM: nothing but the process's own name."""

    POD = "pod"
    CONTAINER = "container"
    UNIT = "unit"
    COMM = "comm"


@dataclass(frozen=True)
class Service:
    """A service: "shop/web-7f9c" (NAMESPACE/POD), "docker:web", "nginx.service", "nginx". The name may have been chosen by
    anybody: make it printable where it is shown."""

    name: str
    kind: ServiceKind


def service_of(pid: int, comm: str, proc: Path = PROC, root: Path = Path("/")) -> Service:
    """The service of a process; of one that has ended, its name `comm`."""
    return service_in(cgroup_of(pid, proc), comm, lambda container: container_names([container], root))


def service_in(cgroup: str, comm: str, names_of: NamesOf) -> Service:
    """The service that the text of /proc/PID/cgroup tells of, the innermost where containers are nested."""
    containers = parse_cgroup(cgroup)
    if containers:
        contained = _contained(containers[-1], names_of)
        return replace(contained, name=owner_of(cgroup) + contained.name)
    unit = unit_of(cgroup)
    return Service(unit, ServiceKind.UNIT) if unit else Service(comm, ServiceKind.COMM)


def _contained(container: Container, names_of: NamesOf) -> Service:
    name = names_of(container.id).get(container.id, "") if container.is_hosts else ""
    if container.pod:
        pod = "/".join(name.split("/")[:2]) if name.count("/") >= 2 else f"pod:{container.pod[:_SHOWN]}"
        return Service(pod, ServiceKind.POD)
    return Service(f"{container.runtime}:{name}" if name else container.shown, ServiceKind.CONTAINER)


def unit_of(cgroup: str) -> str:
    """The service of systemd that the text of /proc/PID/cgroup tells of, a user's with owner_of() before it; "" where there is
    none: in a session, a scope, or where systemd doesn't run."""
    for folders in _paths(cgroup):
        for folder in folders:
            if folder.endswith(".service") and not MANAGER.fullmatch(folder):
                return owner_of(cgroup) + _ESCAPED.sub(lambda match: chr(int(match[1], 16)), folder)
    return ""


def owner_of(cgroup: str) -> str:
    """The prefix of the name of a service or container that a user runs: "user@1000.service/"; "" for the system's."""
    managers = (folder for folders in _paths(cgroup) for folder in folders if MANAGER.fullmatch(folder))
    return next((f"{manager}/" for manager in managers), "")


def _paths(cgroup: str) -> list[list[str]]:
    """The folders of each path that systemd manages."""
    paths = (path for hierarchy, path in cgroup_paths(cgroup) if hierarchy in _HIERARCHIES)
    return [path.removesuffix(" (deleted)").split("/") for path in paths]
