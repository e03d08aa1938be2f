# SPDX-License-Identifier: Apache-2.0
"""Owners of the parts of one handshake: the server's own queue, the peer, an offload, the calls; and what each consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import MEANWHILE, PHASES, WAITS, Label, Part, RequestedSide, Single
from ssllatency.model.statistics.comparison import Contribution
from ssllatency.reports.words.parts import part_names

# In each handshake they add up to what its client waited.
OWNERS = (Part.QUEUE, *(wait for wait in WAITS if wait is not Part.QUEUE_SERVER), Part.CALLS)
# Who is answerable for the time, where all handshakes are told of.
OWNER_WORDS = {
    Part.QUEUE: "server's queue",
    Part.CALLS: "server's calls",
    Part.WAIT_PEER: "peer and network",
    Part.WAIT_PEER_OR_SERVER: "peer or server",
    Part.WAIT_WINDOW: "peer's window",
    Part.WAIT_OFFLOAD: "offload",
    Part.WAIT_APPLICATION: "application",
    Part.WAIT_UNKNOWN: "unknown",
}
_PIECES = {
    Part.QUEUE: MEANWHILE,
    Part.WAIT_PEER: (Part.ROUND_TRIPS, Part.LOSSES),
    Part.CALLS: PHASES,
}


@dataclass(frozen=True)
class Owned:
    """The share of a handshake that one of OWNERS took: its name, nanoseconds, and what of it is worth a word, the longest
    first, by name."""

    part: Part
    name: str
    time_ns: int
    pieces: tuple[tuple[str, int], ...]

    @property
    def most(self) -> str:
        """The most of it, in a word."""
        return self.pieces[0][0] if self.pieces else self.name


def owned(single: Single) -> list[Owned]:
    """Return what each owner took of this handshake, the longest first."""
    names = part_names(RequestedSide.CLIENT if single.labels.get(Label.ROLE) == RequestedSide.CLIENT else RequestedSide.SERVER)
    shares = [
        Owned(part, names[part].removeprefix("wait: ").removeprefix("in "), single.parts[part], _pieces(part, single, names))
        for part in OWNERS
        if single.parts.get(part)
    ]
    return sorted(shares, key=lambda share: -share.time_ns)


@dataclass(frozen=True)
class OwnedChange:
    """The time of one of OWNERS in the mean handshake before and after, in nanoseconds, and the parts that it consists of."""

    part: Part
    parts: tuple[Contribution, ...]

    @property
    def before_ns(self) -> Fraction:
        """Before."""
        return sum((part.before_ns for part in self.parts), Fraction())

    @property
    def after_ns(self) -> Fraction:
        """After."""
        return sum((part.after_ns for part in self.parts), Fraction())

    @property
    def change_ns(self) -> Fraction:
        """Its part in the change of the mean."""
        return self.after_ns - self.before_ns


def by_owner(contributions: Iterable[Contribution]) -> list[OwnedChange]:
    """The contributions to a change by owner, the largest change first as they are."""
    owners: dict[Part, list[Contribution]] = {}
    for contribution in contributions:
        owners.setdefault(_owner(contribution.part), []).append(contribution)
    changes = [OwnedChange(part, tuple(parts)) for part, parts in owners.items()]
    grown = sum((change.change_ns for change in changes), Fraction()) > 0
    return sorted(changes, key=lambda change: -change.change_ns if grown else change.change_ns)


def _owner(part: Part) -> Part:
    if part in (Part.QUEUE_START, Part.QUEUE_SERVER):
        return Part.QUEUE
    return Part.CALLS if part in PHASES else part


def _pieces(owner: Part, single: Single, names: Mapping[Part, str]) -> tuple[tuple[str, int], ...]:
    parts = sorted((part for part in _PIECES.get(owner, ()) if single.parts.get(part)), key=lambda part: -single.parts[part])
    return tuple((names[part], single.parts[part]) for part in parts[:1] if _tells(owner, part, single))


def _tells(owner: Part, longest: Part, single: Single) -> bool:
    """Whether the longest piece says what its owner's time was: of waits for the peer only if it is most of it; the rest of the
    calls says nothing where it may have been any phase."""
    if owner is Part.WAIT_PEER:
        return 2 * single.parts[longest] > single.parts[owner]
    return not (single.unphased and longest is Part.REST)
