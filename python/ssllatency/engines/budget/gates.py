# SPDX-License-Identifier: Apache-2.0
"""Gates, by which windows take probes off: of one attachment, of a part of it, or of several at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

from ssllatency.engines.side_by_side import side_by_side
from ssllatency.stacks.operation import Tier


class Gates(Protocol):
    """A gate takes probes off and puts them back."""

    def set_probes(self, tiers: Collection[Tier]) -> None:
        """Sets all probes of these tiers; calls don't count before these take them in."""

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        """Calls that begin from now on count."""

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        """No call that begins from now on counts; those that run are still seen to end."""

    def drop_entries(self, tiers: Collection[Tier]) -> None:
        """Of tiers that were just shut: leaves only what sees calls end, where any run on."""

    def finish(self, tier: Tier) -> int:
        """Removes the probes of the tier that are left; how many calls ran on, which aren't counted any more."""

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """Whether no call of these tiers runs that has been seen to begin."""


def resume(gates: Gates, tiers: Collection[Tier]) -> None:
    """Watches these tiers again. AttachError where the kernel refuses."""
    gates.set_probes(tiers)
    gates.resume_counting(tiers)


class HandshakeGates:
    """Of what watches handshakes: these themselves don't go into windows, nor reads and writes from `keep` on."""

    def __init__(self, gates: Gates) -> None:
        self._gates, self._kept = gates, False
        self._shut: set[Tier] = set()

    def keep(self) -> None:
        """Watches reads and writes all the time from here on. AttachError where the kernel refuses."""
        if not self._kept:
            self._kept = True  # also where the kernel refuses: it isn't asked again and again
            self._resume({Tier.DATA})

    def watch_all(self) -> None:
        """Watches all again. AttachError where the kernel refuses."""
        self._resume(set(Tier))

    def _resume(self, tiers: set[Tier]) -> None:
        if shut := self._shut & tiers:
            self._shut -= shut
            resume(self._gates, shut)

    def set_probes(self, tiers: Collection[Tier]) -> None:
        """Set them, as Gates says."""
        self._gates.set_probes(self._those(tiers))

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        """Count again, as Gates says."""
        self._gates.resume_counting(those := self._those(tiers))
        self._shut -= set(those)

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        """Stop counting, as Gates says."""
        self._gates.stop_counting(those := self._those(tiers))
        self._shut |= set(those)

    def drop_entries(self, tiers: Collection[Tier]) -> None:
        """Drop entries, as Gates says."""
        self._gates.drop_entries(self._those(tiers))

    def finish(self, tier: Tier) -> int:
        """End, as Gates says."""
        return self._gates.finish(tier) if self._those([tier]) else 0

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """Whether it is quiet, as Gates says."""
        return self._gates.is_quiet(self._those(tiers))

    def _those(self, tiers: Collection[Tier]) -> list[Tier]:
        """Those of the tiers that go into windows."""
        windowed = {Tier.BELOW} if self._kept else {Tier.DATA, Tier.BELOW}
        return [tier for tier in tiers if tier in windowed]


class JointGates:
    """Several as one. The first counts the calls that are told of: it is the last to be set, and to take in calls."""

    def __init__(self, first: Gates, *others: Gates) -> None:
        self._first, self._others = first, others

    def set_probes(self, tiers: Collection[Tier]) -> None:
        """Set them in all of them."""
        for gates in (*self._others, self._first):
            gates.set_probes(tiers)

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        """Count again in all of them."""
        for gates in (*self._others, self._first):
            gates.resume_counting(tiers)

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        """Stop counting in all of them."""
        self._each(lambda gates: gates.stop_counting(tiers))

    def drop_entries(self, tiers: Collection[Tier]) -> None:
        """Drop entries in all of them."""
        self._each(lambda gates: gates.drop_entries(tiers))

    def finish(self, tier: Tier) -> int:
        """End all of them, side by side, as the kernel takes some 50 ms over each."""
        return side_by_side([partial(gates.finish, tier) for gates in (self._first, *self._others)])[0]

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """Whether all of them are quiet."""
        return all(gates.is_quiet(tiers) for gates in (self._first, *self._others))

    def _each(self, do: Callable[[Gates], None]) -> None:
        for gates in (self._first, *self._others):
            do(gates)
