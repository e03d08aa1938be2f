# SPDX-License-Identifier: Apache-2.0
"""The accept queues of servers, as the kernel tells of them and as measurements have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

Place = tuple[int, str]
CLOSED: Place = 0, ""
TOGETHER: Place = 0, "*"


@dataclass(frozen=True, order=True)
class AcceptQueue:
    """Where a server accepts connections; the address 0.0.0.0 or :: stands for all. `limit`: the most connections that the
    queue of one socket there holds, as listen(2) was told and the system bounds; None where the kernel doesn't tell.
    `overflows`: how often a connection found no room: its client tries again 0.2 s or more later, and no handshake begins
    before. CLOSED is the place of sockets that are closed, TOGETHER that of several sockets in one network namespace of which
    the kernel tells no more than the sum."""

    port: int
    address: str
    limit: int | None
    overflows: int

    @property
    def place(self) -> Place:
        """Port and address."""
        return self.port, self.address


@dataclass(frozen=True)
class AcceptQueueReading:
    """What is known of the accept queues of processes. `queues`: None where the kernel doesn't tell of one of them. `untold`:
    how often a queue was full in their network namespaces of which it isn't known whether it was theirs, not in `queues`."""

    queues: tuple[AcceptQueue, ...] | None
    untold: int = 0


def summed(queues: Iterable[AcceptQueue], most: int | None = None) -> tuple[AcceptQueue, ...]:
    """Those at the same place added up, ascending; beyond so many places, those of all others as CLOSED."""
    by_place: dict[Place, AcceptQueue] = {}
    for queue in queues:
        if queue.place not in by_place and most is not None and len(by_place) >= most:
            queue = AcceptQueue(*CLOSED, None, queue.overflows)
        known = by_place.get(queue.place, replace(queue, overflows=0))
        limit = max((one.limit for one in (known, queue) if one.limit is not None), default=None)
        by_place[queue.place] = replace(queue, limit=limit, overflows=known.overflows + queue.overflows)
    return tuple(sorted(by_place.values()))
