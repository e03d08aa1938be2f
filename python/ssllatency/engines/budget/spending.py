# SPDX-License-Identifier: Apache-2.0
"""The share of their processor time that tracing takes of whoever pays most, from one look to the next.

Who isn't traced has nothing of it, and a budget of his own: what he pays counts by as many times as it is smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ssllatency.data_class import dataclass
from ssllatency.engines.budget.overhead_factor import OverheadFactor
from ssllatency.engines.cost.spent import LEAST_S, Share, Spent, tool_share

OTHERS_BUDGET = 0.03  # at most, of the processor time of a process that isn't traced and hits the same probes


@dataclass(frozen=True)
class TracerTime:
    """The tracer's own processor time: `used_ns`, all that it has used by now, and `attach_ns`, that to set the probes."""

    used_ns: Callable[[], int]
    attach_ns: Callable[[], int]


class Spending:
    """The spending against a `budget`, measured by `spent`, `spent_unhit` and `bursts` as Windows has them.

    `overhead` tells how many times the measured price hits cost. `unhit`: no probe had been hit when is_unhit() was asked last;
    `rests`: nobody had worked between the two last calls of look_for_rest().
    """

    def __init__(
        self,
        budget: float,
        spent: Callable[[], Spent | None],
        spent_unhit: Callable[[], Spent | None],
        bursts: Callable[[], int],
        tracer: TracerTime,
        clock: Callable[[], float],
    ) -> None:
        self.budget, self._clock = budget, clock
        self._spent, self._spent_unhit, self._bursts, self._tracer = spent, spent_unhit, bursts, tracer
        self._began_s = clock()
        self._before = self._origin = Spent()
        self._burst = 0
        self._worked: tuple[int, int] = (0, 0)  # by the last look for a rest: what the traced ran, and what the others paid
        self._used: tuple[float, int, int] | None = None  # when tool_share() was asked, what was used by tracer and traced then
        self.overhead = OverheadFactor()
        self.rests = self.unhit = False

    def begin(self) -> None:
        """Count what is overdrawn from the last look on."""
        self._origin = self._before

    def share(self, *, anew: bool = True) -> Share | None:
        """The share since this was asked the last time; None where it isn't known. Unless `anew` the next one counts from
        there as well."""
        spent = self._spent()
        if spent is None:
            return None
        share = self._share(self._before, spent)
        if anew:
            self._before = spent
        return share

    def so_far(self) -> tuple[float, float | None] | None:
        """The seconds since share() was asked the last time, and the share until now, without asking it; None where nothing is
        measured."""
        spent = self._spent()
        if spent is None:
            return None
        share = self._share(self._before, spent)
        return spent.at_s - self._before.at_s, share.counted if share else None

    def moment(self) -> Spent | None:
        """Return what since() may be asked about; None where nothing is measured."""
        return self._spent()

    def since(self, moment: Spent | None) -> Share | None:
        """The share since moment() was asked, however short that is; None where it isn't known."""
        spent = self._spent()
        return self._share(moment, spent, least_s=0.0) if moment and spent else None

    def _share(self, earlier: Spent, now: Spent, least_s: float = LEAST_S) -> Share | None:
        share = now.share_since(earlier, others_weight=self.budget / min(self.budget, OTHERS_BUDGET), least_s=least_s)
        return share.times(self.overhead.factor) if share else None

    def overdrawn_s(self) -> float:
        """By how many seconds of processor time for each second of its own whoever paid most has overdrawn the budget, out of
        which setting the probes is paid as well."""
        share, attach_s = self._share(self._origin, self._before), self._tracer.attach_ns() / 1e9
        return attach_s if share is None else (share.counted - self.budget) * (self._clock() - self._began_s) + attach_s

    def is_unhit(self, seconds: float) -> bool:
        """Whether no probe was hit since this or share() was asked, at next to no cost; then share() counts as asked so long
        ago: a few calls after a rest are no burden."""
        spent = self._spent_unhit()
        if spent:
            self._before = replace(spent, at_s=spent.at_s - seconds)
        self.unhit = spent is not None
        return self.unhit

    def is_hit(self) -> bool:
        """Whether a probe was hit since is_unhit() was asked."""
        return self._spent_unhit() is None

    def has_burst(self) -> bool:
        """Whether some process has hit so many probes, since this was asked, that it needs a look at once."""
        before, self._burst = self._burst, self._bursts()
        return self._burst > before

    def look_for_rest(self) -> None:
        """Look whether anybody has worked since this was asked; asks for the share. Others that run and hit no probe may do
        whatever they like."""
        self.share()
        worked = self._before.cpu_ns, self._before.others_cost_ns
        self.rests, self._worked = worked == self._worked, worked

    def tool_share(self) -> float | None:
        """The share that the tracer itself took since this was asked; None at first, as its start would be in it."""
        before, self._used = self._used, (self._clock(), self._tracer.used_ns(), self._before.cpu_ns)
        if before is None:
            return None
        seconds, tool_ns, cpu_ns = (now - then for now, then in zip(self._used, before, strict=True))
        return tool_share(tool_ns, cpu_ns, seconds)
