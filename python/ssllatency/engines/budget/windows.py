# SPDX-License-Identifier: Apache-2.0
"""Watches functions in windows, so that tracing stays within its budget, and keeps what each window saw.

In each stratum of time lies one window at a random place. Outside of it the probes are gone: a program that only ignored its
hits would save next to nothing, as it is the trap that costs. A call that begins in a window is followed to its end for a while
after it, as long calls would else be missed more often than short ones.

At first all is watched: only what costs too much goes into windows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from ssllatency.engines.attach.sites import Tier, tier_of
from ssllatency.engines.budget.controller import Controller
from ssllatency.engines.cost.spent import Spent
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.sampling import Sampling
from ssllatency.model.statistics.windows import MOST_STRATA, Function, Stratum, estimates, fewer
from ssllatency.probes.catalogue import BY_NAME

_FIRST_LOOK_S, _LOOK_S = 0.03, 0.25  # when it is seen how much tracing costs: at first, and then while all is watched
_SOON_S = 0.12  # what comes so soon is waited for, as nobody may call in time
_LEAST_OUTSIDE_S = 0.02  # a time before a window that tells what tracing costs without it
_LEAST_LINGER_S = 0.2  # how long calls that began in a window are followed past it: so long, or as long as the window was

Totals = Mapping[Function, ExponentialHistogram]


class Gates(Protocol):
    """What takes probes off and puts them back."""

    def resume(self, tiers: Collection[Tier]) -> None:
        """Sets all probes of these tiers; calls that begin when it is back count."""

    def shut(self, tiers: Collection[Tier]) -> None:
        """No call that begins from now on counts; those that run are still seen to end."""

    def finish(self, tier: Tier) -> int:
        """Removes the probes of the tier that are left; how many calls ran on, which aren't counted any more."""

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        """Whether no call of these tiers runs that has been seen to begin."""


class _Phase(Enum):
    """Where the tiers in windows are in their stratum."""

    BEFORE = "before its window"
    OPEN = "in it"
    AFTER = "after it, while calls that began in it go on"


@dataclass
class _Watch:
    """What is kept of a tier: its strata, where the running one began, and the calls counted by then."""

    since_s: float
    counted: dict[Function, ExponentialHistogram] = field(default_factory=dict)
    strata: list[Stratum] = field(default_factory=list)
    windows: int = 0
    unfinished: int = 0

    @property
    def in_part(self) -> bool:
        """Whether some of the time wasn't watched."""
        return any(stratum.watched_s < stratum.length_s for stratum in self.strata)


