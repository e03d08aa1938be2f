# SPDX-License-Identifier: Apache-2.0
"""Main effects: how much each level of each factor changes a measured number, in per cent of the mean, with its uncertainty.

The logarithm of the number is taken as a sum of the grand mean and one effect for each factor, fitted by least squares; the
effects of a factor's levels add up to zero. Where every combination was run an effect is the mean of the log ratios to the
grand mean; where some weren't, the other factors' effects are taken out first. It is fitted to each repeat by itself: the mean
of these is the effect, their scatter its 95 % interval, by Student's t.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations
from statistics import fmean, stdev

from ssllatency.data_class import dataclass
from ssllatency.model.windows import student

_OUTSIDE = 0.05  # the share of intervals that don't hold the truth
_SWEEPS, _CLOSE = 1000, 1e-10

Levels = tuple[str, ...]
_Row = dict[int, int]  # the numbers of a matrix's row that aren't 0, by column


@dataclass(frozen=True)
class Observation:
    """One run: its factors' levels, in order, which repeat it was, and the number, above 0."""

    levels: Levels
    repeat: int
    value: float


@dataclass(frozen=True)
class Effect:
    """A level's ratio to the mean, and the 95 % interval of that; None where one repeat alone says nothing of it."""

    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Effects:
    """The effects by factor and level; a factor whose effect the cells don't tell from others' isn't there. `mean` is the
    geometric mean of all cells; `explained` is which share of the variation between cells the effects come to, None where there
    is no variation."""

    mean: float
    effects: Mapping[str, Mapping[str, Effect]]
    explained: float | None


@dataclass(frozen=True)
class Design:
    """The factors that vary, each with the columns of the levels that make it up.

    Factors of which not every level can meet every other, directly or through others (a cipher and its version), can't be told
    apart: they are one factor, whose levels are those of both.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]

    def levels(self, cell: Levels) -> Levels:
        """A cell's levels in the design's factors."""
        return tuple(", ".join(cell[column] for column in columns) for columns in self.columns)


def design(names: Sequence[str], cells: Sequence[Levels]) -> Design:
    """The factors that vary; those that can't be separated are joined."""
    columns: list[tuple[int, ...]] = [(number,) for number in range(len(names)) if len({cell[number] for cell in cells}) > 1]
    while True:
        candidate = Design(tuple(", ".join(names[column] for column in joint) for joint in columns), tuple(columns))
        levels = [candidate.levels(cell) for cell in cells]
        apart = (pair for pair in combinations(range(len(columns)), 2) if not _connected(levels, *pair))
        pair = next(apart, None)
        if pair is None:
            return candidate
        joint = columns[pair[0]] + columns[pair[1]]
        columns = [joint if number == pair[0] else factor for number, factor in enumerate(columns) if number != pair[1]]


def _connected(cells: Sequence[Levels], first: int, second: int) -> bool:
    """Whether the levels of two factors are all connected by the cells in which they occur together."""
    group: dict[tuple[int, str], set[tuple[int, str]]] = {}
    for ends in ({(0, cell[first]), (1, cell[second])} for cell in cells):
        joint = set().union(*(group.get(end, {end}) for end in ends))
        for end in joint:
            group[end] = joint
    return len({id(members) for members in group.values()}) == 1


def effects(planned: Design, cells: Collection[Levels], observations: Sequence[Observation]) -> Effects | None:
    """The main effects of one number, from the repeats in which each of the cells was measured; None where there is no such
    repeat."""
    observations = _complete(frozenset(cells), observations)
    if not observations:
        return None
    repeats: dict[int, dict[Levels, float]] = defaultdict(dict)
    logs: dict[Levels, list[float]] = defaultdict(list)
    for observation in observations:
        repeats[observation.repeat][observation.levels] = math.log(observation.value)
        logs[observation.levels].append(math.log(observation.value))
    width = len(planned.names)
    fits = [_fit([planned.levels(cell) for cell in once], list(once.values()), width) for once in repeats.values()]
    keys, means = [planned.levels(cell) for cell in logs], [fmean(values) for values in logs.values()]
    separable = [number for number in range(width) if _is_told(keys, number)]
    return Effects(
        math.exp(fmean(means)),
        {planned.names[number]: _combined([fit[number] for fit in fits]) for number in separable},
        _explained(keys, means, width),
    )


