# SPDX-License-Identifier: Apache-2.0
"""Keeps reads and writes within the budget where they have to be watched for the handshakes in them. What handshakes consist of
doesn't go into windows, nor do reads and writes once a handshake was seen to take place within one."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.sites import Tier
from ssllatency.engines.base import AttachError
from ssllatency.engines.budget.gates import DataGates
from ssllatency.engines.budget.windows import Windows


class DataWindows:
    """Nothing happens before `begin`, nor without a `budget`. `gates` are those of reads and writes."""

    def __init__(self, attachment: Attachment, budget: float | None) -> None:
        self._attachment, self._budget = attachment, budget
        self.gates = DataGates(attachment)
        self._windows: Windows | None = None

    def begin(self) -> None:
        """Looks what reads and writes cost from here on; may be called again."""
        if self._budget is None or self._windows:
            return
        processes = self._attachment.processes
        self._windows = Windows(
            *(self._budget, self.gates, processes.spent, dict),
            tiers=(Tier.DATA,),
            work=processes.work,
            spent_unhit=processes.spent_unhit,
            again=self._attachment.can_set_again,
        )
        self._windows.start(self._attachment.held)

    def tick(self, within_data: int) -> None:
        """Does what is due; `within_data`: how many handshakes were seen to take place within reads and writes."""
        if self._budget is None:
            return
        windows = self._windows if self._windows and not self._windows.over else None
        try:
            if within_data:
                if windows:
                    windows.finish()
                self.gates.keep()
            elif windows:
                windows.tick()
        except AttachError as error:
            if windows:
                windows.finish()
            self._attachment.notes.append(f"Reads and writes aren't watched any more: {error}")

    @property
    def due_s(self) -> float:
        """As Session has it."""
        return self._windows.due_s if self._windows else math.inf

    def finish(self) -> None:
        """Ends the account; may be called twice."""
        if self._windows:
            self._windows.finish()

    def notes(self, within_data: int) -> Iterator[str]:
        """What the budget means for what was counted."""
        if self._budget is None:
            return
        for part in self._windows.sampling() if self._windows else ():
            watched = f"{100 * part.watched_s / part.duration_s:.0f} % of the time" if part.duration_s else "in windows only"
            yield (
                f"SSL_read, SSL_write and their like were watched {watched}, to keep within the budget: a handshake that takes"
                " place within them isn't counted in the rest. --exact watches all the time."
            )
        if within_data:
            yield "Handshakes take place within reads and writes here, so these are watched all the time, whatever that costs."
