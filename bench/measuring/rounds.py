# SPDX-License-Identifier: Apache-2.0
"""Rounds of measurements: in each all tracers in an order of its own, each between two measurements without any.

Rounds go on until every tracer's cost is known within a bound, or until the time for it is over.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from bench.measuring.intervals import Pair, of_ratio
from bench.measuring.tracers import Tracer, UnusableRun

Sample = Mapping[str, float]  # a quantity's name to its value
ATTEMPTS = 3  # at a measurement of a tracer
COST = "cost_ns"  # the CPU time of one unit of work, by which the rounds are judged


@dataclass(frozen=True)
class Effort:
    """How much is measured: `at_least` so many rounds, and more for at most `budget_s` seconds in all until the ratio of each
    tracer's cost to that of no tracing is known to within the part `within` of itself."""

    at_least: int
    budget_s: float
    within: float


@dataclass(frozen=True)
class Visit:
    """One measurement of a tracer, and those without any right before and right after it."""

    before: Sample
    traced: Sample
    after: Sample

    def pair(self, quantity: str) -> Pair:
        """The quantity with the tracer, and without: the mean of both sides."""
        return Pair((self.before[quantity] + self.after[quantity]) / 2, self.traced[quantity])


class Work(Protocol):
    """What is traced."""

    def round(self) -> AbstractContextManager[None]:
        """Runs the work for the length of a round."""

    def untraced(self) -> Sample:
        """Measures it without a tracer."""

    def traced(self, tracer: Tracer) -> Sample:
        """Measures it while the tracer is attached."""


@dataclass
class Measured:
    """What the rounds of one work came to: the visits of each tracer by its name, one for each round. `repeated`: how many
    measurements were discarded as the tracer had missed calls, or didn't end."""

    visits: dict[str, list[Visit]] = field(default_factory=dict)
    repeated: int = 0

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return max(map(len, self.visits.values()), default=0)

    def pairs(self, name: str, quantity: str = COST) -> list[Pair]:
        """A tracer's pairs of a quantity, one for each round."""
        return [visit.pair(quantity) for visit in self.visits[name]]

    def untraced(self, quantity: str = COST) -> list[float]:
        """The quantity without a tracer, wherever it was measured."""
        return [
            sample[quantity] for visits in self.visits.values() for visit in visits for sample in (visit.before, visit.after)
        ]

    def is_known(self, within: float) -> bool:
        """Whether the ratio of each tracer's cost is known to within this part of itself."""
        return self.rounds > 1 and all(of_ratio(self.pairs(name)).half_width <= within for name in self.visits)


def measure(
    work: Work,
    tracers: Sequence[Tracer],
    effort: Effort,
    random: Random,
    *,
    between: Callable[[int], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Round after round. `between` is called before each with its number, from 1. A round isn't begun that would end after the
    budget, unless it is one of those that there are at least."""
    measured, began, longest_s = Measured({tracer.name: [] for tracer in tracers}), clock(), 0.0
    while measured.rounds < effort.at_least or (
        not measured.is_known(effort.within) and clock() - began + longest_s <= effort.budget_s
    ):
        round_began = clock()
        between(measured.rounds + 1)
        _one_round(work, tracers, random, measured)
        longest_s = max(longest_s, clock() - round_began)
    return measured


def _one_round(work: Work, tracers: Sequence[Tracer], random: Random, measured: Measured) -> None:
    with work.round():
        work.untraced()  # warms up
        before = work.untraced()
        for tracer in random.sample(tracers, len(tracers)):
            traced = _complete(work, tracer, measured)
            after = work.untraced()
            measured.visits[tracer.name].append(Visit(before, traced, after))
            before = after


def _complete(work: Work, tracer: Tracer, measured: Measured) -> Sample:
    """A measurement in which the tracer missed no call, and ended. UnusableRun where no attempt has one."""
    for _ in range(ATTEMPTS - 1):
        try:
            return work.traced(tracer)
        except UnusableRun as error:
            print(f"==> once more: {error}", file=sys.stderr)
            measured.repeated += 1
    return work.traced(tracer)
