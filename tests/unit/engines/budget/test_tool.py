# SPDX-License-Identifier: Apache-2.0
"""What the tracer itself takes, as printing a line for each call: it shortens windows, and nothing goes into them for it."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest
from tests.unit.engines.budget.server import Server, begin, run

from ssllatency.engines.attach.sites import Tier
from ssllatency.engines.budget.controller import Controller
from ssllatency.engines.budget.windows import Windows
from ssllatency.engines.cost.spent import tool_share

BUDGET = 0.05
LINE_NS = 4_000


def watch(server: Server, line_ns: int = LINE_NS, idle_share: float = 0.0) -> Windows:
    def tool_ns() -> int:
        return round(sum(server.counted.values()) * line_ns + idle_share * (server.now_s - 1000) * 1e9)

    windows = Windows(
        *(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1)), tool_ns=tool_ns
    )
    begin(server, windows)
    return windows


def loud() -> Server:
    return Server({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})


def test_windows_are_shorter_where_each_call_is_printed() -> None:
    """Without that the lines of these windows would take as much as the budget allows, and the probes half of it again."""
    server = loud()
    windows = watch(server)
    run(server, windows, 120)
    windows.finish()
    tool = sum(server.counted.values()) * LINE_NS
    passed_ns = (server.now_s - 1000) * 1e9
    assert server.counted[Tier.DATA] > 0
    assert (server.cost_ns + tool) / passed_ns <= BUDGET
    silent = loud()
    watched = watch(silent, line_ns=0)
    run(silent, watched, 120)
    assert silent.counted[Tier.DATA] > 1.2 * server.counted[Tier.DATA]


class Priced(Server):
    """A server for whose probes, whenever they are set or removed, the tracer works as long as that takes."""

    moved_s = 0.0

    def set_probes(self, tiers: Collection[Tier]) -> None:
        began_s = self.now_s
        super().set_probes(tiers)
        self.moved_s += self.now_s - began_s

    def finish(self, tier: Tier) -> int:
        began_s = self.now_s
        found = super().finish(tier)
        self.moved_s += self.now_s - began_s
        return found


def test_setting_and_removing_probes_is_paid_out_of_the_budget() -> None:
    """It is the tracer's own processor time, which is all that the kernel takes for it."""

    def watched(*, counts: bool) -> Priced:
        server = Priced({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
        windows = Windows(
            *(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1)),
            tool_ns=lambda: round(server.moved_s * 1e9) if counts else 0,
        )
        begin(server, windows)
        run(server, windows, 120)
        windows.finish()
        return server

    paid, free = watched(counts=True), watched(counts=False)
    assert paid.moved_s > 0.01 * 120
    assert (paid.cost_ns + paid.moved_s * 1e9) / 120e9 <= BUDGET < (free.cost_ns + free.moved_s * 1e9) / 120e9
    assert 0 < paid.counted[Tier.DATA] < free.counted[Tier.DATA]


def test_setting_the_probes_at_first_is_paid_out_of_the_first_windows() -> None:
    def watched_s(attach_s: float, seconds: float) -> float:
        server = Server({Tier.DATA: 200_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})
        windows = Windows(
            *(BUDGET, server, server.spent, server.totals, server.clock, server.sleep, random.Random(1)),
            attach_ns=lambda: round(attach_s * 1e9),
        )
        begin(server, windows)
        run(server, windows, seconds)
        windows.finish()
        return sum(part.watched_s for part in windows.sampling())

    assert watched_s(0.3, 20) < 0.95 * watched_s(0.0, 20)
    assert watched_s(0.3, 20) > 0


def test_a_busy_tracer_puts_nothing_into_windows() -> None:
    server = Server({Tier.DATA: 5_000, Tier.BELOW: 0, Tier.HANDSHAKE: 0})  # 1 %
    windows = watch(server, idle_share=0.5)
    run(server, windows, 30)
    windows.finish()
    assert server.counted == server.calls
    assert windows.sampling() == ()


def test_some_is_watched_however_much_the_tracer_takes() -> None:
    controller = Controller(BUDGET, 1)
    assert controller.watched_all(0.5)
    before = controller.next()
    controller.heard_tool(1.0)
    after = controller.next()
    assert after.window_s / after.stratum_s == pytest.approx(before.window_s / before.stratum_s * 0.4)


def test_its_share_is_of_a_whole_processor_at_least() -> None:
    assert tool_share(10e6, 50e6, 1.0) == pytest.approx(0.01)
    assert tool_share(10e6, 4e9, 1.0) == pytest.approx(0.0025)
    assert tool_share(-5, 0, 1.0) == 0
    assert tool_share(5, 0, 0) == 0
