# SPDX-License-Identifier: Apache-2.0
"""The services of the processes that a live view shows, each looked up once, while the process is there."""

from __future__ import annotations

from collections.abc import Callable

from ssllatency.model.snapshot import Snapshot
from ssllatency.targets.containers.service import Service, service_of

_MOST = 4096  # processes; then half of them are forgotten, those first that haven't been seen for longest


class ServiceNames:
    """Names of services by PID."""

    def __init__(self, look_up: Callable[[int, str], Service] = service_of) -> None:
        self._look_up = look_up
        self._names: dict[int, str] = {}

    def names(self, snapshot: Snapshot) -> dict[int, str]:
        """The service of each process of a snapshot."""
        comms = {target.pid: target.comm for target in snapshot.targets}
        comms |= _named(snapshot)
        for pid, comm in comms.items():
            self._names[pid] = self._names.pop(pid, "") or self._look_up(pid, comm).name
        if len(self._names) > max(_MOST, 2 * len(comms)):
            self._names = dict(list(self._names.items())[-max(_MOST // 2, len(comms)) :])
        return dict(self._names)


def _named(snapshot: Snapshot) -> dict[int, str]:
    """The processes that handshakes are told apart by, which may have ended."""
    groups = snapshot.handshakes.groups if snapshot.handshakes else ()
    processes = {group.process for group in groups if group.process and group.process.pid}  # ended ones have none
    return {process.pid: process.name or str(process) for process in processes}
