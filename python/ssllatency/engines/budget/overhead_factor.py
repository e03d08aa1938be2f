# SPDX-License-Identifier: Apache-2.0
"""The factor by which hits are dearer in the traced processes than they were measured at: there they also push data and code
out of caches, a server that they slow down wakes its clients more often, and setting and removing probes takes its part. It is
seen by the CPU time for each system call, with probes and without."""

from __future__ import annotations

from ssllatency.model.sampling import NONE, Work

_MARGIN = 0.01  # of the usual CPU time, which differs from window to window anyway
_MOST = 4.0
_FEW = 1000  # system calls in windows whose time differs by chance as much as by what hits take
_USUAL = 1.4  # what servers at work showed; docs/measured/budget.md has one
_KEPT = 0.9  # of what was seen until a window: servers change


class OverheadFactor:
    """Hears what the processes did in windows and between them."""

    def __init__(self) -> None:
        self._watched = self._between = NONE

    def heard(self, between: Work, watched: Work) -> None:
        """Takes in the time from before the probes of a window were set until they were removed, and some time before it in
        which no function that goes into windows was probed."""
        if between.io_calls and between.own_ns and watched.io_calls and watched.own_ns:
            self._watched, self._between = self._watched * _KEPT + watched, self._between * _KEPT + between

    @property
    def factor(self) -> float:
        """The time of a hit as a multiple of what was measured; 1 where that isn't known."""
        return self._beside(1.0)

    @property
    def caution(self) -> float:
        """The multiple of the factor that hits may take, by what is usual: 1 once it is known by many system calls."""
        return self._beside(_USUAL) / self.factor

    def _beside(self, unknown: float) -> float:
        """The factor, which is `unknown` as far as nothing was seen."""
        watched, between = self._watched, self._between
        if not between.io_calls or not watched.cost_ns:
            return unknown
        usual_ns = (between.own_ns or 0.0) / between.io_calls * (watched.io_calls or 0.0)
        excess_ns = (watched.own_ns or 0.0) + watched.cost_ns - (1 + _MARGIN) * usual_ns
        io_calls = watched.io_calls or 0.0
        known = io_calls / (io_calls + _FEW)
        return min(max(1.0, unknown + known * (excess_ns / watched.cost_ns - unknown)), _MOST)
