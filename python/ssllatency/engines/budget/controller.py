# SPDX-License-Identifier: Apache-2.0
"""The part of the time that may be watched: from what tracing was seen to cost inside and outside of windows."""

from __future__ import annotations

from dataclasses import replace

from ssllatency.data_class import dataclass
from ssllatency.engines.cost.spent import Share

_AIM = 0.5  # of the budget: what tracing takes beside hits isn't in it, nor what comes in a moment
_PAYS_BACK_S = 20.0  # in which an excess is made up for
_LEAST_AIM = 0.4  # of the budget, however much there is to be made up for
_LEAST_BESIDE_TOOL = 0.2  # the same where the tracer itself takes much
_LEAST_LEFT = 0.05  # of the budget for what goes into windows, however much of it the others take
WINDOW_S, STRATUM_S, LONGEST_STRATUM_S = 0.05, 2.0, 20.0  # the shortest window and stratum, and the longest stratum
SHORTEST_WINDOW_S = 0.02  # the shortest window where one of WINDOW_S takes more than the budget of a second
RESTING_STRATUM_S = 10.0  # the shortest while nobody works: probes are set and removed for the sake of those who may begin
_RESTED = 2  # strata in which nobody worked, the second such a long one, until all is watched again: a load pays for a look
_SPARE = 1.3  # how much dearer the functions could be before they leave the windows again
_CALM = 3  # strata with so much to spare until then
_FITS = 0.8  # of the budget: what all would take, so that it is tried whether all may be watched all the time again
_BESIDE_S = 0.01  # what is taken to be paid beside the first window
_KEPT = 0.5  # of what windows before have seen, beside what the last one has: one of 50 ms is much a matter of chance
_KEPT_EXACT = 0.9  # the same for what is only reported, by the length of the windows
_MOST_PATIENCE = 48  # strata with room for a tier until it is tried, where trials fail again and again


@dataclass(frozen=True)
class Schedule:
    """The next stratum and its window, in seconds; `gap_s`: the least time without probes before the window; `aim`: the part of
    its processor time that who pays most is to pay in it."""

    stratum_s: float
    window_s: float
    gap_s: float
    aim: float


