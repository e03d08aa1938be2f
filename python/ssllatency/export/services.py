# SPDX-License-Identifier: Apache-2.0
"""The owner of a process: the service or container that its counts are shown under. It is found once for each process, and
stays when the process changes its name, so that no count moves from one series to another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ssllatency.export.identities import Identities
from ssllatency.export.metrics import families as names
from ssllatency.export.metrics.ledger import Known
from ssllatency.export.metrics.points import Labels, labels
from ssllatency.targets.containers.container import Container, cgroup_of, parse_cgroup
from ssllatency.targets.containers.service import called_in, unit_of
from ssllatency.targets.processes import PROC, Process

_KUBERNETES = re.compile(r"(?P<namespace>[^/]+)/(?P<pod>[^/]+)/(?P<container>.+)")
_QUERY = '"\\`'
_LONGEST = 250  # characters of a label's value


class Services:
    """Finds the services of processes."""

    def __init__(self, proc: Path = PROC, root: Path = Path("/")) -> None:
        self._proc = proc
        self._identities = Identities(proc, root)

    def started(self, pid: int) -> int | None:
        """Return when the process started, in clock ticks since boot; None where it isn't there."""
        return self._identities.started(pid)

    def known(self, pid: int, name: str) -> Known:
        """Return when the process started, and the labels of its service; `name` is its own where it isn't there any more. A
        PID that is used again in between isn't given one's start and the other's service."""
        process, cgroup = self._look(pid)
        while process and self._identities.started(pid) != process.start_time:
            process, cgroup = self._look(pid)
        labels = self.labels_in(process.comm if process else name, cgroup if process else "")
        return Known(process.start_time if process else 0, labels)

    def labels_in(self, comm: str, cgroup: str) -> Labels:
        """The labels of a process of this name, with the text of its /proc/PID/cgroup, "" where that isn't known."""
        containers = parse_cgroup(cgroup)
        found = self._of_innermost(containers) if containers else {names.SERVICE: unit_of(cgroup) or called_in(cgroup, comm)}
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
        name = container.name or self._identities.name_of(container.id)
        found = {
            names.CONTAINER_ID: container.id,
            names.POD_UID: container.pod,
            names.IMAGE: self._identities.image_of(container.id),
        }
        if match := _KUBERNETES.fullmatch(name):
            in_pod = {names.NAMESPACE: match["namespace"], names.POD: match["pod"], names.POD_CONTAINER: match["container"]}
            return {**found, **in_pod, names.SERVICE: match["container"]}
        return {**found, names.CONTAINER_NAME: name, names.SERVICE: name or container.shown}

    def _look(self, pid: int) -> tuple[Process | None, str]:
        return self._identities.process(pid), self._cgroup(pid)

    def _cgroup(self, pid: int) -> str:
        return cgroup_of(pid, self._proc)


def _clean(value: str) -> str:
    """A label's value: printable, no longer than is of use, and without what ends a text or escapes in PromQL: dashboards put
    values between quotes as they are."""
    return "".join(c if c.isprintable() and c not in _QUERY else "\N{REPLACEMENT CHARACTER}" for c in value)[:_LONGEST]
