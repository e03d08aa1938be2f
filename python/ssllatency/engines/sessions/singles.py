# SPDX-License-Identifier: Apache-2.0
"""Handshakes that are handed over one by one: those over the request's bound, and the slowest, which are kept."""

from __future__ import annotations

import ctypes
import heapq
import mmap
from collections.abc import Callable, Iterator, Sequence

from ssllatency import abi
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.engines.bpf.ring import Ring, ring_size
from ssllatency.engines.sessions.handshake_request import HandshakeRequest, Singles
from ssllatency.model.arithmetic.handshake_sums import client_wait_ns
from ssllatency.model.handshakes import Single

_NEVER = (1 << 64) - 1


def ring_bytes(request: HandshakeRequest) -> int:
    """The size of the ring for handshakes that are handed over one by one: the least where none is."""
    if request.singles:
        return ring_size(request.singles.ring_bytes)
    return Singles.ring_bytes if request.slowest else mmap.PAGESIZE


class SingleHandshakes:
    """The handshakes in the ring of a loaded object; `slowest` are the kept ones, the slowest first."""

    def __init__(self, loaded: Loadable, request: HandshakeRequest) -> None:
        self._ring = Ring(loaded.map_fd("singles"), ring_bytes(request), ctypes.sizeof(abi.Single))
        self._over_ns = request.singles.over_ns if request.singles else None
        self._most = request.slowest
        self._slowest: list[tuple[int, int, Single]] = []
        self._seen = 0

    def take(self, read: Callable[[abi.Single], Single]) -> Iterator[Single]:
        """The handshakes over the bound that have ended since the last call, in the order they ended. `read` makes one of what
        the ring holds."""
        for raw in self._ring.records(abi.Single):
            handshake = read(raw)
            self._keep(handshake)
            if self._over_ns is not None and client_wait_ns(handshake.parts) >= self._over_ns:
                yield handshake

    def _keep(self, handshake: Single) -> None:
        self._seen += 1
        heapq.heappush(self._slowest, (client_wait_ns(handshake.parts), -self._seen, handshake))
        while len(self._slowest) > self._most:
            heapq.heappop(self._slowest)

    @property
    def slowest(self) -> Sequence[Single]:
        """See above."""
        return [handshake for _, _, handshake in sorted(self._slowest, key=lambda kept: (-kept[0], kept[1]))]

    @property
    def threshold_ns(self) -> int:
        """The wait of a client below which its handshake needn't be handed over: the lesser of the request's bound and, once
        they are enough, that of the least slow of the kept ones."""
        bounds = [] if self._over_ns is None else [self._over_ns]
        if self._most:
            bounds.append(self._slowest[0][0] if len(self._slowest) >= self._most else 0)
        return min(bounds, default=_NEVER)

    def close(self) -> None:
        """Frees the ring."""
        self._ring.close()
