# SPDX-License-Identifier: Apache-2.0
"""The service that a process belongs to: its pod, its container, its systemd unit, or else its name. By the paths of
/proc/PID/cgroup, which every user may read, and the runtimes' own files for names.

What lies below a user's own systemd that user has named, whatever it is called: user@1000.service/nginx.service isn't the
system's nginx.service. So has who runs in a session of that user's the process's own name: user-1000.slice/nginx. So has what
lies below a service of the system that was given its own cgroups: of several names the outermost counts.

A process that is in no unit at all has its own name, which anybody may have chosen where no systemd puts users into slices:
one that reads like a unit's, a user's or a container's, as they are called here, has "comm:" before it. Of a container's bare
name, as `export` has it, nobody can tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.targets.containers.container import MANAGER, Container, cgroup_of, cgroup_paths, owner_in, parse_cgroup
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.processes import PROC

_HIERARCHIES = ("", "name=systemd")  # those that systemd manages: cgroup v2's, and its own of v1
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # how systemd writes odd characters of a name
_READS_LIKE_ANOTHER = re.compile(r"[/:]|\.(?:service|scope|slice)\Z")
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
        return replace(contained, name=containers[-1].owner + contained.name)
    unit = unit_of(cgroup)
    return Service(unit, ServiceKind.UNIT) if unit else Service(called_in(cgroup, comm), ServiceKind.COMM)


def _contained(container: Container, names_of: NamesOf) -> Service:
    name = names_of(container.id).get(container.id, "") if container.is_hosts else ""
    if container.pod:
        pod = "/".join(name.split("/")[:2]) if name.count("/") >= 2 else f"pod:{container.pod[:_SHOWN]}"
        return Service(pod, ServiceKind.POD)
    return Service(f"{container.runtime}:{name}" if name else container.shown, ServiceKind.CONTAINER)


def unit_of(cgroup: str) -> str:
    """The service of systemd that the text of /proc/PID/cgroup tells of, a user's with that user before it, as owner_in() tells
    it; "" where there is none: in a session, a scope, or where systemd doesn't run."""
    for folders in _paths(cgroup):
        above = list(takewhile(_is_no_service, folders))
        if len(above) < len(folders):
            return owner_in(above) + _ESCAPED.sub(lambda match: chr(int(match[1], 16)), folders[len(above)])
    return ""


def called_in(cgroup: str, comm: str) -> str:
    """The name of the service of a process of this name that is in no unit and no container, as the text of its
    /proc/PID/cgroup tells."""
    owner = next(filter(None, map(owner_in, _paths(cgroup))), "")
    return f"{owner or ('comm:' if _READS_LIKE_ANOTHER.search(comm) else '')}{comm}"


def _is_no_service(folder: str) -> bool:
    """Whether a folder of a cgroup's path is no service of systemd's but, at most, the systemd of a user."""
    return not folder.endswith(".service") or MANAGER.fullmatch(folder) is not None


def _paths(cgroup: str) -> list[list[str]]:
    """The folders of each path that systemd manages."""
    paths = (path for hierarchy, path in cgroup_paths(cgroup) if hierarchy in _HIERARCHIES)
    return [path.removesuffix(" (deleted)").split("/") for path in paths]
