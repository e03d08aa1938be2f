# SPDX-License-Identifier: Apache-2.0
"""Watches functions in windows, so that tracing stays within its budget, and keeps what each window saw.

In each stratum of time lies one window at a random place. Outside of it the probes are gone: a program that only ignored its
hits would save next to nothing, as it is the trap that costs. A call that begins in a window is followed to its end for a
while after it, as long calls would else be missed more often than short ones. What the processes did meanwhile is read where a
stratum or a window begins and ends, as a server at full speed does less while it is watched.

At first all is watched: only what costs too much goes into windows. While nobody works strata are longer, and their windows
with them: a window that waited for someone to work would miss the calls that he begins with, and the shortest loads at all.

Where probes can't be set again, as perf events that take seconds to go, what costs too much is given up instead.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from ssllatency.engines.budget.controller import WINDOW_S, Controller, Schedule
from ssllatency.engines.budget.dearness import Dearness
from ssllatency.engines.budget.gates import Gates, resume
from ssllatency.engines.cost.spent import Spent, tool_share
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.sampling import NONE, UNKNOWN, Function, Sampling, Stratum, Work
from ssllatency.model.windows.estimates import MOST_STRATA, basis_of, estimates, fewer
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.stacks.operation import Tier

_FIRST_LOOK_S, _LOOK_S = 0.03, 0.25  # when it is seen how much tracing costs: at first, and then while all is watched
_SOON_S = 0.06  # what comes so soon is waited for, as nobody may call in time
_LINGER_LOOK_S = 0.1  # how often it is seen whether calls that began in a window have ended
_GOING_S = 5.0  # for which probes that are given up may still be hit: perf events go one after the other
_LEAST_OUTSIDE_S = 0.02  # a time before a window that tells what tracing costs without it
_LEAST_LINGER_S = 0.2  # how long calls that began in a window are followed past it: so long, or as long as the window was

Totals = Mapping[Function, ExponentialHistogram]


class _Phase(Enum):
    """Where the tiers in windows are in their stratum."""

    BEFORE = "before its window"
    OPEN = "in it"
    AFTER = "after it, while calls that began in it go on"
    REST = "after that, without probes"


@dataclass
class _Watch:
    """What is kept of a tier: its strata, where the running one began, and the calls counted by then."""

    since_s: float
    since: Work
    counted: dict[Function, ExponentialHistogram] = field(default_factory=dict)
    strata: list[Stratum] = field(default_factory=list)
    windows: int = 0
    unfinished: int = 0

    @property
    def in_part(self) -> bool:
        """Whether some of the time wasn't watched."""
        return any(stratum.in_part for stratum in self.strata)


@dataclass(frozen=True)
class _Window:
    """When one began, how long it was, and what the processes had done by its begin and did in it."""

    opened_s: float = 0.0
    begin: Work = UNKNOWN
    watched_s: float = 0.0
    watched: Work = UNKNOWN