class Windows:
    """Drives the gates. `tick` is to be called many times a second, `finish` before the last counts are read.

    `spent` tells what tracing has cost by now, None where that isn't known; `totals` all calls counted so far by function and
    outcome. `tiers` are those that may go into windows, one after the other.
    """

    def __init__(
        self,
        budget: float,
        gates: Gates,
        spent: Callable[[], Spent | None],
        totals: Callable[[], Totals],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: random.Random | None = None,
        tiers: Sequence[Tier] = tuple(Tier),
    ) -> None:
        self._budget, self._gates, self._spent, self._totals = budget, gates, spent, totals
        self._clock, self._sleep, self._chance = clock, sleep, chance or random.Random()
        self._tiers = tuple(tiers)
        self._controller = Controller(budget, len(tiers))
        self._began_s = now = clock()
        self._look_s = now + _LOOK_S
        self._before = Spent()
        self._watches = {tier: _Watch(now) for tier in self._tiers}
        self._windowed: tuple[Tier, ...] = ()
        self._phase = _Phase.BEFORE
        self._opens_s = self._shuts_s = self._ends_s = 0.0
        self._opened_s = self._shut_s = self._watched_s = 0.0
        self._outside: float | None = None
        self._planned_s = now
        self._over = False

    def start(self) -> None:
        """To be called as soon as all is watched: looks for a moment whether that costs too much."""
        self._share()
        self._sleep(_FIRST_LOOK_S)
        self._look()

    def tick(self) -> None:
        """Does what is due."""
        if self._over:
            return
        if not self._windowed:
            if self._clock() >= self._look_s:
                self._look()
            return
        if self._phase is _Phase.BEFORE and self._is_time(self._opens_s):
            self._open()
        if self._phase is _Phase.OPEN and self._is_time(self._shuts_s):
            self._shut()
        if self._phase is _Phase.AFTER and self._may_go_on():
            self._end_stratum()

    def finish(self) -> None:
        """Ends the running stratum where it is; may be called twice."""
        if self._over:
            return
        self._over = True
        now, totals = self._clock(), self._totals()
        for tier, watch in self._watches.items():
            if tier not in self._windowed:
                self._record(totals, tier, now, now - watch.since_s)
            elif self._phase is _Phase.BEFORE:
                _move_border(watch, now)
            else:
                watched_s = now - self._opened_s if self._phase is _Phase.OPEN else self._watched_s
                self._record(totals, tier, max(now, watch.since_s + watched_s), watched_s)

    @property
    def over(self) -> bool:
        """Whether it has been finished."""
        return self._over

    def sampling(self, *, anew: bool = False) -> tuple[Sampling, ...]:
        """What was seen in windows, by tier, up to the last stratum that has ended; `anew`: after that another such account
        begins."""
        watches = [watch for tier, watch in self._watches.items() if watch.in_part or tier in self._windowed]
        seen = tuple(map(_sampling, watches))
        for watch in self._watches.values() if anew else ():
            watch.strata, watch.windows, watch.unfinished = [], 0, 0
        return seen

    def _is_time(self, at_s: float) -> bool:
        """Whether it is time; waits for it where that is soon, as nobody may call then."""
        left_s = at_s - self._clock()
        if left_s > _SOON_S:
            return False
        if left_s > 0:
            self._sleep(left_s)
        return True

    def _look(self) -> None:
        """While all is watched: whether that costs too much."""
        self._look_s = self._clock() + _LOOK_S
        if self._controller.watched_all(self._share()):
            self._begin_stratum()

    def _share(self) -> float | None:
        """What tracing took since it was asked the last time."""
        spent = self._spent()
        if spent is None:
            return None
        share, self._before = spent.share_since(self._before), spent
        return share

    def _excess_s(self) -> float:
        spent = self._before
        if not spent.cpu_ns:
            return 0.0
        return (spent.cost_ns / spent.cpu_ns - self._budget) * (self._clock() - self._began_s)

    def _begin_stratum(self) -> None:
        """Takes those tiers into windows that cost too much, lets those out that don't, and chooses the next window."""
        schedule = self._controller.next(self._excess_s())
        wanted = self._tiers[: self._controller.level]
        for tier in set(wanted) - set(self._windowed):
            now = self._clock()
            self._gates.shut([tier])
            self._watches[tier].unfinished += self._gates.finish(tier)
            self._record(self._totals(), tier, now, now - self._watches[tier].since_s)
        for tier in set(self._windowed) - set(wanted):
            self._gates.resume([tier])
            _move_border(self._watches[tier], self._clock())
        self._windowed, self._phase = wanted, _Phase.BEFORE
        begins_s = max(self._ends_s, self._clock())
        for tier in wanted:
            _move_border(self._watches[tier], begins_s)
        self._ends_s = begins_s + schedule.stratum_s
        self._opens_s = begins_s + self._chance.uniform(0, schedule.stratum_s - schedule.window_s)
        self._shuts_s = self._opens_s + schedule.window_s
        self._planned_s = self._clock()
        self._share()

    def _open(self) -> None:
        if self._clock() - self._planned_s >= _LEAST_OUTSIDE_S:
            spent = self._spent()
            self._outside = spent.share_since(self._before) if spent else None
        self._gates.resume(self._windowed)
        self._opened_s = self._clock()
        self._shuts_s += max(0.0, self._opened_s - self._opens_s)
        self._phase = _Phase.OPEN

    def _shut(self) -> None:
        self._shut_s = self._clock()
        self._gates.shut(self._windowed)
        self._watched_s = self._shut_s - self._opened_s
        self._phase = _Phase.AFTER

    def _may_go_on(self) -> bool:
        """Whether the calls that began in the window have ended, or have had their time."""
        if self._clock() >= self._shut_s + max(_LEAST_LINGER_S, self._watched_s):
            return True
        return self._gates.is_quiet(self._windowed)

    def _end_stratum(self) -> None:
        until_s = max(self._ends_s, self._clock())
        for tier in self._windowed:
            self._watches[tier].unfinished += self._gates.finish(tier)
            self._watches[tier].windows += 1
        totals = self._totals()
        for tier in self._windowed:
            self._record(totals, tier, until_s, self._watched_s)
        whole = self._share()
        self._controller.heard(self._outside, whole, self._watched_s / (self._clock() - self._planned_s))
        self._begin_stratum()

    def _record(self, totals: Totals, tier: Tier, until_s: float, watched_s: float) -> None:
        """Ends the tier's stratum: what was counted since the last one is what it saw."""
        watch = self._watches[tier]
        calls = {}
        for key, histogram in totals.items():
            if tier_of(BY_NAME[key[0]]) is tier:
                before = watch.counted.get(key)
                calls[key] = (histogram - before if before else histogram).by_bucket
                watch.counted[key] = histogram
        length_s = until_s - watch.since_s
        if watched_s > 0 and length_s > 0:
            watch.strata.append(Stratum(length_s, min(watched_s, length_s), calls))
        watch.since_s = until_s
        if len(watch.strata) > MOST_STRATA:
            watch.strata = fewer(watch.strata)


def _move_border(watch: _Watch, to_s: float) -> None:
    """Has the last stratum end there: later, where no window was since, or sooner, where all is watched from there on."""
    if watch.strata:
        last = watch.strata[-1]
        length_s = max(last.watched_s, last.length_s + to_s - watch.since_s)
        watch.strata[-1] = replace(last, length_s=length_s)
        watch.since_s = to_s


def _sampling(watch: _Watch) -> Sampling:
    return Sampling(
        functions=tuple(sorted({function for function, _ in watch.counted})),
        watched_s=sum(stratum.watched_s for stratum in watch.strata),
        duration_s=sum(stratum.length_s for stratum in watch.strata),
        windows=watch.windows,
        unfinished=watch.unfinished,
        estimates=estimates(watch.strata),
    )
