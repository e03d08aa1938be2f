# SPDX-License-Identifier: Apache-2.0
"""How often accept queues in a network namespace were full that may not be entered, as it takes CAP_SYS_ADMIN: what a process's
own files below /proc/PID/net show of it.

They have the sockets that listen and ListenOverflows, the sum of all sockets. So while nobody but the processes that are
looked at listens there, what it grows by is theirs, and while it doesn't grow nobody's queue was full. Where it grows and
others listen as well, or that can't be seen, it isn't known whose. A socket that was opened and closed between two readings
isn't seen.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ssllatency.accept_queue import TOGETHER, AcceptQueue, Place
from ssllatency.targets.sockets.listening import Listener, inodes_of

MOST_DESCRIPTORS = 1024  # of a process: servers open the sockets on which they listen first
ASK_AGAIN_S = 10.0  # a process whether it holds one of the sockets that have come


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
    _asked: set[int] = field(default_factory=set)
    _hidden: set[int] = field(default_factory=set)
    _again_s: float = -math.inf

    def take(self, table: Mapping[str, Listener] | None, overflows: int, pids: Collection[int], proc: Path) -> None:
        """The next reading. `table`: the sockets that listen, by inode number; None where those are too many."""
        grown, self.last = max(0, overflows - self.last), overflows
        self._ask(frozenset(table or ()), pids, proc)
        theirs = table is not None and not self._hidden and self._owned == table.keys()
        places = {(table[inode].port, table[inode].address) for inode in self._owned} if table else set[Place]()
        if grown and theirs and self._is_theirs:
            both = places | self._places
            if both:
                self._told[next(iter(both)) if len(both) == 1 else TOGETHER] += grown
        elif grown and (places or self._places or self._hidden or table is None):
            self.untold += grown
        self._places, self._is_theirs = places, theirs

    def _ask(self, inodes: frozenset[str], pids: Collection[int], proc: Path) -> None:
        """Finds out which of the sockets are the processes'. Each is asked when it comes, and again only now and then, as
        others may open sockets all the time."""
        now = time.monotonic()
        self._owned &= inodes
        if self._asked and inodes - self._owned and now >= self._again_s:
            self._asked.clear()
            self._again_s = now + ASK_AGAIN_S
        for pid in set(pids) - self._asked:
            with suppress(OSError):
                try:
                    self._owned |= inodes_of(pid, MOST_DESCRIPTORS, proc) & inodes
                    self._hidden.discard(pid)
                except PermissionError:
                    self._hidden.add(pid)
        self._asked = set(pids)
        self._hidden &= self._asked

    @property
    def queues(self) -> Iterator[AcceptQueue]:
        """What is known of it by now: of none of several sockets by itself, once one of them was full."""
        places = self._told.keys() if TOGETHER in self._told else self._told.keys() | self._places
        for port, address in places:
            yield AcceptQueue(port, address, None, self._told[port, address])
