# SPDX-License-Identifier: Apache-2.0
"""A source that replays intervals which were measured, or made up: what tests have in place of one that traces."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from ssllatency.engines.source import Ability
from ssllatency.model.arithmetic.snapshots import merge
from ssllatency.model.handshakes import Single
from ssllatency.model.snapshot import Snapshot


class Replay:
    """One more of the intervals has passed at each read; at each poll the handshakes of one more of `singles` have ended."""

    abilities = Ability.FUNCTIONS | Ability.HANDSHAKES | Ability.LABELS | Ability.SINGLES
    notes: Sequence[str] = ()
    events_dropped = 0
    in_flight = 0
    rests = False

    def __init__(self, intervals: Sequence[Snapshot] = (), singles: Sequence[Sequence[Single]] = ()) -> None:
        self.due_s = math.inf
        self.reads = 0
        self.is_detached = False
        self.forgotten: set[int] = set()
        self._intervals, self._singles = intervals, list(singles)

    @property
    def ended(self) -> int:
        passed = self._intervals[: self.reads]
        return sum(group.count for interval in passed if interval.handshakes for group in interval.handshakes.groups)

    def attach(self) -> None:
        self.is_detached = False

    def poll(self) -> Sequence[Single]:
        return self._singles.pop(0) if self._singles else ()

    def read(self, *, per_interval: bool = False) -> Snapshot:
        del per_interval
        self.reads += 1
        return merge(*self._intervals[: self.reads])

    def forget(self, pids: Collection[int]) -> None:
        self.forgotten |= set(pids)

    def detach(self) -> None:
        self.is_detached = True

    def close(self) -> None:
        self.detach()
