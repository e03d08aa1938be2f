# SPDX-License-Identifier: Apache-2.0
"""Single calls, as they happen. An event is a bare tuple, for there may be hundreds of thousands a second."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from ssllatency.model.snapshot import Outcome

# ended_ns (CLOCK_MONOTONIC), duration_ns, returned (64 bits, unsigned), bytes (-1: not known), keys of the caller and the call
Event = tuple[int, int, int, int, bytes, int]


class Returned(StrEnum):
    """The kinds of values that a function returns."""

    NUMBER = "number"  # an int
    POINTER = "pointer"
    STATUS = "status"  # 32 bits that are no number (mbx_status)
    NOTHING = "nothing"


class Caller(NamedTuple):
    """The thread that made a call, by the name that it had then."""

    pid: int
    tid: int
    comm: str


class Call(NamedTuple):
    """A function with how a call of it ended. `reason` is "" where there is none to give."""

    function: str
    returned: Returned
    outcome: Outcome
    reason: str


class Keys(Protocol):
    """The meaning of an event's keys. There are few different answers, so callers may cache what they derive from them."""

    def caller(self, key: bytes) -> Caller:
        """The caller of this key."""

    def call(self, key: int) -> Call:
        """The call of this key."""


def as_int32(returned: int) -> int:
    """The register's lower half as C's int."""
    low = returned & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
