# SPDX-License-Identifier: Apache-2.0
"""How often connections found the accept queues of processes full: what the kernel tells of the sockets on which they listen,
by sock_diag(7) in their network namespaces.

A client that finds no room tries again after a second or more, and until then no handshake of it begins: that time is in no
figure of a handshake. The kernel counts each such attempt as a drop of the socket, among other drops, and in the namespace's
ListenOverflows, among those of other sockets. So the lesser of both is taken.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ssllatency.targets.processes import PROC
from ssllatency.targets.sockets.listening import inodes_of
from ssllatency.targets.sockets.sock_diag import ListeningSocket, listen_overflows, listening_sockets

_MOST = 4096  # addresses: no more are kept
_MOST_DESCRIPTORS = 1024  # of a process: servers open the sockets on which they listen first

Place = tuple[int, str]


@dataclass(frozen=True, order=True)
class AcceptQueue:
    """The accept queues at one address and port; 0.0.0.0 or :: stands for all. `limit`: the most connections that one holds, as
    listen(2) was told and the system bounds. `overflows`: how often a connection found no room."""

    port: int
    address: str
    limit: int
    overflows: int


@dataclass
class _Namespace:
    """A network namespace. `first`: its ListenOverflows when it was first looked at; `most`: those since, None before the first
    reading. `seen`: the drops of
    each socket by its cookie; `counts`: those of traced processes' sockets since they were."""

    first: int
    most: int | None = None
    seen: dict[int, int] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    counts: Counter[Place] = field(default_factory=Counter)
    limits: dict[Place, int] = field(default_factory=dict)

    def take(self, sockets: Collection[ListeningSocket], overflows: int, pids: Collection[int], proc: Path) -> None:
        """The next reading."""
        is_first, self.most = self.most is None, overflows - self.first
        if any(one.cookie not in self.seen for one in sockets):
            self.asked.clear()
        self._ask(sockets, pids, proc)
        for one in sockets:
            place = one.port, one.address
            if one.cookie in self.owned and (place in self.limits or len(self.limits) < _MOST):
                self.limits[place] = one.limit
                before = self.seen.get(one.cookie, one.drops if is_first else 0)
                self.counts[place] += (one.drops - before) % 2**32
        present = {one.cookie: one.drops for one in sockets}
        self.seen = {**self.seen, **present} if len(self.seen) < 2 * _MOST else present

    def _ask(self, sockets: Collection[ListeningSocket], pids: Collection[int], proc: Path) -> None:
        """Finds out which of the sockets are the processes'. Each is asked once, and again where there are new sockets."""
        inodes = set[str]()
        for pid in set(pids) - self.asked:
            with suppress(OSError):
                inodes |= inodes_of(pid, _MOST_DESCRIPTORS, proc)
        self.asked = set(pids)
        self.owned |= {one.cookie for one in sockets if one.inode in inodes}

    @property
    def queues(self) -> Iterator[AcceptQueue]:
        """What is known of it by now."""
        for (port, address), limit in self.limits.items():
            yield AcceptQueue(port, address, limit, min(self.counts[port, address], self.most or 0))


class AcceptQueues:
    """The accept queues of processes; remembers the last reading."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._home = self._namespace_of("self")
        self._namespaces: dict[str, _Namespace] = {}
        self._is_told = False  # by the kernel, of any namespace
        self._gone: dict[Place, AcceptQueue] = {}  # of namespaces in which no process is traced any more

    def read(self, pids: Collection[int]) -> tuple[AcceptQueue, ...] | None:
        """Those of these processes and of all that were asked for before, ascending by port and address, with what occurred
        since the first reading. None where the kernel doesn't tell of any of them."""
        by_namespace: dict[str, list[int]] = {}
        for pid in pids:
            with suppress(OSError):
                by_namespace.setdefault(self._namespace_of(str(pid)), []).append(pid)
        for name, members in by_namespace.items():
            self._read(name, members)
        for name in self._namespaces.keys() - by_namespace.keys():
            _add(self._gone, self._namespaces.pop(name).queues)
        if not self._is_told:
            return None
        queues = dict(self._gone)
        for namespace in self._namespaces.values():
            _add(queues, namespace.queues)
        return tuple(sorted(queues.values()))

    def _read(self, name: str, pids: Collection[int]) -> None:
        """Takes the next reading of a namespace, by whichever of its processes is still there."""
        for pid in pids:
            folder = self._proc / str(pid)
            with suppress(OSError):
                first = listen_overflows(folder)
                sockets = listening_sockets(None if name == self._home else folder / "ns" / "net")
                namespace = self._namespaces.setdefault(name, _Namespace(first))
                namespace.take(sockets, listen_overflows(folder), pids, self._proc)
                self._is_told = True
                return

    def _namespace_of(self, pid: str) -> str:
        return os.readlink(self._proc / pid / "ns" / "net")  # noqa: PTH115 - net:[N] is no path


def _add(queues: dict[Place, AcceptQueue], more: Iterable[AcceptQueue]) -> None:
    """Adds up the overflows of those at the same address and port."""
    for queue in more:
        place = queue.port, queue.address
        known = queues.get(place)
        if known:
            queues[place] = replace(known, limit=max(known.limit, queue.limit), overflows=known.overflows + queue.overflows)
        elif len(queues) < _MOST:
            queues[place] = queue