def _complete(cells: frozenset[Levels], observations: Sequence[Observation]) -> list[Observation]:
    measured: dict[int, set[Levels]] = defaultdict(set)
    for observation in observations:
        measured[observation.repeat].add(observation.levels)
    return [
        observation for observation in observations if observation.levels in cells and measured[observation.repeat] >= cells
    ]


def _fit(cells: Sequence[Levels], logs: Sequence[float], width: int) -> list[dict[str, float]]:
    """The effects of every factor's levels, by sweeps over the factors until nothing changes: least squares."""
    mean = fmean(logs)
    fitted: list[dict[str, float]] = [dict.fromkeys((cell[number] for cell in cells), 0.0) for number in range(width)]
    rest = [value - mean for value in logs]
    for _ in range(_SWEEPS):
        moved = 0.0
        for number in range(width):
            steps = _means([cell[number] for cell in cells], rest)
            rest = [value - steps[cell[number]] for cell, value in zip(cells, rest, strict=True)]
            for level, step in steps.items():
                fitted[number][level] += step
                moved = max(moved, abs(step))
        if moved < _CLOSE:
            break
    return [_centred(levels) for levels in fitted]


def _means(levels: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    gathered: dict[str, list[float]] = defaultdict(list)
    for level, value in zip(levels, values, strict=True):
        gathered[level].append(value)
    return {level: fmean(some) for level, some in gathered.items()}


def _centred(levels: Mapping[str, float]) -> dict[str, float]:
    middle = fmean(levels.values()) if levels else 0.0
    return {level: value - middle for level, value in levels.items()}


def _combined(fits: Sequence[Mapping[str, float]]) -> dict[str, Effect]:
    levels = dict.fromkeys(level for fit in fits for level in fit)
    return {level: _effect([fit[level] for fit in fits if level in fit]) for level in levels}


def _effect(logs: Sequence[float]) -> Effect:
    middle = fmean(logs)
    if len(logs) < 2:
        return Effect(math.exp(middle))
    half = student.bound(_OUTSIDE, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Effect(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def _explained(cells: Sequence[Levels], means: Sequence[float], width: int) -> float | None:
    fit, mean = _fit(cells, means, width), fmean(means)
    whole = sum((value - mean) ** 2 for value in means)
    if not whole:
        return None
    expected = [sum(fit[number][cell[number]] for number in range(width)) for cell in cells]
    offset = fmean(value - fitted for value, fitted in zip(means, expected, strict=True))
    rest = sum((value - fitted - offset) ** 2 for value, fitted in zip(means, expected, strict=True))
    return max(0.0, 1 - rest / whole)


def _is_told(cells: Sequence[Levels], factor: int) -> bool:
    """Whether the cells separate this factor's effects from those of all the others together."""
    width = len(cells[0])
    others = [[(number, cell[number]) for number in range(width) if number != factor] for cell in cells]
    every = [[(number, cell[number]) for number in range(width)] for cell in cells]
    return _rank(every) - _rank(others) == len({cell[factor] for cell in cells}) - 1


def _rank(rows: Sequence[Sequence[Hashable]]) -> int:
    """The rank of the matrix with a 1 for each member of a row, and for the mean."""
    columns = {name: number for number, name in enumerate(dict.fromkeys(name for row in rows for name in row), 1)}
    echelon: dict[int, _Row] = {}
    for members in {tuple(row) for row in rows}:
        left = _reduced({0: 1, **{columns[name]: 1 for name in members}}, echelon)
        if left:
            echelon[min(left)] = left
    return len(echelon)


def _reduced(row: _Row, echelon: Mapping[int, _Row]) -> _Row:
    """The rest of a row after Gaussian elimination: nothing where it depends on the rows of `echelon`, each of which is found
    by the column that it begins in. Exact: whole numbers, multiplied crosswise and then cut down by what divides them all."""
    while row and (pivot := echelon.get(min(row))):
        first = min(row)
        both = {column: pivot[first] * row.get(column, 0) - row[first] * pivot.get(column, 0) for column in {*row, *pivot}}
        divisor = math.gcd(*both.values()) or 1
        row = {column: value // divisor for column, value in both.items() if value}
    return row
