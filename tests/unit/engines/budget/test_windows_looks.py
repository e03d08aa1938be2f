# SPDX-License-Identifier: Apache-2.0
"""When it is looked at what is spent: not while no probe is hit, and soon once one is."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from tests.unit.engines.budget.server import (
    BUDGET,
    Server,
    begin,
    run,
    watch,
)

from ssllatency.engines.budget.windows import Windows
from ssllatency.engines.cost.spent import Spent
from ssllatency.stacks.operation import Tier


def test_where_the_cost_is_not_known_nothing_goes_into_windows() -> None:
    server = Server({Tier.DATA: 100_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, knows_cost=False)
    windows = watch(server)
    run(server, windows, 5)
    assert server.counting == set(Tier)


def test_nothing_is_looked_at_while_no_probe_is_hit() -> None:
    server = Server({Tier.DATA: 500_000})
    asked: list[float] = []

    def spent() -> Spent | None:
        asked.append(server.now_s)
        return server.spent()

    def spent_unhit() -> Spent | None:
        return Spent(0, 10**9) if server.now_s < 1005 else None

    windows = Windows(
        BUDGET, server, spent, server.totals, server.clock, server.sleep, random.Random(1), spent_unhit=spent_unhit
    )
    run(server, windows, 4.9)
    assert not asked
    assert windows.rests
    run(server, windows, 5)
    assert asked
    assert windows.due_s < math.inf
    assert not windows.rests


def test_what_is_held_back_is_watched_from_the_start_on() -> None:
    server = Server({Tier.DATA: 5_000, Tier.BELOW: 500, Tier.HANDSHAKE: 500})
    server.attached.discard(Tier.DATA)
    server.counting.discard(Tier.DATA)
    windows = Windows(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1))
    server.sleep(1)
    begin(server, windows, [Tier.DATA])
    run(server, windows, 30)
    windows.finish()
    assert server.counting == set(Tier)
    assert windows.sampling() == ()


def begin_with_data_held_back(server: Server) -> None:
    """Until all else is watched."""
    server.attached.discard(Tier.DATA)
    server.counting.discard(Tier.DATA)
    windows = Windows(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1))
    begin(server, windows, [Tier.DATA])


def test_what_is_held_back_costs_only_a_moment_at_full_speed() -> None:
    server = Server({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    begin_with_data_held_back(server)
    assert Tier.DATA not in server.attached
    assert server.cost_ns < 0.4 * 0.04e9  # of less than 40 ms


def test_who_is_not_traced_pays_for_the_first_look_a_few_milliseconds_only() -> None:
    """At full speed; what he does says nothing of the traced one, which is idle."""
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, other_rate=200_000)
    begin_with_data_held_back(server)
    assert Tier.DATA not in server.attached
    assert server.others_ns < 0.4 * 0.015e9  # of less than 15 ms


def test_what_fits_the_budget_is_watched_from_the_first_look_on() -> None:
    """Though in the first milliseconds it makes as many calls as in a quarter of a second: nothing of it is estimated."""
    for rate in (500, 1_000, 5_000, 7_000):
        server = Server({Tier.DATA: rate, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
        windows = watch(server)
        run(server, windows, 3)
        windows.finish()
        assert server.counting == set(Tier)
        assert windows.sampling() == ()


def test_what_comes_later_is_looked_at_soon() -> None:
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    windows = watch(server)
    run(server, windows, 0.3)
    server.rates[Tier.DATA] = 200_000
    windows.look_soon()
    server.sleep(0.05)
    windows.tick()
    assert Tier.DATA not in server.attached


def test_a_load_that_comes_at_once_is_seen_at_the_next_tick() -> None:
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0})

    def spent_unhit() -> Spent | None:
        return None if server.rates[Tier.DATA] else server.spent()

    windows = Windows(
        BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1), spent_unhit=spent_unhit
    )
    begin(server, windows)
    run(server, windows, 5)
    server.rates[Tier.DATA] = 200_000
    server.sleep(0.01)
    windows.tick()
    assert Tier.DATA not in server.attached
    assert server.cost_ns < 0.4 * 0.06e9


def test_a_burst_that_has_ended_when_it_is_seen_is_counted() -> None:
    """Nothing else would ever be seen of one who works for less than a look takes, again and again."""
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
    seen = server.spent()

    def spent() -> Spent:
        nonlocal seen
        seen = server.spent()
        return seen

    def spent_unhit() -> Spent | None:
        now = server.spent()
        return replace(now, cpu_ns=seen.cpu_ns) if now.cost_ns == seen.cost_ns else None

    windows = Windows(
        BUDGET, server, spent, server.totals, server.clock, server.sleep, random.Random(1), spent_unhit=spent_unhit
    )
    server.busy = False
    begin(server, windows)
    run(server, windows, 5)
    server.busy, server.worked_s = True, 0.0
    server.rates[Tier.DATA] = 200_000
    server.sleep(0.01)
    server.rates[Tier.DATA] = 0
    windows.tick()
    assert Tier.DATA not in server.attached
