# SPDX-License-Identifier: Apache-2.0
"""One incident makes one recording: it begins when the condition begins to hold, and the next one can't before it hasn't held
for a while."""

from __future__ import annotations

from enum import Enum


class Step(Enum):
    """The place of an interval: nothing special, the one in which an incident begins, or the last one that is recorded of
    it."""

    NOTHING = "nothing"
    BEGIN = "begin"
    END = "end"


class Incidents:
    """Follows one condition. Times in seconds: `after_s` is recorded of an incident from its beginning on, and the next one may
    begin when the condition hasn't held for `quiet_s`."""

    def __init__(self, after_s: float, quiet_s: float) -> None:
        self._after_s, self._wanted_quiet_s = after_s, quiet_s
        self._left_s: float | None = None  # to be recorded of the present incident
        self._quiet_s = float("inf")

    @property
    def is_recording(self) -> bool:
        """Whether an incident has begun of which not all is recorded yet."""
        return self._left_s is not None

    def take(self, holds: bool, seconds: float) -> Step:
        """An interval of this length at whose end the condition holds or not."""
        may_begin = self._quiet_s >= self._wanted_quiet_s
        self._quiet_s = 0.0 if holds else self._quiet_s + seconds
        if self._left_s is not None:
            self._left_s -= seconds
            if self._left_s > 0:
                return Step.NOTHING
            self._left_s = None
            return Step.END
        if not holds or not may_begin:
            return Step.NOTHING
        self._left_s = self._after_s
        return Step.BEGIN
