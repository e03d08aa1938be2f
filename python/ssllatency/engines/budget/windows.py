# SPDX-License-Identifier: Apache-2.0
"""Watches functions in windows, so that tracing stays within its budget, and keeps what each window saw.

In each stratum of time lies one window at a random place. Outside of it the probes are gone: a program that only ignored its
hits would save next to nothing, as it is the trap that costs. A call that begins in a window is followed to its end for a
while after it, as long calls would else be missed more often than short ones. What the processes did meanwhile is read where a
stratum or a window begins and ends, as a server at full speed does less while it is watched.

At first all is watched: only what costs too much goes into windows, which is checked soon and repeatedly, as the first moment
of a server tells little. Windows keep a distance to each other, and to that beginning, so that no second pays for two. While
nobody works strata are longer, and their windows with them: a window that waited for someone to work would miss the calls that
he begins with, and the shortest loads at all. After one such stratum all is watched again, as setting and removing probes for
nobody costs more than a look at who begins to work.

Where probes can't be set again, as perf events that take seconds to go, what costs too much is given up instead.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import field, replace
from enum import Enum

from ssllatency.data_class import dataclass
from ssllatency.engines.budget.accounts import Accounts, Totals, WatchedWindow
from ssllatency.engines.budget.controller import SHORTEST_WINDOW_S, WINDOW_S, Controller, Schedule
from ssllatency.engines.budget.gates import Gates, resume
from ssllatency.engines.budget.looks import FIRST_LOOK_S, LOOK_S, SOONEST_LOOK_S, Looks
from ssllatency.engines.budget.spending import Spending, TracerTime
from ssllatency.engines.cost.spent import Share, Spent
from ssllatency.model.sampling import NONE, Sampling, Work
from ssllatency.stacks.operation import Tier

_SOON_S = 0.06  # what comes so soon is waited for, as nobody may call in time
_LINGER_LOOK_S = 0.1  # how often it is seen whether calls that began in a window have ended
_GOING_S = 5.0  # for which probes that are given up may still be hit: perf events go one after the other
_LEAST_OUTSIDE_S = 0.02  # a time before a window that tells what tracing costs without it
_LEAST_LINGER_S = 0.2  # how long calls that began in a window are followed past it: so long, or as long as the window was


class _Phase(Enum):
    """The phases of a stratum of the tiers in windows."""

    BEFORE = "before its window"
    OPEN = "in it"
    AFTER = "after it, while calls that began in it go on"
    REST = "after that, without probes"


@dataclass
class _Running:
    """The stratum that runs: when it was planned, and what the processes had done by then; how long it is, its
    `aim` as Schedule has it, when its window is to open and shut, and when it ends.

    `window` is what it has come to; `probed` the work done when its probes were set, and `between` from the plan until then.
    `seen`: all calls counted when the probes were removed. `outside`: the share that tracing took before the window, where that
    was long enough to tell, else in a stratum before; `inside` the window. `probes`, `counts`: what was spent when its probes
    began to be set, and when they began to count. `dearest`: that of who paid most when it was last seen what all takes.
    `bare_s`: when the last probes were removed that go into windows.
    """

    planned_s: float
    planned: Work
    probed: Work
    length_s: float = 0.0
    aim: float = 0.0
    opens_s: float = 0.0
    shuts_s: float = 0.0
    ends_s: float = 0.0
    outside: float | None = None
    inside: Share | None = None
    probes: Spent | None = None
    counts: Spent | None = None
    dearest: Share | None = None
    bare_s: float = -math.inf
    phase: _Phase = _Phase.BEFORE
    window: WatchedWindow = field(default_factory=WatchedWindow)
    between: Work = NONE
    seen: Totals = field(default_factory=dict)


class Windows:
    """Drives the gates. Call `tick` some times a second and at `due_s`, `finish` before the last counts are read.

    `spent` tells what tracing has cost by now, None where that isn't known; `totals` all calls counted so far by function and
    outcome; `work` what the processes have done so far. `tiers` are those that may go into windows, one after the other.
    `spent_unhit` tells the same as `spent` for less, where no probe was hit since that was asked, and None elsewhere. `again`:
    whether probes that were removed can be set again. `bursts` counts how often some process has hit so many that `tick` should
    be called at once. `tool_ns`: the processor time that the tracer itself has used by now; `attach_ns`: to set the probes.
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
        attach_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._gates, self._totals, self._work, self._again = gates, totals, work, again
        self._clock, self._sleep, self._chance = clock, sleep, chance or random.Random()
        self._controller = Controller(budget, len(tiers))
        self._spending = Spending(budget, spent, spent_unhit, bursts, TracerTime(tool_ns, attach_ns), clock)
        self._controller.heard_caution(self._spending.overhead.caution)
        now, begin = clock(), work()
        self._looks = Looks(now)
        self._accounts = Accounts(tuple(tiers), now, begin)
        self._windowed: tuple[Tier, ...] = ()
        self._stratum = _Running(now, begin, begin)
        self._given_up: dict[Tier, float] = {}  # with what all took that was watched then
        self._over = False

    def start(self, held: Collection[Tier] = ()) -> None:
        """To be called as soon as all is watched but what is `held` back until now, which is watched from here on. `tick` looks
        soon whether that costs too much, first after a few milliseconds: until then all pay in full who share the probes.
        AttachError where the kernel refuses."""
        self._spending.share()  # which waits until it is known what a hit costs
        if held:
            resume(self._gates, held)
            self._spending.share()
            for tier in held:
                self._accounts.begin(tier, self._clock(), self._work())
        self._spending.begin()
        self._looks.begin(self._clock(), SOONEST_LOOK_S if self._again else FIRST_LOOK_S)  # what is given up is gone

    def look_soon(self) -> None:
        """More was attached just now: has `tick` look at what that costs before it would anyway."""
        self._looks.soon(self._clock())

    def tick(self) -> None:
        """Does what is due."""
        if self._over:
            return
        burst = self._spending.has_burst()
        if not self._windowed:
            if burst:
                self._look_soon_after_the_last()
            elif self._spending.unhit and self._spending.is_hit():  # a load that comes at once
                self._sleep(min(FIRST_LOOK_S, max(0.0, self._looks.next_s - self._clock())))
                self._look()
            elif self._looks.is_due(self._clock()):
                self._look()
            return
        looks = burst or (self._looks.settling and self._looks.is_due(self._clock()))
        if looks:
            self._looks.looked(self._clock())
        # After a window what comes outside of it is heard when its stratum ends, unless it is a load of its own: most of it is
        # bursts, which fit the budget on average.
        if (burst or (looks and self._stratum.phase is _Phase.BEFORE)) and self._others_cost_too_much():
            self._end_stratum_early()
        if self._stratum.phase is _Phase.BEFORE and self._is_time(self._stratum.opens_s):
            self._open()
        if self._stratum.phase is _Phase.OPEN and (self._is_time(self._stratum.shuts_s) or (looks and self._ends_early())):
            self._shut()
        if self._stratum.phase is _Phase.AFTER and self._may_go_on():
            self._end_window()
        if self._stratum.phase is _Phase.REST and self._clock() >= self._stratum.ends_s:
            self._end_stratum()

    def finish(self) -> None:
        """Ends the running stratum where it is; may be called twice."""
        if self._over:
            return
        self._over = True
        now, work, totals = self._clock(), self._work(), self._totals()
        if self._stratum.phase is _Phase.OPEN:
            self._close_window(now, work)
        for tier in self._accounts.tiers:
            if tier in self._given_up:
                self._accounts.move_border(tier, now, work)
            elif tier not in self._windowed:
                self._accounts.record(totals, tier, now, work)
            elif self._stratum.phase is _Phase.BEFORE or not self._stratum.window.watched_s:
                self._accounts.move_border(tier, now, work)
            elif self._stratum.phase is _Phase.REST:
                self._accounts.record(self._stratum.seen, tier, now, work, self._stratum.window)
            else:
                self._accounts.count_window(tier)
                self._accounts.record(totals, tier, now, work, self._stratum.window)

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
        """The time at which the next window opens or shuts, a stratum ends, or one of the first looks is due, by the clock;
        infinity while all is watched."""
        if self._over:
            return math.inf
        look_s = self._looks.next_s if self._looks.settling else math.inf
        if not self._windowed:
            return look_s
        if self._stratum.phase is _Phase.AFTER:
            return self._clock() + _LINGER_LOOK_S
        due_s = {_Phase.BEFORE: self._stratum.opens_s, _Phase.OPEN: self._stratum.shuts_s, _Phase.REST: self._stratum.ends_s}
        return min(look_s, due_s[self._stratum.phase])

    @property
    def rests(self) -> bool:
        """Whether nobody worked when it was last looked, so that `tick` may be called less often."""
        return self._spending.rests if self._windowed else self._spending.unhit

    def sampling(self, *, anew: bool = False) -> tuple[Sampling, ...]:
        """Return what was seen in windows, by tier, up to the last stratum that has ended; `anew`: after that another such
        account begins."""
        if anew and not self._over:
            self._record_all_watched()
        seen = tuple(self.by_tier().values())
        if anew:
            self._accounts.forget()
        return seen

    def by_tier(self) -> dict[Tier, Sampling]:
        """Return what was seen in windows by tier; of tiers that were given up, until now."""
        for tier in () if self._over else self._given_up:
            self._accounts.move_border(tier, self._clock(), self._work())
        return {tier: self._sampling_of(tier) for tier in self._accounts.in_part(self._windowed)}

    def _sampling_of(self, tier: Tier) -> Sampling:
        dearest = self._stratum.dearest
        seen = self._controller.exact
        whole = self._controller.whole / (dearest.weight if dearest else 1.0) if seen is None else seen
        exact_share = self._given_up.get(tier, whole)
        return self._accounts.sampling(tier, self._spending.overhead.factor, exact_share)

    def _record_all_watched(self) -> None:
        """Ends the strata of what is watched all the time, so that the next account has what comes from here on."""
        now, work, totals = self._clock(), self._work(), self._totals()
        for tier in set(self._accounts.tiers) - set(self._windowed) - set(self._given_up):
            self._accounts.record(totals, tier, now, work)

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
        self._looks.looked(self._clock())
        if self._spending.is_unhit(LOOK_S):
            return
        if self._again:
            share = self._stratum.dearest = self._spending.share(anew=not self._looks.settling)
            if share and self._controller.watched_all(share.counted, share.at_work):
                self._begin_stratum()
        else:
            self._give_up_if_too_dear()

    def _look_soon_after_the_last(self) -> None:
        """Looks at a burst: at one after a rest at once, at others when the last look was long enough ago to compare with."""
        if not self._spending.unhit and (left_s := self._looks.comparable_s - self._clock()) > 0:
            self._sleep(left_s)
        self._look()

    def _give_up_if_too_dear(self) -> None:
        """Removes those of the first tier that is watched, if all cost too much: for probes that can't be set again."""
        share = self._spending.share(anew=not self._looks.settling)  # what is given up is gone: no burst is to decide it
        left = [tier for tier in self._accounts.tiers if tier not in self._given_up]
        if share is None or share.counted <= self._spending.budget or not left:
            return
        tier, now, work = left[0], self._clock(), self._work()
        self._gates.stop_counting([tier])
        self._accounts.count_unfinished(tier, self._gates.finish(tier))
        self._accounts.count_window(tier)
        self._accounts.record(self._totals(), tier, now, work)
        self._given_up[tier] = share.counted / share.weight
        self._looks.later(self._clock() + _GOING_S)
        self._spending.share()

    def _begin_stratum(self) -> None:
        """Takes those tiers into windows that cost too much, lets those out that don't, and chooses the next window."""
        self._spending.look_for_rest()
        self._controller.heard_caution(self._spending.overhead.caution)
        if (tool := self._spending.tool_share()) is not None:
            self._controller.heard_tool(tool)
        schedule = self._schedule()
        while self._controller.level != len(self._windowed):
            self._move()
            schedule = self._schedule()
        begins_s = self._clock()
        last_s = schedule.stratum_s - schedule.window_s
        first_s = min(max(0.0, self._stratum.bare_s + schedule.gap_s - begins_s), last_s)
        opens_s = begins_s + self._chance.uniform(first_s, last_s)
        planned_s, planned = self._clock(), self._work()
        self._stratum = _Running(
            planned_s,
            planned,
            planned,
            length_s=schedule.stratum_s,
            aim=schedule.aim,
            opens_s=opens_s,
            shuts_s=opens_s + schedule.window_s,
            ends_s=begins_s + schedule.stratum_s,
            outside=self._stratum.outside,
            dearest=self._stratum.dearest,
            bare_s=self._stratum.bare_s,
        )
        self._spending.share()

    @property
    def _is_unseen(self) -> bool:
        """Whether some of what is in windows hasn't had one yet."""
        return not self._accounts.seen.issuperset(self._windowed)

    def _schedule(self) -> Schedule:
        return self._controller.next(self._spending.overdrawn_s(), rests=self._spending.rests, unseen=self._is_unseen)

    def _move(self) -> None:
        """Has tiers go into windows, or come back, and looks for a moment what tracing takes outside of windows now: whether
        more must go, or what came back must."""
        wanted = self._accounts.tiers[: self._controller.level]
        for tier in wanted[len(self._windowed) :]:
            now, work = self._clock(), self._work()
            self._gates.stop_counting([tier])
            self._gates.drop_entries([tier])
            self._accounts.count_unfinished(tier, self._gates.finish(tier))
            self._accounts.record(self._totals(), tier, now, work)
            self._stratum.bare_s = self._clock()
        for tier in self._windowed[len(wanted) :]:
            resume(self._gates, [tier])
            self._accounts.move_border(tier, self._clock(), self._work())
        self._windowed = wanted
        self._looks.begin(self._clock())
        if not wanted:
            return
        self._spending.share()
        self._sleep(FIRST_LOOK_S)
        self._controller.moved(_counted(self._spending.share()))

    def _open(self) -> None:
        if self._clock() - self._stratum.planned_s >= _LEAST_OUTSIDE_S:
            so_far = self._spending.so_far()
            self._stratum.outside = so_far[1] if so_far else None
            self._shorten_window()
        self._stratum.probes = self._spending.moment()
        self._stratum.probed = self._work()
        self._stratum.between = self._stratum.probed - self._stratum.planned
        self._gates.set_probes(self._windowed)
        self._stratum.window = WatchedWindow(*self._at_once(self._gates.resume_counting))
        self._stratum.counts = self._spending.moment()
        self._stratum.shuts_s += max(0.0, self._stratum.window.opened_s - self._stratum.opens_s)
        self._stratum.phase = _Phase.OPEN
        self._looks.begin(self._clock(), SHORTEST_WINDOW_S if self._is_unseen else FIRST_LOOK_S)

    def _shorten_window(self) -> None:
        """Has the window that is to open end sooner where more is taken outside of it than was known when it was planned, as
        what was seen in the first moment of a load is little."""
        self._controller.heard(self._stratum.outside)
        window_s = self._controller.window_s(self._stratum.length_s, self._stratum.aim)
        self._stratum.shuts_s = min(self._stratum.shuts_s, self._stratum.opens_s + window_s)

    def _ends_early(self) -> bool:
        """Whether more work came than when the window was planned, and it has seen enough: what is watched all the time may use
        up the budget by itself, and what goes into windows would never be seen if that ended them at once. Waits where it soon
        will have. The first window was planned by the little that was seen in a moment, so that it may be short as well."""
        inside = self._spending.since(self._stratum.counts) if self._is_unseen else None
        least_s = self._controller.least_window_s(inside.counted if inside else 0.0)
        is_too_dear = inside is not None and least_s < WINDOW_S
        return (is_too_dear or self._is_used_up()) and self._is_time(self._stratum.window.opened_s + least_s)

    def _is_used_up(self) -> bool:
        """Whether the stratum has cost as much by now as it may."""
        so_far = self._spending.so_far()
        if so_far is None or so_far[1] is None:
            return False
        paid = so_far[1] * (self._clock() - self._stratum.planned_s)
        return paid > self._spending.budget * self._stratum.length_s

    def _others_cost_too_much(self) -> bool:
        """Whether a load has come, outside of windows, of what is watched all the time, so that more must go into windows."""
        if self._stratum.phase not in {_Phase.BEFORE, _Phase.REST}:
            return False
        so_far = self._spending.so_far()
        if so_far is None or so_far[0] < FIRST_LOOK_S:
            return False
        self._controller.heard(so_far[1])
        return self._controller.wants_more

    def _end_stratum_early(self) -> None:
        if self._stratum.phase is _Phase.REST:
            self._end_stratum()
        else:
            self._begin_stratum()  # the next window speaks for the time until now as well

    def _shut(self) -> None:
        self._stratum.inside = self._spending.since(self._stratum.counts)
        self._close_window(*self._at_once(self._gates.stop_counting))
        self._gates.drop_entries(self._windowed)
        self._stratum.phase = _Phase.AFTER

    def _at_once(self, change: Callable[[tuple[Tier, ...]], None]) -> tuple[float, Work]:
        """Changes what counts, and says when, and what the processes had done by then: halfway between a look just before and
        one just after, as a busy machine may keep this thread from either of them for a while."""
        before_s, before = self._clock(), self._work()
        change(self._windowed)
        after_s, after = self._clock(), self._work()
        return (before_s + after_s) / 2, (before + after) * 0.5

    def _close_window(self, now: float, work: Work) -> None:
        window = self._stratum.window
        self._stratum.window = replace(window, watched_s=now - window.opened_s, watched=work - window.begin)

    def _may_go_on(self) -> bool:
        """Whether the calls that began in the window have ended, or have had their time."""
        window = self._stratum.window
        if self._clock() >= window.opened_s + window.watched_s + max(_LEAST_LINGER_S, window.watched_s):
            return True
        return self._gates.is_quiet(self._windowed)

    def _end_window(self) -> None:
        for tier in self._windowed:
            self._accounts.count_unfinished(tier, self._gates.finish(tier))
            self._accounts.count_window(tier)
        self._stratum.bare_s = self._clock()
        self._accounts.seen.update(self._windowed)
        self._stratum.seen = self._totals()
        self._spending.overhead.heard(self._stratum.between, self._work() - self._stratum.probed)
        self._stratum.dearest = self._spending.share()
        self._controller.heard(self._stratum.outside)
        window_s, probed = self._stratum.window.watched_s, self._stratum.probes
        probed_s = self._clock() - probed.at_s if probed else window_s
        self._controller.heard_window(self._stratum.inside, window_s, self._spending.since(probed), probed_s)
        self._stratum.phase = _Phase.REST

    def _end_stratum(self) -> None:
        now, work = self._clock(), self._work()
        for tier in self._windowed:
            self._accounts.record(self._stratum.seen, tier, now, work, self._stratum.window)
        self._begin_stratum()


def _counted(share: Share | None) -> float | None:
    return share.counted if share else None
