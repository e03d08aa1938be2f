# SPDX-License-Identifier: Apache-2.0
"""Sources: whatever measures the calls and handshakes of processes. A command reads any of them in the same way, and asks what
one declares it can do, not what its class is or what its engine is called.

    source.attach()                    # from here on it counts
    source.extend(images)              # what has come later, of one with FOLLOW
    source.poll()                      # some times a second, and when it is due
    source.read()                      # the counts so far: a Snapshot
    source.detach(); source.close()    # close at any time, also when one of the above has failed
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Flag, auto
from typing import TYPE_CHECKING, Protocol, TypeGuard

if TYPE_CHECKING:
    from ssllatency.engines.attach.attachment import Attachment
    from ssllatency.engines.base import Request, TracedImage
    from ssllatency.model.handshakes import Single
    from ssllatency.model.snapshot import Snapshot


class Ability(Flag):
    """Abilities of a source, which it declares before it is attached.

    FUNCTIONS: its snapshots have calls by function. HANDSHAKES: they have whole handshakes, and LABELS: these by version,
    cipher and the like. CALLS, SINGLES: calls, or handshakes, can be taken one by one as they end. FOLLOW: files and processes
    that come later are traced as well. BUDGET: it keeps within a part of the processes' CPU time, by watching less.
    """

    FUNCTIONS = auto()
    HANDSHAKES = auto()
    LABELS = auto()
    CALLS = auto()
    SINGLES = auto()
    FOLLOW = auto()
    BUDGET = auto()


class Attached(Protocol):
    """A source that counts, and is read. Its counts are cumulative from the start.

    `due_s`: when the next poll is due at the latest, by time.monotonic(); infinity where nothing is due, as while nothing is
    watched in windows.
    """

    @property
    def due_s(self) -> float:
        """See above."""

    def read(self, *, per_interval: bool = False) -> Snapshot:
        """Return everything counted so far; the extremes are those since the start, or since the last read."""

    def detach(self) -> None:
        """Removes the probes; what was counted can still be read. May be called twice."""


class Source(Attached, Protocol):
    """A source of snapshots."""

    abilities: Ability

    def attach(self) -> None:
        """Begins to count: all that was asked for, or nothing. SsllatencyError says why not."""

    def poll(self) -> Sequence[Single]:
        """Do what is due; to be called several times a second. Return the handshakes that were to be handed over one by one and
        have ended since the last call, in the order they ended: none without SINGLES."""

    def close(self) -> None:
        """Detaches and frees everything; may be called twice."""


class FollowingSource(Source, Protocol):
    """A source that takes what comes later: one that declares FOLLOW. `attachment` grows with it."""

    attachment: Attachment

    def extend(self, images: Sequence[TracedImage]) -> None:
        """Attaches files that came later. AttachError where the kernel refuses."""

    def include(self, index: int, pids: Iterable[int]) -> None:
        """Attaches the image of that number to processes that came later."""


class HandshakeSource(Source, Protocol):
    """A source of handshakes: one that declares HANDSHAKES.

    `ended`: the number of handshakes that have ended so far; `in_flight`: of those that have begun and not ended;
    `events_dropped`: of those that were to be handed over one by one and for which there was no room. `notes`: sentences for
    the reader, as they came up.
    """

    @property
    def ended(self) -> int:
        """See above."""

    @property
    def in_flight(self) -> int:
        """See above."""

    @property
    def events_dropped(self) -> int:
        """See above."""

    @property
    def notes(self) -> Sequence[str]:
        """See above."""

    @property
    def rests(self) -> bool:
        """Whether there is a budget, and nobody worked when it was last looked: then `poll` may be called twice a second."""

    def forget(self, pids: Collection[int]) -> None:
        """Frees the rows of processes that had ended before the last `read`; later snapshots are without their counts."""


class Engine(Protocol):
    """A way of attaching the probes of a plan. `abilities` are those of its sources."""

    name: str
    abilities: Ability

    def attach(self, request: Request) -> Source:
        """Attaches all probes of the request or none; SsllatencyError says why not."""


def can_follow(source: Source) -> TypeGuard[FollowingSource]:
    """Whether the source takes what comes later."""
    return Ability.FOLLOW in source.abilities
