# SPDX-License-Identifier: Apache-2.0
"""Whose process one is: the service or container that its counts are shown under. It is found once for each process, and stays
when the process changes its name, so that no count moves from one series to another."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from ssllatency.engines.clock import process_clock_ns
from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.points import Labels, labels
from ssllatency.targets import process_of
from ssllatency.targets.containers.container import Container, parse_cgroup
from ssllatency.targets.containers.images import image_of
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.containers.service import unit_of
from ssllatency.targets.processes import PROC

_KUBERNETES = re.compile(r"(?P<namespace>[^/]+)/(?P<pod>[^/]+)/(?P<container>.+)")
_QUERY = '"\\`'
_LONGEST = 250  # characters of a label's value
_MOST_REMEMBERED = 4096  # containers
_NAMES_LAST_S = 60.0  # before a container whose name wasn't found is looked for again


class Services:
    """Remembers the services of processes, until they are forgotten."""

    def __init__(self, proc: Path = PROC, root: Path = Path("/")) -> None:
        self._proc, self._root = proc, root
        self._names: dict[str, tuple[str, float]] = {}
        self._images: dict[str, str] = {}
        self._seen: dict[int, tuple[int, int]] = {}  # by PID, the process's clock by then, and when it started

    def started(self, pid: int) -> int | None:
        """When the process started, in clock ticks since boot; None where it isn't there."""
        clock_ns = process_clock_ns(pid) if self._proc is PROC else None
        seen = self._seen.get(pid)
        if seen and clock_ns == seen[0]:
            return seen[1]  # it hasn't run since: most processes rest, and reading their files takes long
        process = process_of(pid, self._proc)
        if process and clock_ns is not None:
            self._seen[pid] = clock_ns, process.start_time
        else:
            self._seen.pop(pid, None)
        return process.start_time if process else None

    def labels_of(self, pid: int, name: str) -> Labels:
        """The labels of the process's service; `name` is its own where it isn't there any more."""
        process = process_of(pid, self._proc)
        return self.labels_in(process.comm if process else name, self._cgroup(pid))

    def labels_in(self, comm: str, cgroup: str) -> Labels:
        """The labels of a process of this name, with the text of its /proc/PID/cgroup, "" where that isn't known."""
        containers = parse_cgroup(cgroup)
        found = self._of_innermost(containers) if containers else {names.SERVICE: unit_of(cgroup) or comm}
        return labels({name: _clean(value) for name, value in {**found, names.COMM: comm}.items()})

    def _of_innermost(self, containers: Sequence[Container]) -> dict[str, str]:
        """The labels of a container. The host's runtimes know the outermost ones of the system: others may have been given the
        ID of one of these. A user's bear that user in each label, so that their counts are in no sum of somebody else's."""
        container = containers[-1]
        if container.is_hosts:
            return self._of_container(container)
        found = {names.CONTAINER_ID: container.id, names.POD_UID: container.pod, names.SERVICE: container.shown}
        return {name: container.owner + value for name, value in found.items() if value}

    def _of_container(self, container: Container) -> dict[str, str]:
        name = container.name or self._name_of(container.id)
        found = {
            names.CONTAINER_ID: container.id,
            names.POD_UID: container.pod,
            names.IMAGE: self._image_of(container.id),
        }
        if match := _KUBERNETES.fullmatch(name):
            in_pod = {names.NAMESPACE: match["namespace"], names.POD: match["pod"], names.POD_CONTAINER: match["container"]}
            return {**found, **in_pod, names.SERVICE: match["container"]}
        return {**found, names.CONTAINER_NAME: name, names.SERVICE: name or container.shown}

    def _name_of(self, container_id: str) -> str:
        name, asked_s = self._names.get(container_id, ("", float("-inf")))
        if not name and time.monotonic() - asked_s > _NAMES_LAST_S:
            name = container_names([container_id], self._root).get(container_id, "")
            if len(self._names) > _MOST_REMEMBERED:
                self._names.clear()
            self._names[container_id] = name, time.monotonic()
        return name

    def _image_of(self, container_id: str) -> str:
        """It is looked for once, as all processes of a container have the same labels."""
        if container_id not in self._images:
            if len(self._images) > _MOST_REMEMBERED:
                self._images.clear()
            self._images[container_id] = image_of(container_id, self._root)
        return self._images[container_id]

    def _cgroup(self, pid: int) -> str:
        try:
            return (self._proc / str(pid) / "cgroup").read_text(errors="backslashreplace")
        except OSError:
            return ""


def _clean(value: str) -> str:
    """A label's value: printable, no longer than is of use, and without what ends a text or escapes in PromQL: dashboards put
    values between quotes as they are."""
    return "".join(c if c.isprintable() and c not in _QUERY else "\N{REPLACEMENT CHARACTER}" for c in value)[:_LONGEST]
