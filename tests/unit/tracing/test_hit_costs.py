# SPDX-License-Identifier: Apache-2.0
"""The cost of a hit is measured once a boot, and only where this user may attach."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ssllatency.engines import hit_cost
from ssllatency.probes.cache import store
from ssllatency.probes.costs import HitCosts
from ssllatency.tracing import hit_costs

COSTS = HitCosts(optimised=240, emulated=500, single_stepped=5000, returning=300, after_work=140)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """A machine on which a measurement gives COSTS, and what was measured."""
    calls: list[object] = []

    def measure(method: object, *, returns: bool) -> HitCosts:
        calls.append((method, returns))
        return COSTS

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(hit_cost, "measure", measure)
    return calls


def again(**options: bool) -> HitCosts | None:
    """As another run of the program."""
    hit_costs.of_this_machine.cache_clear()
    return hit_costs.of_this_machine(**options)


def boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    path = tmp_path / "boot_id"
    path.write_text(f"{name}\n")
    monkeypatch.setattr(hit_costs, "_BOOT_ID", path)


def test_once_a_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: list[object]) -> None:
    boot(monkeypatch, tmp_path, "first")
    assert [again(), again()] == [COSTS, COSTS]
    assert len(measured) == 1
    boot(monkeypatch, tmp_path, "second")
    assert again() == COSTS
    assert len(measured) == 2


def test_without_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: list[object]) -> None:
    boot(monkeypatch, tmp_path, "first")
    assert [again(keep=False), again(keep=False)] == [COSTS, COSTS]
    assert len(measured) == 2


def test_a_machine_without_a_boot_id_is_measured_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: list[object]
) -> None:
    monkeypatch.setattr(hit_costs, "_BOOT_ID", tmp_path / "missing")
    assert [again(), again()] == [COSTS, COSTS]
    assert len(measured) == 2


def test_return_probes_are_left_out_where_they_would_kill(monkeypatch: pytest.MonkeyPatch, measured: list[Any]) -> None:
    monkeypatch.setattr(hit_costs, "return_probes_kill", lambda *_, **__: "it dies")
    again(keep=False)
    assert [returns for _, returns in measured] == [False]


@pytest.mark.usefixtures("measured")
def test_a_figure_that_cannot_be_is_neither_told_nor_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    boot(monkeypatch, tmp_path, "first")
    monkeypatch.setattr(hit_cost, "measure", lambda *_, **__: replace(COSTS, emulated=-4))
    assert again() is None
    monkeypatch.setattr(hit_cost, "measure", lambda *_, **__: COSTS)
    assert again() == COSTS


@pytest.mark.usefixtures("measured")
def test_other_work_may_make_no_hit_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hit_cost, "measure", lambda *_, **__: replace(COSTS, after_work=0))
    assert again() == replace(COSTS, after_work=0)


def test_nothing_is_known_where_attaching_is_refused() -> None:
    assert again(keep=False) is None


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        {**asdict(COSTS), "more": 1},
        {**asdict(COSTS), "emulated": "500"},
        {**asdict(COSTS), "emulated": True},
        {**asdict(COSTS), "emulated": 0},
        {**asdict(COSTS), "emulated": 10**12},
    ],
)
def test_a_damaged_entry_is_measured_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: list[object], entry: Any
) -> None:
    boot(monkeypatch, tmp_path, "first")
    monkeypatch.setattr(store, "load", lambda *_: entry)
    assert again() == COSTS
    assert len(measured) == 1
