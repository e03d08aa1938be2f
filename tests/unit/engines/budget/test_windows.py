# SPDX-License-Identifier: Apache-2.0
"""Windows on a server whose every call is known, in simulated time: what is spent, what is watched, what is estimated."""

from __future__ import annotations

import math

import pytest
from tests.unit.engines.budget.server import (
    BUDGET,
    Server,
    run,
    share,
    watch,
)

from ssllatency.engines.budget.spending import OTHERS_BUDGET
from ssllatency.stacks.operation import Tier


def test_what_costs_little_is_watched_all_the_time() -> None:
    server = Server({Tier.DATA: 5_000, Tier.BELOW: 500, Tier.HANDSHAKE: 500})  # 1.2 %
    windows = watch(server)
    run(server, windows, 30)
    windows.finish()
    assert server.counting == set(Tier)
    assert server.counted == server.calls
    assert windows.sampling() == ()


@pytest.mark.parametrize("rate", [15_000, 50_000, 200_000], ids=["3 %", "10 %", "40 %"])
@pytest.mark.parametrize("setting_s", [0.002, 0.02])
def test_the_budget_is_kept_and_the_rest_is_estimated(rate: int, setting_s: float) -> None:
    server = Server({Tier.DATA: rate, Tier.BELOW: 1_000, Tier.HANDSHAKE: 200}, setting_s=setting_s)
    windows = watch(server)
    run(server, windows, 60)
    windows.finish()
    assert 0.3 * BUDGET < share(server) <= 1.05 * BUDGET
    assert server.counted[Tier.HANDSHAKE] == server.calls[Tier.HANDSHAKE]
    assert server.counted[Tier.BELOW] == server.calls[Tier.BELOW]
    [sampling] = windows.sampling()
    assert sampling.functions == ("SSL_read",)
    assert sampling.duration_s == pytest.approx(server.now_s - 1000, abs=0.3)
    assert sampling.watched_s == pytest.approx(server.counted[Tier.DATA] / rate, rel=0.01)
    [estimate] = sampling.estimates
    assert estimate.count.value == pytest.approx(server.calls[Tier.DATA], rel=0.02)


@pytest.mark.parametrize("hits", [0, 20_000])
def test_others_work_where_they_hit_probes_and_not_where_they_only_run(hits: int) -> None:
    server = Server({Tier.DATA: 0, Tier.BELOW: 0, Tier.HANDSHAKE: 0}, busy=False, other_rate=100_000)
    windows = watch(server)
    run(server, windows, 10)
    assert windows.due_s < math.inf
    server.other_rate = hits
    server.others_runs_on = True
    run(server, windows, 5)
    assert windows.rests is (hits == 0)


def test_a_load_at_the_border_does_not_flap() -> None:
    server = Server({Tier.DATA: 10_500, Tier.BELOW: 0, Tier.HANDSHAKE: 0})  # 2.1 %
    windows = watch(server)
    run(server, windows, 60)
    assert server.attached != set(Tier) or server.counting != set(Tier) or server.left.count(Tier.DATA) < 90
    assert share(server) <= 1.05 * BUDGET


def test_what_is_below_handshakes_goes_next_and_handshakes_last() -> None:
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 4_000})
    windows = watch(server)
    run(server, windows, 60)
    windows.finish()
    assert server.counted[Tier.HANDSHAKE] == server.calls[Tier.HANDSHAKE]
    assert server.counted[Tier.BELOW] < server.calls[Tier.BELOW] / 2
    assert share(server) <= 1.1 * BUDGET
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 40_000})
    windows = watch(server)
    run(server, windows, 120)
    windows.finish()
    assert server.counted[Tier.HANDSHAKE] < server.calls[Tier.HANDSHAKE] / 2
    assert share(server) <= 1.15 * BUDGET
    assert len(windows.sampling()) == 3


def test_all_that_has_to_go_goes_at_once() -> None:
    server = Server({Tier.DATA: 50_000, Tier.BELOW: 30_000, Tier.HANDSHAKE: 4_000})
    windows = watch(server)
    run(server, windows, 0.1)
    assert server.attached == {Tier.HANDSHAKE}
    run(server, windows, 9.9)
    windows.finish()
    assert share(server) <= 1.2 * BUDGET
    assert all(sampling.windows >= 1 for sampling in windows.sampling())


def test_what_others_take_leaves_windows_a_part() -> None:
    """Whoever traces for some seconds learns of what is in windows, too, though all the rest takes as much as the aim."""
    server = Server({Tier.DATA: 0, Tier.BELOW: 50_000, Tier.HANDSHAKE: 9_000})
    windows = watch(server)
    run(server, windows, 20)
    windows.finish()
    below = windows.by_tier()[Tier.BELOW]
    assert below.windows >= 2
    assert share(server) <= 1.3 * BUDGET


@pytest.mark.parametrize("seed", range(8))
def test_the_first_window_comes_soon(seed: int) -> None:
    """Whatever a run of seconds would have to wait for by its budget alone, and all that pay for it later keep that budget."""
    server = Server({Tier.DATA: 0, Tier.BELOW: 150_000, Tier.HANDSHAKE: 9_000})
    windows = watch(server, seed=seed)
    run(server, windows, 2.5)
    assert windows.by_tier()[Tier.BELOW].windows == 1
    run(server, windows, 60)
    windows.finish()
    assert share(server) <= 1.2 * BUDGET


def test_another_process_that_pays_is_spared_as_well() -> None:
    """Though the traced one could be watched all the time."""
    server = Server({Tier.DATA: 1_000, Tier.BELOW: 10, Tier.HANDSHAKE: 10}, other_rate=150_000)
    windows = watch(server)
    run(server, windows, 60)
    windows.finish()
    assert 0.3 * BUDGET < server.others_ns / 60e9 <= 1.05 * BUDGET
    [sampling] = windows.sampling()
    assert sampling.watched_s < sampling.duration_s / 5


def test_a_process_that_is_not_traced_has_a_smaller_budget_of_its_own() -> None:
    server = Server({Tier.DATA: 150_000, Tier.BELOW: 10, Tier.HANDSHAKE: 10}, other_rate=150_000)
    windows = watch(server, budget=0.1)
    run(server, windows, 60)
    assert 0.3 * OTHERS_BUDGET < server.others_ns / 60e9 <= OTHERS_BUDGET
    server = Server({Tier.DATA: 150_000, Tier.BELOW: 10, Tier.HANDSHAKE: 10}, other_rate=10_000)
    run(server, watch(server, budget=0.1), 60)
    assert share(server) > OTHERS_BUDGET  # as he does who is traced, where others pay little
