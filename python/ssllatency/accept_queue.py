# SPDX-License-Identifier: Apache-2.0
"""The accept queues of servers, as the kernel tells of them and as measurements have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

Place = tuple[int, str]
CLOSED: Place = 0, ""


@dataclass(frozen=True, order=True)
class AcceptQueue:
    """Where a server accepts connections; the address 0.0.0.0 or :: stands for all. `limit`: the most connections that the
    queue of one socket there holds, as listen(2) was told and the system bounds. `overflows`: how often a connection found no
    room: its client tries again 0.2 s or more later, and no handshake begins before. CLOSED is the place of sockets that are
    closed."""

    port: int
    address: str
    limit: int
    overflows: int

    @property
    def place(self) -> Place:
        """Port and address."""
        return self.port, self.address


def summed(queues: Iterable[AcceptQueue], most: int | None = None) -> tuple[AcceptQueue, ...]:
    """Those at the same place added up, ascending; beyond so many places, those of all others as CLOSED."""
    by_place: dict[Place, AcceptQueue] = {}
    for queue in queues:
        if queue.place not in by_place and most is not None and len(by_place) >= most:
            queue = AcceptQueue(*CLOSED, 0, queue.overflows)
        known = by_place.get(queue.place, replace(queue, overflows=0))
        by_place[queue.place] = replace(queue, limit=max(known.limit, queue.limit), overflows=known.overflows + queue.overflows)
    return tuple(sorted(by_place.values()))