class Controller:
    """Says which tiers are watched in windows, and how long these are.

    `level` is how many of the tiers are: 0 while all functions are watched all the time. `most`: how many there are.
    """

    def __init__(self, budget: float, most: int) -> None:
        self.level = 0
        self._budget, self._most = budget, most
        self._added = 0.0  # what the windowed functions would take if they were watched all the time
        self._beside_s = 0.0  # the time of a window that is paid in vain, while its probes are set and removed
        self._seen_s = self._paid_s = 0.0  # how long windows were, and what tracing took in them of who paid most
        self._outside = 0.0  # what all others take
        self._at_work = 0.0  # what tracing took, in windows that saw work, of the time alone that who paid most has run
        self._tool: float | None = None  # what the tracer itself took lately; not known before the first stratum has ended
        self._calm = 0
        self._resting = 0  # strata in which nobody worked
        self._caution = 1.0  # how many times what is heard may be the truth
        self._roomy = 0  # strata that had room for more outside of windows
        self._patience = _CALM

    def watched_all(self, share: float | None, at_work: float = 0.0) -> bool:
        """Hears what tracing took while no window was set; whether the first tier must go into windows now. `at_work`: what it
        took of the time alone in which whoever pays most has run, as a load that has just come goes on."""
        if share is None or share * self._caution <= self._budget:
            return False
        self.level, self._added, self._outside, self._calm, self._resting = 1, max(share, at_work), 0.0, 0, 0
        self._at_work = max(at_work, self._at_work)
        return True

    @property
    def whole(self) -> float:
        """The cost of tracing if all functions were watched all the time, as far as that is known."""
        return self._outside + self._added

    @property
    def exact(self) -> float | None:
        """Its part of the processor time of who pays most, as windows have seen it; None before the first."""
        return self._paid_s / self._seen_s if self._seen_s else None

    @property
    def wants_more(self) -> bool:
        """Whether one more tier has to go into windows, and there is one."""
        return self._outside * self._caution > self._budget and self.level < self._most

    def moved(self, outside: float | None) -> None:
        """Hears what tracing takes beside windows just after tiers went into these, or left them."""
        if outside is not None:
            self._added, self._outside = max(0.0, self.whole - outside), outside

    def heard(self, outside: float | None) -> None:
        """Hears what tracing takes outside of windows."""
        self._outside = outside if outside is not None else self._outside

    def heard_window(self, inside: Share | None, window_s: float, probed: Share | None, probed_s: float) -> None:
        """Hears what tracing took in a window of such a length, and while its probes were set, in it, and removed. After one
        window that saw no work, half of what is known still counts: a load may have paused."""
        if inside is None or window_s <= 0:
            return
        added = max(0.0, inside.counted - self._outside)
        self._at_work = max(inside.at_work, self._at_work * _KEPT_EXACT)
        self._added = self._added * _KEPT + added * (1 - _KEPT)
        kept = _KEPT if self._seen_s else 0.0
        self._seen_s = self._seen_s * _KEPT_EXACT + window_s
        self._paid_s = self._paid_s * _KEPT_EXACT + inside.counted / inside.weight * window_s
        if probed and added > 0:
            beside_s = max(0.0, probed.counted - self._outside) * probed_s / added - window_s
            self._beside_s = self._beside_s * kept + min(max(0.0, beside_s), probed_s - window_s) * (1 - kept)

    def heard_caution(self, caution: float) -> None:
        """Hears how many times what it hears hits may take: by that nothing is watched all the time that may cost too much."""
        self._caution = caution

    def heard_tool(self, share: float) -> None:
        """Hears what the tracer itself took in a stratum, by what the processes had: windows get shorter by it. It puts nothing
        into windows, as what probes cost is known at once and the tracer's start is over soon."""
        self._tool = share if self._tool is None else (self._tool + share) / 2

    def next(self, excess_s: float = 0.0, *, rests: bool = False, unseen: bool = False) -> Schedule:
        """Decide what comes now, and with which `level`. `excess_s`: by how many seconds of processor time for each second of
        the processes' the budget was overdrawn so far; `rests`: whether none of them has run in the last stratum; `unseen`:
        whether some of what is in windows hasn't had one yet, which then comes soon, so that a run of seconds has it as
        well."""
        aim = max(self._budget * _AIM - max(0.0, excess_s) / _PAYS_BACK_S, self._budget * _LEAST_AIM)
        aim = max(aim - (self._tool or 0.0), self._budget * _LEAST_BESIDE_TOOL)
        if self.wants_more:
            self._move(1)
        elif self._has_room_for_a_tier():
            self._move(-1)
            self._patience = min(2 * self._patience, _MOST_PATIENCE)
        part = self._part(aim)
        self._calm = self._calm + 1 if part > _SPARE else 0
        if self._calm >= _CALM:
            self._move(-1)
        self._resting = self._resting + 1 if rests else 0
        if self.level and self._resting >= _RESTED and excess_s <= 0:
            self._move(-self.level)
        least_s = RESTING_STRATUM_S if rests else STRATUM_S
        schedule = self._schedule(aim, min(part, 1.0), least_s, least_s if unseen else LONGEST_STRATUM_S)
        return replace(schedule, window_s=min(schedule.window_s, self._affordable_s)) if rests else schedule

    def _move(self, by: int) -> None:
        """So many more tiers go into windows. What the others take isn't known then until it is heard."""
        self.level += by
        self._added, self._outside, self._calm, self._roomy = self.whole, 0.0, 0, 0

    def _has_room_for_a_tier(self) -> bool:
        """Whether the last tier in windows should be tried outside of them: they came and went, and so may have its load."""
        part = self.whole / _FITS if self.level == 1 else self._outside / _AIM
        room = part * self._caution <= self._budget
        self._roomy = self._roomy + 1 if self.level and room else 0
        return self._roomy > self._patience

    def window_s(self, stratum_s: float, aim: float) -> float:
        """The window of a stratum of that length and aim, by what is known now of what tracing takes outside of it."""
        return self._window_s(min(self._part(aim), 1.0), stratum_s)

    def _part(self, aim: float) -> float:
        """In which part of the time what goes into windows may be probed."""
        return max(self._budget * _LEAST_LEFT, aim - self._outside) / self._added if self._added > 0 else _SPARE * 2

    @property
    def _affordable_s(self) -> float:
        """The longest window while nobody works: who comes back in it is to pay no more in a second than the budget. That is
        decided before anything is seen, as a window that ended when it has seen much would count for more than it should."""
        return self._of_a_second_s(max(self._at_work, self.whole))

    def least_window_s(self, seen: float = 0.0) -> float:
        """The shortest window: of WINDOW_S, or as long as a second's budget lasts where that is less, by what is known, or by
        what tracing was `seen` to take in a window."""
        return min(WINDOW_S, self._of_a_second_s(max(self.whole, seen)))

    def _of_a_second_s(self, share: float) -> float:
        """The window that takes the budget of a second where tracing takes that share in it."""
        beside_s = self._beside_s if self._seen_s else _BESIDE_S
        return max(SHORTEST_WINDOW_S, self._budget / share - beside_s) if share > self._budget else LONGEST_STRATUM_S

    def _schedule(self, aim: float, part: float, least_s: float, most_s: float) -> Schedule:
        """The shortest stratum within these bounds that has room for a window, and for what its probes are hit beside it."""
        stratum_s = min(max(least_s, (self.least_window_s() + self._beside_s) / part if part > 0 else most_s), most_s)
        gap_s = 1.0 - self._budget / self.whole if self.whole > self._budget else 0.0  # no second pays for two windows
        return Schedule(stratum_s, self._window_s(part, stratum_s), gap_s, aim)

    def _window_s(self, part: float, stratum_s: float) -> float:
        return max(self.least_window_s(), part * stratum_s - (self._beside_s if part < 1 else 0.0))
