# SPDX-License-Identifier: Apache-2.0
"""Amounts that others can use up, and that come back with time: a run of weeks recovers from whoever has used them up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from pathlib import Path

_MOST_USERS = 1024  # that are told apart
_ROOTS = (Path("/"), Path("/proc/1/root"))  # in a container with the host's processes the other is the host's


def owner(descriptor: int) -> tuple[int, int]:
    """Return whose an open file is: its user on its file system, as each container's root is root on one of its own."""
    status = os.fstat(descriptor)
    return status.st_uid, status.st_dev


def host() -> frozenset[tuple[int, int]]:
    """Return the owners of the host's own files, and of our container's."""
    devices = set[int]()
    for root in _ROOTS:
        with suppress(OSError):  # who may not look at the host's first process sees only what is their own
            devices.add(root.stat().st_dev)
    return frozenset((0, device) for device in devices)


class Allowance:
    """An amount of at most `most`, all of which comes back within `period_s`. What is used last may be more than is left."""

    def __init__(self, most: float, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._rate, self._clock = most, most / period_s, clock
        self._left, self._at_s = most, clock()

    @property
    def left(self) -> float:
        """The amount that may be used now."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at_s) * self._rate)
        self._at_s = now
        return self._left

    def use(self, amount: float) -> None:
        """Takes that much away."""
        self._left = self.left - amount

    @property
    def is_whole(self) -> bool:
        """Whether all has come back."""
        return self.left >= self._most


class SharedAllowance:
    """An amount of which each user may have a quarter. What the owners in `host` use, which strangers don't choose, is
    counted by itself, so that nobody takes that away."""

    def __init__(
        self, most: float, period_s: float, host: Collection[Hashable], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._all, self._host = Allowance(most, period_s, clock), host
        self._of_host = Allowance(most, period_s, clock)
        self._of_user = most / 4, period_s, clock
        self._users: dict[Hashable, Allowance] = {}
        self._further = Allowance(*self._of_user)  # of those that aren't told apart

    def has_room(self, user: Hashable) -> bool:
        """Whether the user may have more now."""
        return all(allowance.left > 0 for allowance in self._parts(user))

    def use(self, user: Hashable, amount: float) -> None:
        """Takes that much away."""
        for allowance in self._parts(user):
            allowance.use(amount)

    def _parts(self, user: Hashable) -> tuple[Allowance, ...]:
        return (self._of_host,) if user in self._host else (self._all, self._of(user))

    def _of(self, user: Hashable) -> Allowance:
        if user not in self._users and len(self._users) >= _MOST_USERS:
            self._users = {user: left for user, left in self._users.items() if not left.is_whole}
            if len(self._users) >= _MOST_USERS:
                return self._further
        return self._users.setdefault(user, Allowance(*self._of_user))
