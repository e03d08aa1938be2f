# SPDX-License-Identifier: Apache-2.0
"""Overflows of the accept queues of processes: what the kernel tells of the sockets on which they listen, by sock_diag(7) in
their network namespaces.

Whoever finds no room tries again 0.2 s or more later, and until then no handshake begins: that time is in no figure of a
handshake. The kernel counts each attempt, be it a SYN, the last ACK or what the client sends after that, as a drop of the
socket, among other drops, and in the namespace's ListenOverflows, among those of other sockets. So a socket's are told as far
as the namespace's go that can't be others': what others' sockets have dropped meanwhile may be as many overflows of theirs,
and of those it is told that it isn't known whose they are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain
from operator import is_
from pathlib import Path

from ssllatency.accept_queue import CLOSED, AcceptQueue, AcceptQueueReading, Place, summed
from ssllatency.data_class import dataclass
from ssllatency.targets.processes import PROC
from ssllatency.targets.sockets.holders import Holders
from ssllatency.targets.sockets.listening import whole_table
from ssllatency.targets.sockets.namespace_total import NamespaceTotal
from ssllatency.targets.sockets.sock_diag import Listening, ListeningSocket, listen_overflows, listening_sockets

_MOST = 4096  # addresses with drops: those of more, once nobody listens there, are told together
_MOST_IN_TABLE = 4096  # sockets of a family in a namespace that isn't entered


@dataclass
class _Namespace:
    """A network namespace. `first`: its ListenOverflows when it was first looked at. `seen`: the drops of each socket by its
    cookie. `told`: the overflows by place; `left`: drops of the last reading that weren't told, as ListenOverflows may have
    been read a moment before them, and `spare` overflows of the last reading beyond drops. `untold`: overflows of which it
    isn't known whether they are the processes', as others' sockets have dropped something as well, the descriptors of some may
    not be read, or there are too many sockets. `read`: the overflows by the last reading."""

    first: int
    is_new: bool = True
    seen: dict[int, int] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    holders: Holders = field(default_factory=Holders)
    told: Counter[Place] = field(default_factory=Counter)
    left: Counter[Place] = field(default_factory=Counter)
    limits: dict[Place, int] = field(default_factory=dict)
    untold: int = 0
    read: int = 0
    spare: int = 0
    _queues: tuple[dict[Place, int], Counter[Place], Sequence[AcceptQueue]] | None = None  # after what they were made of

    def take(self, listening: Listening, overflows: int, pids: Collection[int], proc: Path) -> None:
        """The next reading."""
        sockets = listening.sockets
        fresh = {one.cookie for one in sockets} - self.seen.keys()
        if self._ask(sockets, pids, proc, again=bool(fresh) and not self.is_new):
            fresh = set()
        self.limits = {(one.port, one.address): one.limit for one in sockets if one.cookie in self.owned}
        drops = Counter[Place]()
        others = unasked = 0
        for one in sockets:
            dropped = (one.drops - self.seen.get(one.cookie, one.drops if self.is_new else 0)) % 2**32
            if one.cookie in self.owned:
                drops[one.port, one.address] += dropped
            elif one.cookie in fresh:
                unasked += dropped
            else:
                others += dropped
        self._tell(drops, overflows - self.first, others, unasked)
        if self.holders.hidden or not listening.all_seen:
            self.untold = max(self.untold, overflows - self.first - self.told.total())
        # Those whose owners are asked for later count from their beginning then.
        self.seen = {one.cookie: one.drops for one in sockets if one.cookie not in fresh or one.cookie in self.owned}
        self.is_new = False
        self.owned &= self.seen.keys()

    def _tell(self, drops: Counter[Place], overflows: int, others: int, unasked: int) -> None:
        """Shares out what the namespace has had in all, the largest first, without as many as others' sockets have dropped
        meanwhile. `unasked`: drops of sockets of which it isn't known yet whose they are."""
        added, self.read = max(0, overflows - self.read), max(self.read, overflows)
        room = self.spare + added
        theirs = min(room, others)
        kept = min(room - theirs, unasked)
        room -= theirs + kept
        for place, number in (drops + self.left).most_common():
            told = min(number, room)
            either = min(number - told, theirs)  # theirs or the processes'
            self.told[place] += told
            self.left[place] = min(number - told - either, drops[place])
            self.untold += either
            room, theirs = room - told, theirs - either
        self.spare = room + kept if unasked else min(room, added)
        self.left = +self.left
        if len(self.told) > _MOST:
            for place in self.told.keys() - self.limits.keys() - {CLOSED}:
                self.told[CLOSED] += self.told.pop(place)
        self.told = +self.told

    def _ask(self, sockets: Collection[ListeningSocket], pids: Collection[int], proc: Path, *, again: bool) -> bool:
        """Finds out which of the sockets are the processes'; whether all were asked that had to be."""
        inodes, all_asked = self.holders.ask(pids, proc, again=again)
        self.owned |= {one.cookie for one in sockets if one.inode in inodes}
        return all_asked or not again

    @property
    def queues(self) -> Sequence[AcceptQueue]:
        """The queues, as far as they are known by now: the same objects as long as nothing has changed."""
        if self._queues is None or self._queues[0] != self.limits or self._queues[1] != self.told:
            places = self.limits.keys() | self.told.keys()
            queues = [AcceptQueue(*place, self.limits.get(place), self.told[place]) for place in places]
            self._queues = dict(self.limits), Counter(self.told), queues
        return self._queues[2]


