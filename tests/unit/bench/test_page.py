# SPDX-License-Identifier: Apache-2.0
"""The benchmark's page, of measurements that are made up here: every part of it is filled in, and it says what it is of."""

from __future__ import annotations

import re

import pytest

from bench import page, run
from bench.measuring import hits
from bench.measuring.rounds import COST, Measured, Visit
from bench.measuring.tracers import AGAIN, FLOOR, HANDSHAKES, SNOOP, SSLLATENCY, STOCK, Tracer, pricing
from bench.measuring.works import BUSY, RATE
from bench.processes import growing
from ssllatency.probes.costs import HitCosts

NAMES = (AGAIN, FLOOR, SSLLATENCY, HANDSHAKES, SNOOP, STOCK)
SEED = 4711


def measured(names: tuple[str, ...]) -> Measured:
    """Each tracer costs a tenth more than the one before; the first, nothing."""
    return Measured({name: [_visit(1 + place / 10, noise) for noise in (0.99, 1.0, 1.01)] for place, name in enumerate(names)})


def _visit(factor: float, noise: float) -> Visit:
    without = {COST: 1000.0, RATE: 500.0, BUSY: 0.99}
    return Visit(without, {COST: 1000 * factor * noise, RATE: 500 / factor / noise, BUSY: 0.99}, without)


def results() -> run.Results:
    grown, names = tuple(tracer.name for tracer in growing(8)), dict.fromkeys((run.PUMP, run.KEEP_ALIVE, run.CLOSE), NAMES)
    names[run.CLOSE_PRICED] = tuple(tracer.name for tracer in pricing())
    works = {**names, run.ENGINES: (AGAIN, SSLLATENCY), run.GROWTH: grown, run.UNRELATED: (AGAIN, SSLLATENCY)}
    starts = {name: [0.3, 0.4] for name in NAMES if name != AGAIN}
    beside = {}
    for name in works:
        beside[name] = hits.Hits()
        beside[name].costs.append(HitCosts(400, 555, 9000, 300, 120))
    others = {name: [0, 1] if name == run.CLOSE else [0, 0] for name in works}
    return run.Results({name: measured(rows) for name, rows in works.items()}, beside, others, starts, starts)


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(page, "machine", lambda: "- Kernel: one")
    monkeypatch.setattr(run, "left_out", lambda: ["Something is left out: it lacks a reason."])
    return run._page(results(), run.QUICK, SEED)


def test_every_part_of_the_page_is_filled_in(text: str) -> None:
    assert not re.search(r"[{}]|\bNone\b|\bnan\b", text)
    assert text.count("\n| --- |") == 7  # nothing is stated of costs
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "- "))) <= 128


def test_the_page_says_how_to_repeat_it_and_what_it_leaves_out(text: str) -> None:
    assert f"--seed {SEED}" in text
    assert "- Kernel: one\n" in text
    assert "- Something is left out: it lacks a reason.\n" in text


def test_the_cost_of_a_hit_is_beside_every_table_of_costs(text: str) -> None:
    for part in text.split("\n## ")[1:]:
        if "added" in part and "| ---" in part:
            assert "555 ns at an instruction that the kernel emulates" in part, part


def test_figures_that_others_disturbed_are_marked(text: str) -> None:
    marked = [part.splitlines()[0] for part in text.split("\n## ") if "Other processes held probes in 1 of 2 rounds" in part]
    assert marked == ["In one nginx worker, Connection: close"]


def test_all_works_have_an_effort_in_both_scales() -> None:
    assert run.QUICK.efforts.keys() == run.THOROUGH.efforts.keys() == results().works.keys()
    assert run.QUICK.seconds.keys() == run.THOROUGH.seconds.keys() == {run.KEEP_ALIVE, run.CLOSE}
    for scale in (run.QUICK, run.THOROUGH):
        assert all(effort.at_least >= 2 for effort in scale.efforts.values())  # fewer have no interval
        assert scale.starts >= 2


def test_a_run_stays_within_its_time() -> None:
    """Beside the rounds that there are at least, starts and the memory's page take some minutes."""
    assert sum(effort.budget_s for effort in run.THOROUGH.efforts.values()) <= 24 * 60
    assert sum(effort.budget_s for effort in run.QUICK.efforts.values()) <= 3 * 60


def test_the_tracers_of_a_table_have_names_of_their_own() -> None:
    for rows in (growing(500), growing(8)):
        assert len({tracer.name for tracer in rows}) == len(rows)
        assert rows[0] == Tracer(AGAIN)
