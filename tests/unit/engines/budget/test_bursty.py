# SPDX-License-Identifier: Apache-2.0
"""Loads that come in bursts of some ten milliseconds, and fit the budget on average."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.unit.engines.budget.server import Server, run, watch

from ssllatency.stacks.operation import Tier

BUDGET = 0.05
BURST_S, PAUSE_S, TIMES = 0.03, 0.12, 4.0  # on average, and how much more is called in a burst


@dataclass
class Bursty(Server):
    """A server that calls what is below handshakes in bursts, on average `below` times a second."""

    below: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    until_s: float = 1000.0
    bursts: bool = False

    def sleep(self, seconds: float) -> None:
        ends_s = self.now_s + seconds
        while self.now_s < ends_s - 1e-12:
            if self.now_s >= self.until_s:
                self.bursts = not self.bursts
                self.until_s = self.now_s + self.chance.expovariate(1 / (BURST_S if self.bursts else PAUSE_S))
                part = BURST_S / (BURST_S + PAUSE_S)
                self.rates[Tier.BELOW] = self.below * (TIMES if self.bursts else (1 - part * TIMES) / (1 - part))
            super().sleep(min(ends_s - self.now_s, max(1e-6, self.until_s - self.now_s)))


def test_bursts_do_not_put_functions_into_windows_that_fit_the_budget_on_average() -> None:
    """Beside others that are in windows: after each of these it is seen what they cost outside."""
    seen, called = 0.0, 0.0
    for seed in range(4):
        rates = {Tier.DATA: 100_000.0, Tier.BELOW: 0.0, Tier.HANDSHAKE: 250.0}
        server = Bursty(rates, below=15_000, chance=random.Random(100 + seed))  # 60 % of the budget
        run(server, watch(server, BUDGET, seed), 40)
        seen, called = seen + server.counted[Tier.BELOW], called + server.calls[Tier.BELOW]
    assert seen > 0.33 * called
