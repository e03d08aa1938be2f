# SPDX-License-Identifier: Apache-2.0
"""Main effects on data whose effects are known."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from ssllatency.model.statistics.effects import Effects, Observation, design, effects

FACTORS = ("key", "version", "mode")
TRUE = {"key": {"rsa": 0.3, "ec": -0.1, "ed": -0.2}, "version": {"2": 0.05, "3": -0.05}, "mode": {"new": 0.5, "reuse": -0.5}}
CELLS = tuple(product(*TRUE.values()))
MEAN = 200.0


def observed(
    cells: Sequence[tuple[str, ...]] = CELLS, repeats: int = 3, noise: float = 0.0, seed: int = 1
) -> list[Observation]:
    """Each cell in each repeat, by the true effects."""
    rng = random.Random(seed)

    def value(cell: tuple[str, ...]) -> float:
        logs = (TRUE[factor][level] for factor, level in zip(FACTORS, cell, strict=True))
        return MEAN * math.exp(sum(logs) + rng.gauss(0, noise))

    return [Observation(cell, repeat, value(cell)) for repeat in range(repeats) for cell in cells]


def fitted(observations: Sequence[Observation]) -> Effects:
    found = effects_of([one.levels for one in observations], observations)
    assert found
    return found


def effects_of(cells: Sequence[tuple[str, ...]], observations: Sequence[Observation]) -> Effects | None:
    return effects(design(FACTORS, cells), cells, observations)


def logs(found: Effects) -> Mapping[str, Mapping[str, float]]:
    return {factor: {level: math.log(one.ratio) for level, one in levels.items()} for factor, levels in found.effects.items()}


def test_effects_without_noise_are_exact() -> None:
    found = fitted(observed())
    assert found.mean == pytest.approx(MEAN)
    assert found.explained == pytest.approx(1)
    assert {factor: pytest.approx(levels) for factor, levels in TRUE.items()} == logs(found)
    assert all(
        one.low == pytest.approx(one.ratio) == pytest.approx(one.high)
        for levels in found.effects.values()
        for one in levels.values()
    )


def test_where_all_was_run_it_is_the_mean_of_the_log_ratios() -> None:
    """By its definition, with noise and an interaction in it."""
    observations = [
        Observation(one.levels, one.repeat, one.value * (1.5 if one.levels[0] == one.levels[2] == "rsa" else 1.1))
        for one in observed(noise=0.2)
    ]
    grand = sum(math.log(one.value) for one in observations) / len(observations)
    found = fitted(observations)
    for number, factor in enumerate(FACTORS):
        for level, effect in found.effects[factor].items():
            mine = [math.log(one.value) - grand for one in observations if one.levels[number] == level]
            assert math.log(effect.ratio) == pytest.approx(sum(mine) / len(mine))


def test_cells_that_are_left_out_do_not_mislead() -> None:
    """The plain mean of the levels would take one factor's effect for another's."""
    cells = [cell for cell in CELLS if cell not in (("rsa", "2", "new"), ("rsa", "3", "new"), ("ed", "2", "reuse"))]
    found = fitted(observed(cells))
    assert {factor: pytest.approx(levels, abs=1e-6) for factor, levels in TRUE.items()} == logs(found)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """95 % of them, within what chance allows: 400 times three levels and more."""
    inside = total = 0
    for seed in range(400):
        for factor, levels in fitted(observed(repeats=4, noise=0.1, seed=seed)).effects.items():
            for level, one in levels.items():
                assert one.low is not None
                assert one.high is not None
                inside += one.low <= math.exp(TRUE[factor][level]) <= one.high
                total += 1
    assert 0.93 < inside / total < 0.97


def test_one_repeat_has_no_interval() -> None:
    found = fitted(observed(repeats=1))
    assert found.effects["mode"]["new"].low is None
    assert found.effects["mode"]["new"].ratio == pytest.approx(math.exp(0.5))


def test_a_repeat_that_is_not_complete_does_not_count() -> None:
    whole = observed(repeats=2)
    part = [Observation(one.levels, 9, one.value * 7) for one in observed(repeats=1)[:5]]
    assert fitted([*whole, *part]) == fitted(whole)
    assert effects_of(CELLS, part) is None
    assert effects_of(CELLS, []) is None


def test_a_cell_that_is_not_asked_for_does_not_count() -> None:
    """One that failed in the end may have been measured in the beginning."""
    whole = observed(CELLS[1:])
    assert effects_of(CELLS[1:], [Observation(CELLS[0], 0, 7.0), *whole]) == fitted(whole)


def test_a_factor_that_does_not_vary_has_no_effect() -> None:
    cells = [cell for cell in CELLS if cell[1] == "3"]
    planned = design(FACTORS, cells)
    assert planned.names == ("key", "mode")
    assert planned.levels(cells[0]) == ("rsa", "new")


def test_factors_that_cannot_be_told_apart_are_one() -> None:
    """A client's key only where there is one; a cipher with its version."""
    cells = [("none", "-", "a"), ("need", "rsa", "a"), ("need", "ec", "a"), ("none", "-", "b"), ("need", "rsa", "b"),
             ("need", "ec", "b")]  # fmt: skip
    planned = design(("asked", "key", "page"), cells)
    assert planned.names == ("asked, key", "page")
    assert [planned.levels(cell)[0] for cell in cells[:3]] == ["none, -", "need, rsa", "need, ec"]


def test_factors_that_only_three_together_hide_have_no_effect() -> None:
    """Each pair is crossed, but the third level follows from the other two."""
    cells = [(a, b, "x" if a == b else "y") for a in "pq" for b in "pq"] + [("r", "p", "x"), ("r", "q", "x")]
    found = effects_of(cells, [Observation(cell, 0, 1.0 + number) for number, cell in enumerate(cells)])
    assert found
    assert set(found.effects) == {"key", "version", "mode"}
    fewer = [("p", "p", "x"), ("p", "q", "y"), ("q", "p", "y")]
    found = effects_of(fewer, [Observation(cell, 0, 1.0 + number) for number, cell in enumerate(fewer)])
    assert found
    assert found.effects == {}


def test_no_variation_is_not_explained() -> None:
    assert fitted([Observation(cell, 1, 5.0) for cell in CELLS]).explained is None


def test_an_interaction_is_not_explained_by_main_effects() -> None:
    cells = [("rsa", "3", "new"), ("rsa", "3", "reuse"), ("ec", "3", "new"), ("ec", "3", "reuse")]
    crossed = [Observation(cell, 1, 2.0 if (cell[0] == "rsa") == (cell[2] == "new") else 1.0) for cell in cells]
    assert fitted(crossed).explained == pytest.approx(0)
