# SPDX-License-Identifier: Apache-2.0
"""The moments at which the cost of tracing is looked at."""

from __future__ import annotations

SOONEST_LOOK_S = 0.008  # from the start to the first look of all: who calls without a pause is known by then
FIRST_LOOK_S, LOOK_S = 0.03, 0.25  # from a beginning to the first look, and from one look to the next when all is settled


class Looks:
    """Looks come soon after a beginning, each twice as long after it as the one before, and settle to one each LOOK_S.

    A first look alone is too short to tell: a server that rests between its requests has done next to nothing by then, and the
    next would come when the budget of seconds is spent. `next_s`: when the next look is due.
    """

    def __init__(self, now: float) -> None:
        self._began_s, self._looked_s, self._first_s = now, now, FIRST_LOOK_S
        self.next_s = now + LOOK_S
        self.settling = False

    def begin(self, now: float, first_s: float = FIRST_LOOK_S) -> None:
        """Something begins to cost, or more may than was seen before; `first_s`: until the first look, perhaps one more."""
        self._began_s, self._looked_s, self._first_s = now, now, first_s
        self.next_s = now + first_s
        self.settling = True

    def soon(self, now: float) -> None:
        """Has the next look come as soon as a first one."""
        self.next_s = min(self.next_s, now + FIRST_LOOK_S)

    def later(self, at_s: float) -> None:
        """Has the next look come no sooner than that."""
        self.next_s, self.settling = at_s, False

    def is_due(self, now: float) -> bool:
        """Whether it is time for one."""
        return now >= self.next_s

    def looked(self, now: float) -> None:
        """One takes place now."""
        self._looked_s = now
        passed_s = max(self._first_s, now - self._began_s)
        self.settling = self.settling and passed_s < LOOK_S
        self.next_s = self._began_s + max(FIRST_LOOK_S, 2 * passed_s) if self.settling else now + LOOK_S

    @property
    def comparable_s(self) -> float:
        """The moment from which on one more look has something to tell."""
        return self._looked_s + FIRST_LOOK_S
