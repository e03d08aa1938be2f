# SPDX-License-Identifier: Apache-2.0
"""What windows take probes off by: of one attachment, of a part of it, or of several at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ssllatency.engines.attach.sites import Tier


class Gates(Protocol):
    """What takes probes off and puts them back."""

    def set_probes(self, tiers: Collection[Tier]) -> None:
        """Sets all probes of these tiers; calls don't count before these take them in."""

    def take_in(self, tiers: Collection[Tier]) -> None:
        """Calls that begin from now on count."""

    def shut(self, tiers: Collection[Tier]) -> None:
        """No call that begins from now on counts; those that run are still seen to end."""

    def thin(self, tiers: Collection[Tier]) -> None:
        """Of tiers that were just shut: leaves only what sees calls end, where any run on."""

    def finish(self, tier: Tier) -> int:
        """Removes the probes of the tier that are left; how many calls ran on, which aren't counted any more."""

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """Whether no call of these tiers runs that has been seen to begin."""


def resume(gates: Gates, tiers: Collection[Tier]) -> None:
    """Watches these tiers again. AttachError where the kernel refuses."""
    gates.set_probes(tiers)
    gates.take_in(tiers)


class DataGates:
    """Of what watches handshakes: only reads and writes go into windows, and from `keep` on they don't, either."""

    def __init__(self, gates: Gates) -> None:
        self._gates, self._kept, self._shut = gates, False, False

    def keep(self) -> None:
        """Watches reads and writes all the time from here on. AttachError where the kernel refuses."""
        if not self._kept and self._shut:
            resume(self._gates, [Tier.DATA])
        self._kept = True

    def set_probes(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        if self._has(tiers):
            self._gates.set_probes([Tier.DATA])

    def take_in(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        if self._has(tiers):
            self._gates.take_in([Tier.DATA])
            self._shut = False

    def shut(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        if self._has(tiers):
            self._gates.shut([Tier.DATA])
            self._shut = True

    def thin(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        if self._has(tiers):
            self._gates.thin([Tier.DATA])

    def finish(self, tier: Tier) -> int:
        """As Gates has it."""
        return self._gates.finish(tier) if self._has([tier]) else 0

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """As Gates has it."""
        return not self._has(tiers) or self._gates.is_quiet([Tier.DATA])

    def _has(self, tiers: Collection[Tier]) -> bool:
        return Tier.DATA in tiers and not self._kept


class JointGates:
    """Several as one. The first counts the calls that are told of: it is the last to be set, and to take in calls."""

    def __init__(self, first: Gates, *others: Gates) -> None:
        self._first, self._others = first, others

    def set_probes(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        for gates in (*self._others, self._first):
            gates.set_probes(tiers)

    def take_in(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        for gates in (*self._others, self._first):
            gates.take_in(tiers)

    def shut(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        self._each(lambda gates: gates.shut(tiers))

    def thin(self, tiers: Collection[Tier]) -> None:
        """As Gates has it."""
        self._each(lambda gates: gates.thin(tiers))

    def finish(self, tier: Tier) -> int:
        """As Gates has it; side by side, as the kernel takes some 50 ms over each."""
        from concurrent.futures import ThreadPoolExecutor  # not before the probes are attached

        with ThreadPoolExecutor(1 + len(self._others)) as pool:
            ran_on: list[int] = list(pool.map(lambda gates: gates.finish(tier), (self._first, *self._others)))
        return ran_on[0]

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """As Gates has it."""
        return all(gates.is_quiet(tiers) for gates in (self._first, *self._others))

    def _each(self, do: Callable[[Gates], None]) -> None:
        for gates in (self._first, *self._others):
            do(gates)
