# SPDX-License-Identifier: Apache-2.0
"""Whose the parts of one handshake are: the server's own queue, the peer, an offload, the calls; and what each consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ssllatency.model.handshakes import MEANWHILE, PHASES, WAITS, Label, Part, RequestedSide, Single
from ssllatency.reports.words.parts import part_names

# In each handshake they add up to what its client waited.
OWNERS = (Part.QUEUE, *(wait for wait in WAITS if wait is not Part.QUEUE_SERVER), Part.CALLS)
_PIECES = {
    Part.QUEUE: MEANWHILE,
    Part.WAIT_PEER: (Part.ROUND_TRIPS, Part.LOSSES),
    Part.CALLS: PHASES,
}


@dataclass(frozen=True)
class Owned:
    """What one of OWNERS took of a handshake: its name, nanoseconds, and what of it is worth a word, the longest first, by
    name."""

    part: Part
    name: str
    time_ns: int
    pieces: tuple[tuple[str, int], ...]

    @property
    def most(self) -> str:
        """What it mostly was, in a word."""
        return self.pieces[0][0] if self.pieces else self.name


def owned(single: Single) -> list[Owned]:
    """What each owner took of this handshake, the longest first."""
    names = part_names(RequestedSide.CLIENT if single.labels.get(Label.ROLE) == RequestedSide.CLIENT else RequestedSide.SERVER)
    shares = [
        Owned(part, names[part].removeprefix("wait: ").removeprefix("in "), single.parts[part], _pieces(part, single, names))
        for part in OWNERS
        if single.parts.get(part)
    ]
    return sorted(shares, key=lambda share: -share.time_ns)


def _pieces(owner: Part, single: Single, names: Mapping[Part, str]) -> tuple[tuple[str, int], ...]:
    parts = sorted((part for part in _PIECES.get(owner, ()) if single.parts.get(part)), key=lambda part: -single.parts[part])
    return tuple((names[part], single.parts[part]) for part in parts[:1] if _tells(owner, part, single))


def _tells(owner: Part, longest: Part, single: Single) -> bool:
    """Whether the longest piece says what its owner's time was: of waits for the peer only if it is most of it; the rest of the
    calls says nothing where it may have been any phase."""
    if owner is Part.WAIT_PEER:
        return 2 * single.parts[longest] > single.parts[owner]
    return not (single.unphased and longest is Part.REST)
