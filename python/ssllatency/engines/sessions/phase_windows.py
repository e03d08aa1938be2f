# SPDX-License-Identifier: Apache-2.0
"""Keeps what watches handshakes within the budget. The phases go into windows, but for the private key's, and so do reads and
writes where they have to be watched for the handshakes in them, until a handshake was seen to take place within one. Handshakes
themselves don't."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.budget.gates import HandshakeGates
from ssllatency.engines.budget.windows import Windows
from ssllatency.engines.sessions.windowed import ending_if_refused, windows_of
from ssllatency.stacks.operation import Tier

GAVE_UP = (
    "Phases but the private key's were given up to keep within the budget, as this kernel can't set their probes again: in"
    " later handshakes they are part of rest. --exact watches them all the time."
)


class PhaseWindows:
    """Nothing happens before `begin`, nor without a `budget`. `gates` are those of phases, and of reads and writes."""

    def __init__(self, attachment: Attachment, budget: float | None) -> None:
        self._attachment, self._budget = attachment, budget
        self.gates = HandshakeGates(attachment)
        self._windows: Windows | None = None
        self._tiers: tuple[Tier, ...] = ()
        self._over = False

    def begin(self, *, within_data: bool) -> None:
        """Looks what all that costs from here on; may be called again. `within_data`: reads and writes are watched."""
        tiers = (Tier.DATA, Tier.BELOW) if within_data else (Tier.BELOW,)
        if self._budget is None or self._over or self._tiers == tiers:
            return
        if self._windows:
            self._windows.finish()
            self.gates.watch_all()
        self._tiers = tiers
        self._windows = windows_of(self._attachment, self._budget, self.gates, tiers=tiers)
        self._windows.start(self._attachment.held)

    def look_soon(self) -> None:
        """More was attached just now."""
        if self._windows:
            self._windows.look_soon()

    def tick(self, within_data: int) -> None:
        """Does what is due; `within_data`: how many handshakes were seen to take place within reads and writes."""
        if self._budget is None:
            return
        with ending_if_refused(self._windows, self._attachment):
            if within_data:
                self.gates.keep()
            if self._windows:
                self._windows.tick()

    @property
    def due_s(self) -> float:
        """The time of the next tick at the latest, as for any source."""
        if self._windows:
            return self._windows.due_s
        return math.inf if self._budget is None or self._over else 0.0

    @property
    def rests(self) -> bool:
        """Whether there is a budget, and nobody worked when it was last looked."""
        return bool(self._windows and self._windows.rests)

    @property
    def exact_share(self) -> float | None:
        """The part of its processor time that whoever pays most would pay if all were watched all the time; None where it
        is."""
        sampled = self._windows.by_tier().get(Tier.BELOW) if self._windows else None
        return sampled.exact_share if sampled else None

    def finish(self) -> None:
        """Ends the account; may be called twice, and before there is one: then none begins."""
        self._over = True
        if self._windows:
            self._windows.finish()

    def notes(self, within_data: int) -> Iterator[str]:
        """Sentences about what the budget means for what was counted."""
        if self._budget is None:
            return
        if within_data:
            yield "Handshakes take place within reads and writes here, so these are watched all the time, whatever that costs."
        elif self._windows and (part := self._windows.by_tier().get(Tier.DATA)):
            watched = f"{100 * part.watched_s / part.duration_s:.0f} % of the time" if part.duration_s else "in windows only"
            yield (
                f"SSL_read, SSL_write and their like were watched {watched}, to keep within the budget: a handshake that takes"
                " place within them isn't counted in the rest. --exact watches all the time."
            )
        if self._windows and self._windows.gave_up:
            yield GAVE_UP