class Windows:
    """Drives the gates. `tick` is to be called some times a second and at `due_s`, `finish` before the last counts are read.

    `spent` tells what tracing has cost by now, None where that isn't known; `totals` all calls counted so far by function and
    outcome; `work` what the processes have done so far. `tiers` are those that may go into windows, one after the other.
    `spent_unhit` tells the same as `spent` for less, where no probe was hit since that was asked, and None elsewhere. `again`:
    whether probes that were removed can be set again. `bursts` counts how often some process has hit so many that `tick` should
    be called at once. `tool_ns`: the processor time that the tracer itself has used by now.
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
        work: Callable[[], Work] = Work,
        spent_unhit: Callable[[], Spent | None] = lambda: None,
        again: bool = True,
        bursts: Callable[[], int] = lambda: 0,
        tool_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._spent_unhit, self._again, self._bursts, self._burst = spent_unhit, again, bursts, 0
        self._budget, self._gates, self._spent, self._totals, self._work = budget, gates, spent, totals, work
        self._clock, self._sleep, self._chance = clock, sleep, chance or random.Random()
        self._tiers = tuple(tiers)
        self._controller = Controller(budget, len(tiers))
        self._began_s = now = clock()
        self._look_s = now + _LOOK_S
        self._before = self._origin = Spent()
        begin = work()
        self._watches = {tier: _Watch(now, begin) for tier in self._tiers}
        self._windowed: tuple[Tier, ...] = ()
        self._seen_tiers: set[Tier] = set()  # those that have had a window
        self._phase = _Phase.BEFORE
        self._opens_s = self._shuts_s = self._ends_s = self._stratum_s = 0.0
        self._window = _Window()
        self._seen: Totals = {}
        self._outside: float | None = None
        self._dearness, self._planned, self._between, self._probed = Dearness(), begin, NONE, begin
        self._planned_s = now
        self._run_ns = 0  # all who pay, until the running stratum began
        self._tool_ns = tool_ns
        self._used: tuple[float, int, int] | None = None  # when it began, what the tracer had used by then, and the traced
        self._given_up: dict[Tier, float] = {}  # with what all took that was watched then
        self._over = self._resting = self._unhit = False

    def start(self, held: Collection[Tier] = ()) -> None:
        """To be called as soon as all is watched but what is `held` back until now, which is watched from here on: looks for a
        moment whether that costs too much. AttachError where the kernel refuses."""
        self._share()  # which waits until it is known what a hit costs
        if held:
            resume(self._gates, held)
            self._share()
            for tier in held:
                self._watches[tier] = _Watch(self._clock(), self._work())
        self._origin = self._before
        self._sleep(_FIRST_LOOK_S)
        self._look()

    def look_soon(self) -> None:
        """More was attached just now: has `tick` look at what that costs before it would anyway."""
        self._look_s = min(self._look_s, self._clock() + _FIRST_LOOK_S)

    def tick(self) -> None:
        """Does what is due."""
        if self._over:
            return
        burst, self._burst = self._burst, self._bursts()
        if not self._windowed:
            if self._burst > burst:
                self._look_soon_after_the_last()
            elif self._clock() >= self._look_s:
                self._look()
            elif self._unhit and self._spent_unhit() is None:  # a load that comes at once
                self._sleep(_FIRST_LOOK_S)
                self._look()
            return
        if self._burst > burst and self._others_cost_too_much():
            self._end_stratum_early()
        if self._phase is _Phase.BEFORE and self._is_time(self._opens_s):
            self._open()
        if self._phase is _Phase.OPEN and (self._is_time(self._shuts_s) or (self._burst > burst and self._ends_early())):
            self._shut()
        if self._phase is _Phase.AFTER and self._may_go_on():
            self._end_window()
        if self._phase is _Phase.REST and self._clock() >= self._ends_s:
            self._end_stratum()

    def finish(self) -> None:
        """Ends the running stratum where it is; may be called twice."""
        if self._over:
            return
        self._over = True
        now, work, totals = self._clock(), self._work(), self._totals()
        if self._phase is _Phase.OPEN:
            self._close_window(now, work)
        for tier, watch in self._watches.items():
            if tier in self._given_up:
                _move_border(watch, now, work)
            elif tier not in self._windowed:
                self._record(totals, tier, now, work)
            elif self._phase is _Phase.BEFORE or not self._window.watched_s:
                _move_border(watch, now, work)
            elif self._phase is _Phase.REST:
                self._record(self._seen, tier, now, work, self._window)
            else:
                watch.windows += 1
                self._record(totals, tier, now, work, self._window)

    @property
    def over(self) -> bool:
        """Whether it has been finished."""
        return self._over

    @property
    def gave_up(self) -> bool:
        """Whether functions aren't watched any more, as their probes can't be set again."""
        return bool(self._given_up)

    @property
    def due_s(self) -> float:
        """When the next window is to be opened or shut, or a stratum ends, by the clock; infinity while all is watched."""
        if self._over or not self._windowed:
            return math.inf
        if self._phase is _Phase.AFTER:
            return self._clock() + _LINGER_LOOK_S
        return {_Phase.BEFORE: self._opens_s, _Phase.OPEN: self._shuts_s, _Phase.REST: self._ends_s}[self._phase]

    @property
    def rests(self) -> bool:
        """Whether nobody worked when it was last looked, so that `tick` may be called less often."""
        return self._resting if self._windowed else self._unhit

    def sampling(self, *, anew: bool = False) -> tuple[Sampling, ...]:
        """What was seen in windows, by tier, up to the last stratum that has ended; `anew`: after that another such account
        begins."""
        if anew and not self._over:
            self._record_all_watched()
        seen = tuple(self.by_tier().values())
        for watch in self._watches.values() if anew else ():
            watch.strata, watch.windows, watch.unfinished = [], 0, 0
        return seen

    def by_tier(self) -> dict[Tier, Sampling]:
        """The same by tier; of those that were given up until now."""
        for tier in () if self._over else self._given_up:
            _move_border(self._watches[tier], self._clock(), self._work())
        watches = {tier: watch for tier, watch in self._watches.items() if watch.in_part or tier in self._windowed}
        return {tier: self._sampling_of(tier, watch) for tier, watch in watches.items()}

    def _sampling_of(self, tier: Tier, watch: _Watch) -> Sampling:
        return _sampling(watch, self._dearness.factor, self._given_up.get(tier, self._controller.whole))

    def _record_all_watched(self) -> None:
        """Ends the strata of what is watched all the time, so that the next account has what comes from here on."""
        now, work, totals = self._clock(), self._work(), self._totals()
        for tier in set(self._tiers) - set(self._windowed) - set(self._given_up):
            self._record(totals, tier, now, work)

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
        unhit = self._spent_unhit()
        self._unhit = unhit is not None
        if unhit:
            # Nobody has hit one for so long: a few calls after a rest are no burden.
            self._before = replace(unhit, at_s=unhit.at_s - _LOOK_S)
        elif self._again:
            if self._controller.watched_all(self._share()):
                self._begin_stratum()
        else:
            self._give_up_if_too_dear()

    def _look_soon_after_the_last(self) -> None:
        """Looks at a burst: at one after a rest at once, at others when the last look was long enough ago to compare with."""
        looked_s = self._look_s - _LOOK_S
        if not self._unhit and (left_s := looked_s + _FIRST_LOOK_S - self._clock()) > 0:
            self._sleep(left_s)
        self._look()

    def _give_up_if_too_dear(self) -> None:
        """Where probes can't be set again: removes those of the first tier that is watched, if all cost too much."""
        share, left = self._share(), [tier for tier in self._tiers if tier not in self._given_up]
        if share is None or share <= self._budget or not left:
            return
        tier, now, work = left[0], self._clock(), self._work()
        self._gates.shut([tier])
        self._watches[tier].unfinished += self._gates.finish(tier)
        self._watches[tier].windows += 1
        self._record(self._totals(), tier, now, work)
        self._given_up[tier] = share
        self._look_s = self._clock() + _GOING_S
        self._share()

    def _share(self) -> float | None:
        """What tracing took since it was asked the last time."""
        spent = self._spent()
        if spent is None:
            return None
        share, self._before = spent.share_since(self._before), spent
        return None if share is None else share * self._dearness.factor

    def _overdrawn_s(self) -> float:
        """By how many seconds of processor time for each second of its own whoever paid most has overdrawn the budget."""
        share = self._before.share_since(self._origin)
        if share is None:
            return 0.0
        return (share * self._dearness.factor - self._budget) * (self._clock() - self._began_s)

    def _begin_stratum(self) -> None:
        """Takes those tiers into windows that cost too much, lets those out that don't, and chooses the next window."""
        self._share()
        run_ns = self._before.everyones_cpu_ns
        self._resting, self._run_ns = run_ns == self._run_ns, run_ns
        self._hear_tool()
        schedule = self._schedule()
        while self._controller.level != len(self._windowed):
            self._move()
            schedule = self._schedule()
        self._phase = _Phase.BEFORE
        begins_s, self._stratum_s = self._clock(), schedule.stratum_s
        self._ends_s = begins_s + schedule.stratum_s
        self._opens_s = begins_s + self._chance.uniform(0, schedule.stratum_s - schedule.window_s)
        self._shuts_s = self._opens_s + schedule.window_s
        self._planned_s, self._planned = self._clock(), self._work()
        self._share()

    def _hear_tool(self) -> None:
        """Of the stratum that has ended; of the time until the first one began nothing, as the tracer's start is in it."""
        before, self._used = self._used, (self._clock(), self._tool_ns(), self._before.cpu_ns)
        if before:
            seconds, tool_ns, cpu_ns = (now - then for now, then in zip(self._used, before, strict=True))
            self._controller.heard_tool(tool_share(tool_ns, cpu_ns, seconds))

    def _schedule(self) -> Schedule:
        unseen = not self._seen_tiers.issuperset(self._windowed)
        return self._controller.next(self._overdrawn_s(), rests=self._resting, unseen=unseen)

    def _move(self) -> None:
        """Has tiers go into windows, or come back, and looks for a moment what tracing takes outside of windows now: whether
        more must go, or what came back must."""
        wanted = self._tiers[: self._controller.level]
        for tier in wanted[len(self._windowed) :]:
            now, work = self._clock(), self._work()
            self._gates.shut([tier])
            self._gates.thin([tier])
            self._watches[tier].unfinished += self._gates.finish(tier)
            self._record(self._totals(), tier, now, work)
        for tier in self._windowed[len(wanted) :]:
            resume(self._gates, [tier])
            _move_border(self._watches[tier], self._clock(), self._work())
        self._windowed = wanted
        if not wanted:
            return
        self._share()
        self._sleep(_FIRST_LOOK_S)
        self._controller.moved(self._share())

    def _open(self) -> None:
        if self._clock() - self._planned_s >= _LEAST_OUTSIDE_S:
            spent = self._spent()
            share = spent.share_since(self._before) if spent else None
            self._outside = None if share is None else share * self._dearness.factor
        self._probed = self._work()
        self._between = self._probed - self._planned
        self._gates.set_probes(self._windowed)
        self._window = _Window(*self._at_once(self._gates.take_in))
        self._shuts_s += max(0.0, self._window.opened_s - self._opens_s)
        self._phase = _Phase.OPEN

    def _ends_early(self) -> bool:
        """Whether more work came than when the window was planned, and it has seen enough: what is watched all the time may use
        up the budget by itself, and what goes into windows would never be seen if that ended them at once. Waits where it soon
        will have."""
        return self._is_used_up() and self._is_time(self._window.opened_s + WINDOW_S)

    def _is_used_up(self) -> bool:
        """Whether the stratum has cost as much by now as it may."""
        spent = self._spent()
        share = spent.share_since(self._before) if spent else None
        if share is None:
            return False
        return share * self._dearness.factor * (self._clock() - self._planned_s) > self._budget * self._stratum_s

    def _others_cost_too_much(self) -> bool:
        """Whether a load has come, outside of windows, of what is watched all the time, so that more must go into windows."""
        if self._phase not in {_Phase.BEFORE, _Phase.REST}:
            return False
        spent = self._spent()
        if spent is None or spent.at_s - self._before.at_s < _FIRST_LOOK_S:
            return False
        share = spent.share_since(self._before)
        self._controller.heard(None if share is None else share * self._dearness.factor, None, 0)
        return self._controller.wants_more

    def _end_stratum_early(self) -> None:
        if self._phase is _Phase.REST:
            self._end_stratum()
        else:
            self._begin_stratum()  # the next window speaks for the time until now as well

    def _shut(self) -> None:
        self._close_window(*self._at_once(self._gates.shut))
        self._gates.thin(self._windowed)
        self._phase = _Phase.AFTER

    def _at_once(self, change: Callable[[tuple[Tier, ...]], None]) -> tuple[float, Work]:
        """Changes what counts, and says when, and what the processes had done by then: halfway between a look just before and
        one just after, as a busy machine may keep this thread from either of them for a while."""
        before_s, before = self._clock(), self._work()
        change(self._windowed)
        after_s, after = self._clock(), self._work()
        return (before_s + after_s) / 2, (before + after) * 0.5

    def _close_window(self, now: float, work: Work) -> None:
        window = self._window
        self._window = replace(window, watched_s=now - window.opened_s, watched=work - window.begin)

    def _may_go_on(self) -> bool:
        """Whether the calls that began in the window have ended, or have had their time."""
        window = self._window
        if self._clock() >= window.opened_s + window.watched_s + max(_LEAST_LINGER_S, window.watched_s):
            return True
        return self._gates.is_quiet(self._windowed)

    def _end_window(self) -> None:
        for tier in self._windowed:
            self._watches[tier].unfinished += self._gates.finish(tier)
            self._watches[tier].windows += 1
        self._seen_tiers.update(self._windowed)
        self._seen = self._totals()
        self._dearness.heard(self._between, self._work() - self._probed)
        self._controller.heard(self._outside, self._share(), self._window.watched_s / (self._clock() - self._planned_s))
        self._phase = _Phase.REST

    def _end_stratum(self) -> None:
        now, work = self._clock(), self._work()
        for tier in self._windowed:
            self._record(self._seen, tier, now, work, self._window)
        self._begin_stratum()

    def _record(self, totals: Totals, tier: Tier, now: float, work: Work, window: _Window | None = None) -> None:
        """Ends the tier's stratum: what was counted since the last one is what it saw, in the window or all the time."""
        watch = self._watches[tier]
        calls = {}
        for key, histogram in totals.items():
            if BY_NAME[key[0]].tier is tier:
                before = watch.counted.get(key)
                calls[key] = (histogram - before if before else histogram).by_bucket
                watch.counted[key] = histogram
        length_s, whole = now - watch.since_s, work - watch.since
        watched_s, watched = (window.watched_s, window.watched) if window else (length_s, whole)
        if watched_s > 0 and length_s > 0:
            watch.strata.append(Stratum(length_s, min(watched_s, length_s), calls, whole, watched))
        watch.since_s, watch.since = now, work
        if len(watch.strata) > MOST_STRATA:
            watch.strata = fewer(watch.strata)


def _move_border(watch: _Watch, to_s: float, work: Work) -> None:
    """Has the last stratum end there: later, as no window was since. Where a new account has none yet, it gets one without a
    window, for which those of the account before may speak."""
    if to_s <= watch.since_s:
        return
    if watch.strata:
        last = watch.strata[-1]
        length_s = max(last.watched_s, last.length_s + to_s - watch.since_s)
        watch.strata[-1] = replace(last, length_s=length_s, whole=last.whole + (work - watch.since))
    else:
        watch.strata.append(Stratum(to_s - watch.since_s, 0.0, {}, work - watch.since, NONE))
    watch.since_s, watch.since = to_s, work


def _sampling(watch: _Watch, dearer: float, exact_share: float) -> Sampling:
    return Sampling(
        functions=tuple(sorted({function for function, _ in watch.counted})),
        watched_s=sum(stratum.watched_s for stratum in watch.strata),
        duration_s=sum(stratum.length_s for stratum in watch.strata),
        windows=watch.windows,
        unfinished=watch.unfinished,
        estimates=estimates(watch.strata),
        dearer=dearer,
        scaled_by=basis_of(watch.strata),
        chains=(tuple(watch.strata),) if watch.strata else (),
        exact_share=exact_share,
    )
