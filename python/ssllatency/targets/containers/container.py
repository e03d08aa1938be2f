# SPDX-License-Identifier: Apache-2.0
"""The container that a process is in, from the paths of /proc/PID/cgroup, which every user may read.

No runtime is queried: each writes the container's ID into the path, in its own way:

    /docker/ID    /system.slice/docker-ID.scope                                     Docker, by cgroupfs and by systemd
    /machine.slice/libpod-ID.scope/container    /libpod_parent/libpod-ID            Podman
    /default/NAME    /system.slice/nerdctl-ID.scope                                 containerd by ctr and by nerdctl
    /kubepods/burstable/podUID/ID                                                   Kubernetes by cgroupfs
    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope        and by systemd
    /system.slice/containerd.service/kubepods-burstable-podUID.slice:cri-containerd:ID      by both at once, mixed up
    /lxc.payload.NAME    /machine.slice/systemd-nspawn@NAME.service                 containers that have a name, no ID

Containers may be nested (Docker in a pod); a path then names all of them, the innermost last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.errors import Absent, SsllatencyError, did_you_mean
from ssllatency.host.kernel_text import kernel_text, lines_in
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.processes import PROC, Process

_ID = r"[0-9a-f]{64}|[0-9a-f]{32}-\d{1,20}"  # the second is that of Amazon ECS
_WITH_ID = re.compile(rf"(?:(?P<prefix>[a-z][\w-]*)[-:])?(?P<id>{_ID})(?:\.scope)?")
_NAMED = (
    ("lxc", re.compile(r"lxc\.payload\.(?P<id>.+)")),
    ("nspawn", re.compile(r"systemd-nspawn@(?P<id>.+)\.service")),
    ("nspawn", re.compile(r"machine-(?!qemu\\x2d)(?P<id>.+)\.scope")),
)
UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:.*-)?pod(?P<uid>{UID})(?:\.slice)?")
_RUNTIMES = {"libpod": "podman", "libpod-payload": "podman", "crio": "cri-o", "cri-containerd": "containerd"}
_NOT_CONTAINERS = ("libpod-conmon", "crio-conmon")  # the processes that watch over one
MANAGER = re.compile(r"user@[0-9]+\.service")  # the user's own systemd, below which users make and name cgroups
_SLICE = re.compile(r"user-[0-9]+\.slice")  # around that, and around the sessions in which the user has logged in
_SHOWN = 12  # characters of an ID, as the runtimes themselves show it


@dataclass(frozen=True)
class Container:
    """A container: `runtime` as "docker", "container" where the path doesn't tell; `id` its ID, or the name of one without;
    `pod` the UID that Kubernetes gave its pod, or ""; `name` what people call it, "" where that isn't known. `owner`: as
    owner_in() tells it of where it is. `within`: the ID of the container that
    it is in, "" for an outermost one. Users and containers may give theirs anybody's ID."""

    runtime: str
    id: str
    pod: str = ""
    name: str = ""
    owner: str = ""
    within: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The values that tell it apart from others."""
        return self.owner, self.within, self.id

    @property
    def is_hosts(self) -> bool:
        """Whether the host's own runtimes have made it, so that their files tell of it."""
        return not (self.owner or self.within)

    @property
    def shown(self) -> str:
        """RUNTIME:NAME, or RUNTIME:ID, a long ID cut short as runtimes do."""
        return f"{self.runtime}:{self.name or (self.id[:_SHOWN] if re.fullmatch(_ID, self.id) else self.id)}"


def containers_in(path: str) -> tuple[Container, ...]:
    """The containers that a cgroup's path names, the outermost first."""
    containers: list[Container] = []
    pod, above = "", ""
    for name in filter(None, path.removesuffix(" (deleted)").split("/")):
        # Where systemd's form of a path was given to cgroupfs, one name holds what should be three.
        for part in name.split(":", 1) if ".slice:" in name else (name,):
            if uid := _POD.fullmatch(part):
                pod = uid["uid"].replace("_", "-")
            elif container := _container(part, above, pod):
                containers.append(
                    replace(container, owner=owner_in(above.split("/")), within=containers[-1].id if containers else "")
                )
                pod = ""
        above = f"{above}/{name}"
    return tuple(containers)


