# SPDX-License-Identifier: Apache-2.0
"""Accounts of what was seen of each tier in windows: strata of time, with the calls counted and the work done in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from ssllatency.data_class import dataclass
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.sampling import NONE, UNKNOWN, Function, Sampling, Stratum, Work
from ssllatency.model.windows.estimates import MOST_STRATA, basis_of, estimates, fewer
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.stacks.operation import Tier

Totals = Mapping[Function, ExponentialHistogram]


@dataclass(frozen=True)
class WatchedWindow:
    """The beginning and length of a window, and what the processes had done by its begin and did in it."""

    opened_s: float = 0.0
    begin: Work = UNKNOWN
    watched_s: float = 0.0
    watched: Work = UNKNOWN


@dataclass
class _Account:
    """The account of a tier: its strata, where the running one began, and the calls counted by then."""

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


class Accounts:
    """The accounts of some tiers, from a moment on by which the processes had done so much work. `seen`: those that have had a
    whole window."""

    def __init__(self, tiers: tuple[Tier, ...], now: float, work: Work) -> None:
        self.tiers = tiers
        self.seen: set[Tier] = set()
        self._of = {tier: _Account(now, work) for tier in tiers}

    def begin(self, tier: Tier, now: float, work: Work) -> None:
        """Begins that of a tier anew."""
        self._of[tier] = _Account(now, work)

    def count_window(self, tier: Tier) -> None:
        """The tier has had one more window."""
        self._of[tier].windows += 1

    def count_unfinished(self, tier: Tier, calls: int) -> None:
        """So many calls of the tier ran on when its probes were removed."""
        self._of[tier].unfinished += calls

    def record(self, totals: Totals, tier: Tier, now: float, work: Work, window: WatchedWindow | None = None) -> None:
        """Ends the tier's stratum: what was counted since the last one is what it saw, in the window or all the time."""
        account = self._of[tier]
        calls = {}
        for key, histogram in totals.items():
            if BY_NAME[key[0]].tier is tier:
                before = account.counted.get(key)
                calls[key] = (histogram - before if before else histogram).by_bucket
                account.counted[key] = histogram
        length_s, whole = now - account.since_s, work - account.since
        watched_s, watched = (window.watched_s, window.watched) if window else (length_s, whole)
        if watched_s > 0 and length_s > 0:
            account.strata.append(Stratum(length_s, min(watched_s, length_s), calls, whole, watched))
        account.since_s, account.since = now, work
        if len(account.strata) > MOST_STRATA:
            account.strata = fewer(account.strata)

    def move_border(self, tier: Tier, to_s: float, work: Work) -> None:
        """Has the tier's last stratum end there: later, as no window was since. Where a new account has none yet, it gets one
        without a window, for which those of the account before may speak."""
        account = self._of[tier]
        if to_s <= account.since_s:
            return
        if account.strata:
            last = account.strata[-1]
            length_s = max(last.watched_s, last.length_s + to_s - account.since_s)
            account.strata[-1] = replace(last, length_s=length_s, whole=last.whole + (work - account.since))
        else:
            account.strata.append(Stratum(to_s - account.since_s, 0.0, {}, work - account.since, NONE))
        account.since_s, account.since = to_s, work

    def in_part(self, also: Iterable[Tier]) -> list[Tier]:
        """The tiers of which some of the time wasn't watched, and those."""
        others = set(also)
        return [tier for tier, account in self._of.items() if account.in_part or tier in others]

    def sampling(self, tier: Tier, dearer: float, exact_share: float) -> Sampling:
        """Return what was seen of a tier; `dearer` and `exact_share` as Sampling has them."""
        account = self._of[tier]
        return Sampling(
            functions=tuple(sorted({function for function, _ in account.counted})),
            watched_s=sum(stratum.watched_s for stratum in account.strata),
            duration_s=sum(stratum.length_s for stratum in account.strata),
            windows=account.windows,
            unfinished=account.unfinished,
            estimates=estimates(account.strata),
            dearer=dearer,
            scaled_by=basis_of(account.strata),
            chains=(tuple(account.strata),) if account.strata else (),
            exact_share=exact_share,
        )

    def forget(self) -> None:
        """Begins the accounts of strata anew; what was counted by now stays known."""
        for account in self._of.values():
            account.strata, account.windows, account.unfinished = [], 0, 0
