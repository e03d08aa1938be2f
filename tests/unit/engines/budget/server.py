# SPDX-License-Identifier: Apache-2.0
"""A server whose every call is known, in simulated time, and what is made of windows on it."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from ssllatency.abi import HitTable
from ssllatency.engines.budget.windows import Windows
from ssllatency.engines.cost.spent import Payment, Spent
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.sampling import Function, Interval
from ssllatency.model.snapshot import Outcome
from ssllatency.stacks.operation import Tier

NAMES = {Tier.DATA: "SSL_read", Tier.BELOW: "rsa_ossl_private_encrypt", Tier.HANDSHAKE: "SSL_do_handshake"}
POLL_S, LEAST_POLL_S, STEP_S = 0.2, 0.01, 0.001  # as tracing/live.py polls
BUDGET = 0.02
HITS, FIRST_HITS = int(HitTable.HITS_A_NOTICE), int(HitTable.HITS_FIRST_NOTICE)  # of which notices tell


@dataclass
class Server:
    """One processor's work: so many calls a second of each tier, each of which pays 2 us while its probes are set."""

    rates: dict[Tier, float]
    hit_ns: float = 2_000
    setting_s: float = 0.003
    removing_s: float = 0.06
    now_s: float = 1000.0
    poll_s: float = 1000.0
    attached: set[Tier] = field(default_factory=lambda: set(Tier))
    counting: set[Tier] = field(default_factory=lambda: set(Tier))
    calls: dict[Tier, float] = field(default_factory=lambda: dict.fromkeys(Tier, 0.0))
    counted: dict[Tier, float] = field(default_factory=lambda: dict.fromkeys(Tier, 0.0))
    cost_ns: float = 0.0
    other_rate: float = 0.0  # calls a second of a process that isn't traced and hits the probes of reads and writes
    others_ns: float = 0.0
    others_worked_s: float = 0.0
    others_runs_on: bool = False  # and does other work where it calls nothing
    busy: bool = True
    part: float = 1.0  # of the time that it runs, while it is busy
    rests: bool = False
    worked_s: float = 0.0
    runs_on: bool = False
    knows_cost: bool = True
    left: list[Tier] = field(default_factory=list)

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.rests:
            return
        self.worked_s += seconds * self.part
        self.others_worked_s += seconds if self.other_rate or self.others_runs_on else 0
        if Tier.DATA in self.attached:
            self.others_ns += self.other_rate * seconds * self.hit_ns
        for tier, rate in self.rates.items():
            self.calls[tier] += rate * seconds
            if tier in self.attached:
                self.cost_ns += rate * seconds * self.hit_ns
            if tier in self.counting:
                self.counted[tier] += rate * seconds

    def spent(self) -> Spent | None:
        cpu_ns = self.worked_s * 1e9 if self.busy else 0
        others = {0: Payment(round(self.others_ns), round(self.others_worked_s * 1e9), traced=False)} if self.others_ns else {}
        return Spent(round(self.cost_ns), round(cpu_ns), self.now_s, others) if self.knows_cost else None

    def totals(self) -> dict[Function, ExponentialHistogram]:
        return {
            (NAMES[tier], Outcome.SUCCESS): ExponentialHistogram((round(count),), -200)
            for tier, count in self.counted.items()
            if round(count)
        }

    def set_probes(self, tiers: Collection[Tier]) -> None:
        assert not self.attached & set(tiers)
        self.sleep(self.setting_s)
        self.attached |= set(tiers)

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        assert set(tiers) <= self.attached
        self.counting |= set(tiers)

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        assert set(tiers) <= self.attached
        self.counting -= set(tiers)

    def drop_entries(self, tiers: Collection[Tier]) -> None:
        assert not self.counting & set(tiers)
        self.sleep(0.001)

    def finish(self, tier: Tier) -> int:
        assert tier not in self.counting
        self.attached.discard(tier)
        self.left.append(tier)
        self.sleep(self.removing_s)
        return 1 if self.runs_on else 0

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        assert tiers
        return not self.runs_on


class Woken:
    """Windows that are called when a notice comes, and else seldom: twice a second, or when they say."""

    def __init__(
        self,
        server: Server,
        *,
        rested: bool = False,
        tiers: Sequence[Tier] = tuple(Tier),
        budget: float = BUDGET,
        seed: int = 1,
    ) -> None:
        self.server, self._seen = server, server.spent() or Spent()
        unhit = self._spent_unhit if rested else lambda: None
        self.windows = Windows(
            *(budget, server, self._spent, server.totals, server.clock, server.sleep, random.Random(seed)),
            spent_unhit=unhit,
            bursts=self._bursts,
            tiers=tiers,
        )
        begin(server, self.windows)

    def _spent(self) -> Spent:
        self._seen = self.server.spent() or Spent()
        return self._seen

    def _spent_unhit(self) -> Spent | None:
        now = self.server.spent() or Spent()
        return replace(self._seen, at_s=now.at_s) if now.cost_ns == self._seen.cost_ns else None

    def _bursts(self) -> int:
        hits = int((self.server.cost_ns + self.server.others_ns) / self.server.hit_ns)
        return hits // HITS + (hits >= FIRST_HITS)

    def run(self, seconds: float) -> None:
        until_s, heard = self.server.now_s + seconds, self._bursts()
        wake_s = self.server.now_s + 0.5
        while self.server.now_s < until_s - 1e-9:
            self.server.sleep(STEP_S)
            if self.server.now_s >= min(wake_s, self.windows.due_s) or self._bursts() > heard:
                self.windows.tick()
                heard, wake_s = self._bursts(), self.server.now_s + 0.5


def watch(server: Server, budget: float = BUDGET, seed: int = 1) -> Windows:
    windows = Windows(budget, server, server.spent, server.totals, server.clock, server.sleep, random.Random(seed))
    begin(server, windows)
    return windows


def begin(server: Server, windows: Windows, held: Sequence[Tier] = ()) -> None:
    """Starts the windows and has their first look taken as soon as it is due, as a command does."""
    windows.start(held)
    server.sleep(windows.due_s - server.clock())
    windows.tick()


def run(server: Server, windows: Windows, seconds: float) -> None:
    until_s = server.now_s + seconds
    while server.now_s < until_s - 1e-9:
        server.sleep(STEP_S)
        if server.now_s >= server.poll_s - 1e-9:
            windows.tick()
            server.poll_s = server.now_s + min(POLL_S, max(LEAST_POLL_S, windows.due_s - server.now_s))


def share(server: Server) -> float:
    return server.cost_ns / ((server.now_s - 1000) * 1e9)


def holds(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low - 1 <= truth <= interval.high + 1
