# SPDX-License-Identifier: Apache-2.0
"""The accept queues of servers, as the kernel tells of them and as measurements have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ssllatency.data_class import dataclass

Place = tuple[int, str]
CLOSED: Place = 0, ""
TOGETHER: Place = 0, "*"


@dataclass(frozen=True)
class AcceptQueue:
    """A place where a server accepts; the address 0.0.0.0 or :: stands for all. `limit`: the most connections that the
    queue of one socket there holds, as listen(2) was told and the system bounds; None where the kernel doesn't tell.
    `overflows`: how often a connection found no room: its client tries again 0.2 s or more later, and no handshake begins
    before. CLOSED is the place of sockets that are closed, TOGETHER that of several sockets in one network namespace of which
    the kernel tells no more than the sum. `network`: the number of the network namespace, where that isn't the tracer's own:
    who is in another one can listen at the same place."""

    port: int
    address: str
    limit: int | None
    overflows: int
    network: int = 0

    @property
    def place(self) -> Place:
        """Port and address."""
        return self.port, self.address

    @property
    def identity(self) -> tuple[int, str, int]:
        """The key that tells it apart."""
        return self.port, self.address, self.network


@dataclass(frozen=True)
class AcceptQueueReading:
    """The known accept queues of processes. `queues`: None where the kernel doesn't tell of one of them. `untold`:
    how often a queue was full in their network namespaces of which it isn't known whether it was theirs, not in `queues`."""

    queues: tuple[AcceptQueue, ...] | None
    untold: int = 0


def summed(queues: Iterable[AcceptQueue], most: int | None = None) -> tuple[AcceptQueue, ...]:
    """Those at the same place in the same namespace added up, ascending; beyond so many, all others as CLOSED."""
    known_ones: dict[tuple[int, str, int], AcceptQueue] = {}
    for queue in queues:
        if queue.identity not in known_ones and most is not None and len(known_ones) >= most:
            queue = AcceptQueue(*CLOSED, None, queue.overflows)
        known = known_ones.get(queue.identity)
        if known is None:
            known_ones[queue.identity] = queue
            continue
        limit = max((one.limit for one in (known, queue) if one.limit is not None), default=None)
        known_ones[queue.identity] = replace(queue, limit=limit, overflows=known.overflows + queue.overflows)
    return tuple(known_ones[identity] for identity in sorted(known_ones))
