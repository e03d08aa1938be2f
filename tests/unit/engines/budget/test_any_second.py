# SPDX-License-Identifier: Apache-2.0
"""What tracing takes of any second, of the first and of the first after a rest as well: of servers that rest between requests,
and of such at full speed."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field

import pytest
from tests.parameters import slow_except
from tests.unit.engines.budget.server import Server, Woken, run, watch

from ssllatency.engines.budget.looks import FIRST_LOOK_S, LOOK_S, Looks
from ssllatency.engines.budget.spending import OTHERS_BUDGET
from ssllatency.stacks.operation import Tier

BUDGET = 0.05
RUN_S = 12.0
LITTLE_S = 0.02  # less than the first look


@dataclass
class Paying(Server):
    """A server that notes when it has paid how much, and had run how long; `little_s`: it does nothing before that."""

    little_s: float = 0.0
    at_s: list[float] = field(default_factory=list)
    paid: list[tuple[float, float]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.rests = self.now_s < 1000 + self.little_s
        super().sleep(seconds)
        self.at_s.append(self.now_s)
        self.paid.append((self.cost_ns / 1e9, self.worked_s))

    def dearest_second(self) -> float:
        """The greatest share that any second had of its processor time, the first included."""
        begins = (bisect_left(self.at_s, end_s - 1.0) for end_s in self.at_s)
        pairs = [(self.paid[begin], end) for begin, end in zip(begins, self.paid, strict=True)]
        return max((end[0] - begin[0]) / (end[1] - begin[1]) for begin, end in pairs if end[1] - begin[1] > 0.9 * self.part)


RATES = {
    "most below handshakes": {Tier.DATA: 500, Tier.BELOW: 20_000, Tier.HANDSHAKE: 250},
    "both": {Tier.DATA: 5_000, Tier.BELOW: 15_000, Tier.HANDSHAKE: 250},
    "reads and writes": {Tier.DATA: 26_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0},
    "many reads and writes": {Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0},
}


@pytest.mark.parametrize("part", [1.0, 0.5], ids=["at full speed", "half at rest"])
@pytest.mark.parametrize("little_s", [0.0, LITTLE_S], ids=["from the start", "after a moment"])
@pytest.mark.parametrize("load", RATES)
def test_no_second_costs_much_more_than_the_budget(load: str, part: float, little_s: float) -> None:
    for seed in range(3):
        server = Paying(dict(RATES[load]), part=part, little_s=little_s)
        windows = watch(server, BUDGET, seed)
        run(server, windows, RUN_S)
        assert server.dearest_second() <= 1.3 * BUDGET


@dataclass
class Stopped(Paying):
    """A server that does nothing for a moment after probes were removed, as the tracer has its processor then."""

    stops_s: float = 0.05
    goes_on_s: float = 0.0

    def finish(self, tier: Tier) -> int:
        ran_on = super().finish(tier)
        self.goes_on_s = self.now_s + self.stops_s
        return ran_on

    def sleep(self, seconds: float) -> None:
        self.little_s = math.inf if self.now_s < self.goes_on_s else 0.0
        super().sleep(seconds)


def test_what_little_is_seen_at_first_makes_no_long_window() -> None:
    for seed in range(3):
        server = Stopped({Tier.DATA: 0, Tier.BELOW: 60_000, Tier.HANDSHAKE: 20_000})  # 12 and 4 %
        woken = Woken(server, tiers=(Tier.BELOW,), budget=BUDGET, seed=seed)
        woken.run(RUN_S)
        assert server.dearest_second() <= 1.3 * BUDGET


@dataclass
class Returning(Paying):
    """A server that has nothing to do from time to time."""

    idle: bool = False

    def sleep(self, seconds: float) -> None:
        self.little_s = math.inf if self.idle else 0.0
        super().sleep(seconds)


@pytest.mark.parametrize("rests_s", slow_except([3.0, 5.0, 8.0, 14.0], 5.0))
@pytest.mark.parametrize("load", ["both", "many reads and writes"])
def test_nor_does_the_first_second_after_a_rest(load: str, rests_s: float) -> None:
    dearest = []
    for seed in range(6):
        server = Returning(dict(RATES[load]))
        woken = Woken(server, rested=True, budget=BUDGET, seed=seed)
        for _ in range(2):
            woken.run(4.0 + seed / 5)
            server.idle = True
            woken.run(rests_s)
            server.idle = False
        woken.run(3.0)
        dearest.append(server.dearest_second())
    assert max(dearest) <= 1.4 * BUDGET, dearest


@dataclass
class Beside(Server):
    """An idle server, and a stranger that pays: it notes when that had paid how much."""

    at_s: list[float] = field(default_factory=list)
    paid_s: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.at_s.append(self.now_s)
        self.paid_s.append(self.others_ns / 1e9)

    def dearest_second(self) -> float:
        """The greatest share that any second had of the stranger's time, but for those before the probes were gone at first."""
        begins = (bisect_left(self.at_s, end_s - 1.0) for end_s in self.at_s)
        pairs = zip(begins, self.at_s, self.paid_s, strict=True)
        return max(paid_s - self.paid_s[begin] for begin, end_s, paid_s in pairs if end_s > 1001.5)


@pytest.mark.parametrize("part", [0.6, 0.75, 0.9])
def test_no_second_costs_a_stranger_at_full_speed_much_more_than_its_budget(part: float) -> None:
    for seed in range(3):
        server = Beside({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, other_rate=part * 500_000)  # of 2 us
        Woken(server, budget=BUDGET, seed=seed).run(RUN_S)
        assert server.dearest_second() <= 1.1 * OTHERS_BUDGET


def test_looks_come_at_once_and_then_seldom() -> None:
    looks, now, at_s = Looks(10.0), 10.0, []
    looks.begin(now)
    while now < 11.0:
        now += 0.001
        if looks.is_due(now):
            looks.looked(now)
            at_s.append(now - 10.0)
    assert at_s[:4] == pytest.approx([FIRST_LOOK_S * 2**number for number in range(4)], abs=0.01)
    assert at_s[5] - at_s[4] == pytest.approx(LOOK_S, abs=0.002)
    assert not looks.settling
