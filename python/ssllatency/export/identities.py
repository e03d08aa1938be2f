# SPDX-License-Identifier: Apache-2.0
"""Identities of processes and containers, kept: when a process started, and what a container and its image are called."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from ssllatency.data_class import dataclass
from ssllatency.engines.clock import process_clock_ns
from ssllatency.export.process_handles import ProcessHandles
from ssllatency.targets import Process, process_of
from ssllatency.targets.containers.images import image_of
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.processes import PROC

K = TypeVar("K")
V = TypeVar("V")
_MOST_PROCESSES, _MOST_CONTAINERS = 65536, 4096
_UNNAMED_S = 60.0  # before a container whose name wasn't found is looked for again


class Bounded(Generic[K, V]):
    """At most `most` values by key: of more, those that were used longest ago are dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}  # the last one used is the last in it

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, which is used by that; None where there is none."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        """Keeps a value."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]

    def drop(self, key: K) -> None:
        """Forgets a value, if there is one."""
        self._values.pop(key, None)


@dataclass
class _Container:
    """A container. `image`: None where it wasn't asked for. `asked_s`: when its name was looked for last."""

    name: str = ""
    image: str | None = None
    asked_s: float = float("-inf")


class Identities:
    """Reads files for them, and keeps what it has found:

    - when a process started, until that process has ended, of as many as have handles; of others, at most 65,536, until that
      process has run again or is gone: most rest, and reading their files takes long;
    - the name and the image of a container for good, as neither changes, of at most 4,096 containers; where no name is found,
      that for a minute, as a runtime may write it later."""

    def __init__(self, proc: Path = PROC, root: Path = Path("/"), clock_s: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._root, self._clock_s = proc, root, clock_s
        self._starts: Bounded[int, tuple[int, int]] = Bounded(_MOST_PROCESSES)  # after what the process had run by then
        self._handles = ProcessHandles()
        self._containers: Bounded[str, _Container] = Bounded(_MOST_CONTAINERS)

    def started(self, pid: int) -> int | None:
        """Return when the process started, in clock ticks since boot; None where it isn't there."""
        kept = self._starts.get(pid)
        if kept and self._handles.lives(pid):
            return kept[1]
        clock_ns = self._clock_ns(pid)
        if kept and clock_ns == kept[0]:
            return kept[1]
        process = self._read(pid, clock_ns)
        return process.start_time if process else None

    def process(self, pid: int) -> Process | None:
        """The process as it is now, whose start is kept; None where it isn't there."""
        return self._read(pid, self._clock_ns(pid))

    def _clock_ns(self, pid: int) -> int | None:
        return process_clock_ns(pid) if self._proc is PROC else None

    def _read(self, pid: int, clock_ns: int | None) -> Process | None:
        if clock_ns is not None and not self._handles.lives(pid):
            self._handles.open(pid)  # before the look, which is at the process of the handle if that lives still
        process = process_of(pid, self._proc)
        if process and clock_ns is not None:
            self._starts.put(pid, (clock_ns, process.start_time))
        else:
            self._starts.drop(pid)
            self._handles.close(pid)
        return process

    def name_of(self, container_id: str) -> str:
        """The runtime's name of the container; "" where that isn't found."""
        kept = self._container(container_id)
        if not kept.name and self._clock_s() - kept.asked_s > _UNNAMED_S:
            kept.name = container_names([container_id], self._root).get(container_id, "")
            kept.asked_s = self._clock_s()
        return kept.name

    def image_of(self, container_id: str) -> str:
        """The container's image; "" where that isn't found."""
        kept = self._container(container_id)
        if kept.image is None:
            kept.image = image_of(container_id, self._root)
        return kept.image

    def _container(self, container_id: str) -> _Container:
        kept = self._containers.get(container_id)
        if kept is None:
            kept = _Container()
            self._containers.put(container_id, kept)
        return kept