class AcceptQueues:
    """The accept queues of processes; remembers the last reading. `clock_ns` tells how long a process has run so far, None
    where that isn't known: one that hasn't run since the last reading is in the namespace that it was in."""

    def __init__(self, proc: Path = PROC, clock_ns: Callable[[int], int | None] = lambda _: None) -> None:
        self._proc, self._clock_ns = proc, clock_ns
        self._members: dict[int, tuple[int | None, str]] = {}  # the namespaces of processes, after what these had run
        self._home = self._namespace_of("self")
        self._namespaces: dict[str, _Namespace | NamespaceTotal] = {}
        self._is_told = False  # by the kernel, of any namespace
        self._gone: tuple[AcceptQueue, ...] = ()  # of namespaces in which no process is traced any more
        self._untold = 0  # of these
        self._summed: tuple[Sequence[AcceptQueue], tuple[AcceptQueue, ...]] = ((), ())  # after what it is the sum of

    def read(self, pids: Collection[int]) -> AcceptQueueReading:
        """Those of these processes and of all that were asked for before, by port, address and namespace, with what occurred
        since the first reading."""
        by_namespace: dict[str, list[int]] = {}
        before, self._members = self._members, {}
        for pid in pids:
            with suppress(OSError):
                self._members[pid] = self._member(pid, before.get(pid))
                by_namespace.setdefault(self._members[pid][1], []).append(pid)
        known = [self._read(name, members) for name, members in by_namespace.items()]  # each, even after one that isn't
        for name in self._namespaces.keys() - by_namespace.keys():
            self._gone = summed((*self._gone, *self._queues_in(name)), _MOST)
            self._untold += self._namespaces.pop(name).untold
        if not all(known) or not self._is_told:
            return AcceptQueueReading(None)
        present = chain.from_iterable(map(self._queues_in, self._namespaces))
        untold = self._untold + sum(namespace.untold for namespace in self._namespaces.values())
        return AcceptQueueReading(self._sum((*self._gone, *present)), untold)

    def _sum(self, queues: Sequence[AcceptQueue]) -> tuple[AcceptQueue, ...]:
        """The sum of all; that of the last reading where these are its queues, as in most readings."""
        if len(queues) != len(self._summed[0]) or not all(map(is_, queues, self._summed[0])):
            self._summed = queues, summed(queues, _MOST)
        return self._summed[1]

    def _queues_in(self, name: str) -> Iterable[AcceptQueue]:
        """Those in a namespace, which they bear where it isn't ours."""
        network = 0 if name == self._home else int(name.removeprefix("net:[").removesuffix("]"))
        queues = self._namespaces[name].queues
        return (replace(queue, network=network) for queue in queues) if network else queues

    def _read(self, name: str, pids: Collection[int]) -> bool:
        """Takes the next reading of a namespace, by whichever of its processes is still there; whether the kernel tells."""
        for pid in pids:
            folder = self._proc / ("self" if name == self._home else str(pid))
            try:
                if not self._take(name, folder, pids):
                    continue
            except OSError:
                if folder.exists():
                    return False
                continue
            self._is_told = True
            return True
        return True

    def _take(self, name: str, folder: Path, pids: Collection[int]) -> bool:
        """Takes it by this process; whether that was in the namespace all the time, as it may enter another meanwhile."""
        namespace = self._namespaces.get(name)
        first = 0 if namespace else listen_overflows(folder)
        sockets = Listening(())
        if not isinstance(namespace, NamespaceTotal):
            try:
                sockets = listening_sockets(None if name == self._home else folder / "ns" / "net")
            except OSError:
                if namespace or not folder.exists():
                    raise
                namespace = NamespaceTotal(first)
        table = whole_table(folder / "net", _MOST_IN_TABLE) if isinstance(namespace, NamespaceTotal) else None
        overflows = listen_overflows(folder)
        if self._namespace_of(folder.name) != name:
            return False
        if isinstance(namespace, NamespaceTotal):
            namespace.take(table, overflows, pids, self._proc)
        else:
            namespace = namespace or _Namespace(first)
            namespace.take(sockets, overflows, pids, self._proc)
        self._namespaces[name] = namespace
        return True

    def _member(self, pid: int, before: tuple[int | None, str] | None) -> tuple[int | None, str]:
        clock_ns = self._clock_ns(pid)
        if before and clock_ns is not None and clock_ns == before[0]:
            return before
        return clock_ns, self._namespace_of(str(pid))

    def _namespace_of(self, pid: str) -> str:
        return os.readlink(f"{self._proc}/{pid}/ns/net")  # noqa: PTH115 - net:[N] is no path