def owner_in(folders: Iterable[str]) -> str:
    """The user whose own systemd these folders of a cgroup's path lie below, as "user@1000.service/"; or else whose sessions
    they are, as "user-1000.slice/"; "" for the system's."""
    slices = ""
    for folder in folders:
        if MANAGER.fullmatch(folder):
            return f"{folder}/"
        slices = slices or (f"{folder}/" if _SLICE.fullmatch(folder) else "")
    return slices


def parse_cgroup(text: str) -> tuple[Container, ...]:
    """The containers that the text of /proc/PID/cgroup names: cgroup v2 has one line, 0::PATH, v1 one for each hierarchy."""
    return max((containers_in(path) for _, path in cgroup_paths(text)), key=len, default=())


def cgroup_paths(text: str) -> list[tuple[str, str]]:
    """The hierarchies that the text of /proc/PID/cgroup names, and the path in each. A newline alone ends a line: a name may
    hold any other character but /."""
    lines = (line.split(":", 2) for line in lines_in(text))
    return [(fields[1], fields[2]) for fields in lines if len(fields) == 3]


def cgroup_of(pid: int, proc: Path = PROC) -> str:
    """The text of /proc/PID/cgroup; "" for a process that has ended."""
    try:
        return kernel_text(proc / str(pid) / "cgroup")
    except OSError:
        return ""


def containers_of(pid: int, proc: Path = PROC) -> tuple[Container, ...]:
    """The containers that process `pid` is in, the outermost first; none for a process that has ended."""
    return parse_cgroup(cgroup_of(pid, proc))


def _container(name: str, above: str, pod: str) -> Container | None:
    if match := _WITH_ID.fullmatch(name):
        prefix = match["prefix"] or ""
        return None if prefix in _NOT_CONTAINERS else Container(_runtime(prefix, above), match["id"], pod)
    if above == "/default" or above.endswith(("/lxc", "/lxc.payload")):
        return Container("containerd" if above == "/default" else "lxc", _unescaped(name), pod)
    named = ((runtime, pattern.fullmatch(name)) for runtime, pattern in _NAMED)
    return next((Container(runtime, _unescaped(match["id"]), pod) for runtime, match in named if match), None)


def _runtime(prefix: str, above: str) -> str:
    if prefix:
        return _RUNTIMES.get(prefix, prefix)
    folders = above.split("/")[1:]
    if any(folder.startswith("kubepods") for folder in folders):
        return "kubernetes"
    runtimes = {"docker": "docker", "default": "containerd", "libpod_parent": "podman", "ecs": "ecs"}
    return next((runtimes[folder] for folder in reversed(folders) if folder in runtimes), "container")


def _unescaped(name: str) -> str:
    """systemd writes odd characters of a name as \\xNN."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)


def in_container(wanted: str, processes: Iterable[Process], proc: Path = PROC, root: Path = Path("/")) -> list[Process]:
    """The processes in the container whose ID, prefix of the ID, name or pod UID is `wanted`, and those in containers inside
    it; one that a user or a container has made only where none of the host's is it. Absent if there is no such container,
    SsllatencyError for a prefix that several share."""
    chains = {process: containers_of(process.pid, proc) for process in processes}
    containers = {container.key: container for chain in chains.values() for container in chain}
    names = container_names([one.id for one in containers.values() if one.is_hosts], root)
    wanted = wanted.rpartition(":")[2]
    found = _called(wanted, [one for one in containers.values() if one.is_hosts], names)
    found = found or _called(wanted, [one for one in containers.values() if not one.is_hosts], {})
    if not found:
        known = did_you_mean(wanted, [*(one.id for one in containers.values()), *names.values()])
        raise Absent(f"No process is in a container {wanted}: {known}`ssllatency targets` shows containers.")
    if len(found) > 1 and not all(container.pod == wanted for container in found):
        several = ", ".join(sorted(container.owner + container.shown for container in found))
        raise SsllatencyError(f"{wanted} fits {len(found)} containers ({several}): write more of the ID.")
    keys = {container.key for container in found}
    return [process for process, chain in chains.items() if any(one.key in keys for one in chain)]


def _called(wanted: str, containers: Collection[Container], names: Mapping[str, str]) -> set[Container]:
    """Those of the containers that are meant."""
    found = {one for one in containers if wanted and wanted in (one.id, one.pod, names.get(one.id))}
    return found or {one for one in containers if wanted and one.id.startswith(wanted)}
