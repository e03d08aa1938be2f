# SPDX-License-Identifier: Apache-2.0
"""Kubernetes pods. The cgroup path of a process tells the UID of its pod; the name that people know is in the folders that
kubelet keeps for logs, NAMESPACE_NAME_UID below /var/log/pods (readable by root), on this file system or, in a container that
sees the host's processes, on that of PID 1. Kubernetes itself isn't asked.

Where kubelet's folders can't be read, the pod's host name serves, which the runtime writes into /etc/hostname in containers:
the name of the pod, unless its specification says otherwise. (HOSTNAME in the environment won't do: nginx overwrites it with
its title.) The pod may have changed the file, so it never stands in for a name that is known.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ssllatency.errors import Absent, SsllatencyError, did_you_mean
from ssllatency.safe_open import open_below
from ssllatency.targets.containers.container import UID, Container, containers_of
from ssllatency.targets.processes import PROC, Process, root_of

_PODS = "var/log/pods"
_FOLDER = re.compile(rf"(?P<namespace>[^_]+)_(?P<name>[^_]+)_(?P<uid>{UID})")
_HOST_NAME, _LARGEST = "/etc/hostname", 4096
_MOST_ASKED = 16  # processes of a pod, the first of which may be of a container that has no such file
_MOST_NAMED = 4


def in_pod(wanted: str, processes: Iterable[Process], proc: Path = PROC, root: Path = Path("/")) -> list[Process]:
    """The processes of the pod whose name, NAMESPACE/NAME or UID is `wanted`, in all its containers. Absent if there is none,
    SsllatencyError where pods of several namespaces have that name. What lies below a user's own systemd is in none: users may
    give their cgroups any UID."""
    inside = {process: containers_of(process.pid, proc) for process in processes}
    names = _names(inside, proc, root)
    uids = {uid for uid, name in names.items() if wanted in (uid, name, name.rpartition("/")[2])} - {""}
    if not (wanted and uids):
        raise _absent(wanted, names)
    if len({names[uid] for uid in uids}) > 1:
        raise SsllatencyError(f"There are {len(uids)} pods {wanted}: name one of {_some(names[uid] for uid in uids)}.", 2)
    found = {
        process: container
        for process, chain in inside.items()
        for container in chain
        if container.pod in uids and not container.owner
    }
    # A container may have made cgroups of any name: those of the host's own pods first.
    return [process for process, container in found.items() if container.is_hosts] or list(found)


def pod_names(root: Path) -> dict[str, str]:
    """UID to NAMESPACE/NAME of the pods for which kubelet keeps logs below this root."""
    try:
        folders = [match for entry in os.scandir(root / _PODS) if (match := _FOLDER.fullmatch(entry.name))]
    except OSError:
        return {}
    return {folder["uid"]: f"{folder['namespace']}/{folder['name']}" for folder in folders}


def _names(inside: Mapping[Process, tuple[Container, ...]], proc: Path, root: Path) -> dict[str, str]:
    """The name of each pod that has a process, by UID; "" where it isn't known."""
    members: dict[str, list[int]] = defaultdict(list)
    for process in sorted(inside, key=lambda process: (process.start_time, process.pid)):
        for uid in {container.pod for container in inside[process] if not container.owner} - {""}:
            members[uid].append(process.pid)
    recorded = {**pod_names(proc / "1" / "root"), **pod_names(root)} if members else {}
    return {uid: recorded.get(uid) or _host_name(pids, proc) for uid, pids in members.items()}


def _host_name(pids: Sequence[int], proc: Path) -> str:
    for pid in pids[:_MOST_ASKED]:
        with suppress(OSError), os.fdopen(open_below(root_of(pid, proc), _HOST_NAME, _LARGEST), "rb") as file:
            name = file.read(_LARGEST).strip()
            if re.fullmatch(rb"[a-z0-9.-]{1,253}", name):
                return name.decode()
    return ""


def _absent(wanted: str, names: Mapping[str, str]) -> SsllatencyError:
    if not names:
        return Absent(f"No process is in a Kubernetes pod {wanted}: none on this host is in any pod.")
    shown = [name or f"UID {uid}" for uid, name in names.items()]
    meant = did_you_mean(wanted, [*names.values(), *(name.rpartition("/")[2] for name in names.values())])
    return Absent(f"No process is in a Kubernetes pod {wanted}: {meant}there are {_some(shown)}.")


def _some(names: Iterable[str]) -> str:
    ordered = sorted(set(names))
    return ", ".join([*ordered[:_MOST_NAMED], *([f"{len(ordered) - _MOST_NAMED} more"] if len(ordered) > _MOST_NAMED else [])])
