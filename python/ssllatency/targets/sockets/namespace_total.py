# SPDX-License-Identifier: Apache-2.0
"""Overflows of the accept queues in a network namespace that may not be entered, as it takes CAP_SYS_ADMIN: what a process's
own files below /proc/PID/net show of it.

They have the sockets that listen and ListenOverflows, the sum of all sockets. So while nobody but the processes that are
looked at listens there, what it grows by is theirs, and while it doesn't grow nobody's queue was full. Where it grows and
others listen as well, or that can't be seen, it isn't known whose. A socket that was opened and closed between two readings
isn't seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from ssllatency.accept_queue import TOGETHER, AcceptQueue, Place
from ssllatency.data_class import dataclass
from ssllatency.targets.sockets.holders import Holders
from ssllatency.targets.sockets.listening import Listener


@dataclass
class NamespaceTotal:
    """A network namespace of which the sum is known. `last`: its ListenOverflows at the last reading. `untold`: those of which
    it isn't known whether they are the processes'."""

    last: int
    untold: int = 0
    _told: Counter[Place] = field(default_factory=Counter)
    _places: set[Place] = field(default_factory=set)
    _is_theirs: bool = True  # as of the last reading: no other socket is there
    _owned: set[str] = field(default_factory=set)
    _holders: Holders = field(default_factory=Holders)

    def take(self, table: Mapping[str, Listener] | None, overflows: int, pids: Collection[int], proc: Path) -> None:
        """The next reading. `table`: the sockets that listen, by inode number; None where those are too many."""
        grown, self.last = max(0, overflows - self.last), overflows
        there = set(table or ())
        self._owned &= there
        self._owned |= self._holders.ask(pids, proc, again=self._owned != there)[0] & there
        theirs = table is not None and not self._holders.hidden and self._owned == table.keys()
        places = {(table[inode].port, table[inode].address) for inode in self._owned} if table else set[Place]()
        if grown and theirs and self._is_theirs:
            both = places | self._places
            if both:
                self._told[next(iter(both)) if len(both) == 1 else TOGETHER] += grown
        elif grown and (places or self._places or self._holders.hidden or table is None):
            self.untold += grown
        self._places, self._is_theirs = places, theirs

    @property
    def queues(self) -> Iterator[AcceptQueue]:
        """The queues, as far as they are known by now: of none of several sockets by itself, once one of them was full."""
        places = self._told.keys() if TOGETHER in self._told else self._told.keys() | self._places
        for port, address in places:
            yield AcceptQueue(port, address, None, self._told[port, address])
