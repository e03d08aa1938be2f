# SPDX-License-Identifier: Apache-2.0
"""What windows stand for where watching changes what a server does: clients that wait for each answer, and a processor that is
busy. Their number of calls is known; tracing makes each in a window dearer by a part of what it takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from ssllatency.model.sampling import Basis, Estimate, Interval, Stratum, Work
from ssllatency.model.windows.estimates import basis_of, estimates

KEY = ("SSL_read", "success")
STRATUM_S, WINDOW_S, STRATA, RUNS = 2.5, 0.15, 12, 100
CALL_NS = 10_000


@dataclass(frozen=True)
class Server:
    """`per_call`: system calls of a call. `hit_ns`: what tracing takes of a call, `stated_ns` what it says that it does.
    `spare`: whether the processor has time to spare, so that as many calls come while they are watched."""

    per_call: float = 3.0
    hit_ns: float = 8_000
    stated_ns: float = 8_000
    spare: bool = False
    bursts: bool = False

    def strata(self, chance: random.Random) -> tuple[list[Stratum], float]:
        """What windows saw, and the number of all calls."""
        strata, total = [], 0.0
        for _ in range(STRATA):
            share = chance.uniform(0.1, 0.9) if self.bursts else 0.97
            cost_ns, call_ns = CALL_NS * chance.uniform(0.97, 1.03), CALL_NS
            between = share * (STRATUM_S - WINDOW_S) * 1e9 / call_ns
            busy_ns = share * chance.uniform(0.98, 1.02) * WINDOW_S * 1e9
            watched = busy_ns / call_ns if self.spare else busy_ns / (cost_ns + self.hit_ns)
            seen = Work(watched * self.per_call, watched * (cost_ns + self.hit_ns - self.stated_ns), watched * self.stated_ns)
            unseen = Work(between * self.per_call, between * call_ns, 0.0)
            calls = {KEY: {200: watched * 0.995, 250: watched * 0.005}}
            strata.append(Stratum(STRATUM_S, WINDOW_S, calls, seen + unseen, seen))
            total += between + watched
        return strata, total


def estimate(strata: Sequence[Stratum]) -> Estimate:
    [only] = estimates(strata)
    return only


def holds(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= truth <= interval.high


# Whether a server is slowed can't be told from bursts without its system calls.
@pytest.mark.parametrize(
    ("server", "basis"),
    [
        (Server(), Basis.IO_CALLS),
        (Server(bursts=True), Basis.IO_CALLS),
        (Server(spare=True), Basis.IO_CALLS),
        (Server(spare=True, bursts=True), Basis.IO_CALLS),
        (Server(stated_ns=3_000), Basis.IO_CALLS),
        (Server(stated_ns=3_000, bursts=True), Basis.IO_CALLS),
        (Server(per_call=0.0, hit_ns=3_000, stated_ns=3_000), Basis.CPU_TIME),
        (Server(per_call=0.0, hit_ns=5_000, stated_ns=2_500), Basis.CPU_TIME),
        (Server(per_call=0.0, spare=True), Basis.TIME),
        (Server(per_call=0.1, hit_ns=3_000, stated_ns=3_000), Basis.CPU_TIME),
    ],
)
def test_intervals_hold_the_truth(server: Server, basis: Basis) -> None:
    held = 0
    for run in range(RUNS):
        strata, truth = server.strata(random.Random(run))
        assert basis_of(strata) is basis
        held += holds(estimate(strata).count, truth)
    assert held >= 95


def test_by_time_alone_the_calls_of_a_server_at_full_speed_would_be_too_few() -> None:
    strata, truth = Server().strata(random.Random(1))
    blind = [replace(stratum, whole=Work(), watched=Work()) for stratum in strata]
    assert basis_of(blind) is Basis.TIME
    assert estimate(blind).count.value < 0.6 * truth


def test_of_the_p99_of_a_slower_server_only_the_upper_bound_is_known() -> None:
    slow = estimate(Server().strata(random.Random(1))[0]).p99_ns
    alike = estimate(Server(hit_ns=100, stated_ns=100, spare=True).strata(random.Random(1))[0]).p99_ns
    assert slow is not None
    assert alike is not None
    assert (slow.low, slow.high) == (0.0, alike.high)
    assert alike.low


def test_runs_are_added_by_their_variances() -> None:
    chains = [Server(bursts=True).strata(random.Random(seed)) for seed in (1, 2)]
    [both] = estimates(*(strata for strata, _ in chains))
    alone = [estimate(strata).count for strata, _ in chains]
    assert both.count.value == pytest.approx(sum(one.value for one in alone))
    assert holds(both.count, sum(truth for _, truth in chains))
    [few] = estimates(chains[0][0], chains[1][0][:3])
    assert few.count.low is None, "a run of three windows says nothing of how far it may be off"
