# SPDX-License-Identifier: Apache-2.0
"""The benchmark's rounds: their orders, how many there are, and what is compared with what."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from random import Random

import pytest

from bench.measuring.intervals import Pair, of_ratio
from bench.measuring.rounds import COST, Effort, Measured, Sample, Visit, measure
from bench.measuring.tracers import Tracer, UnusableRun

TRACERS = [Tracer(name) for name in ("a", "b", "c", "d")]
FACTORS = {"a": 1.0, "b": 1.2, "c": 2.0, "d": 5.0}


class Machine:
    """A work whose costs are known, on a machine that becomes slower all the time; each measurement takes a second."""

    def __init__(self, noise: float = 0.0, misses: int = 0) -> None:
        self.now, self.noise, self.misses, self.random = 0.0, noise, misses, Random(1)
        self.log: list[str] = []

    @contextlib.contextmanager
    def round(self) -> Iterator[None]:
        self.log.append("round")
        yield
        self.log.append("end")

    def untraced(self) -> Sample:
        self.log.append("-")
        return self._measured(1.0)

    def traced(self, tracer: Tracer) -> Sample:
        if self.misses:
            self.misses -= 1
            raise UnusableRun(tracer.name)
        self.log.append(tracer.name)
        return self._measured(FACTORS[tracer.name])

    def clock(self) -> float:
        return self.now

    def _measured(self, factor: float) -> Sample:
        self.now += 1
        return {COST: factor * (1000 + self.now) * math.exp(self.random.gauss(0, self.noise))}


def measured(machine: Machine, effort: Effort, seed: int = 1) -> Measured:
    return measure(machine, TRACERS, effort, Random(seed), clock=machine.clock)


def orders(machine: Machine) -> list[str]:
    return "".join(machine.log).split("end")[:-1]


def test_each_tracer_is_between_two_measurements_without_one() -> None:
    machine = Machine()
    measured(machine, Effort(5, 0, 0.01))
    for order in orders(machine):
        assert order.startswith("round--")  # the first one only warms up
        assert order.removeprefix("round--")[1::2] == "----"
        assert sorted(order.removeprefix("round--")[::2]) == ["a", "b", "c", "d"]


def test_the_orders_differ_between_rounds_and_follow_from_the_seed() -> None:
    machines = [Machine() for _ in range(3)]
    for machine, seed in zip(machines, (1, 1, 2), strict=True):
        measured(machine, Effort(6, 0, 0.01), seed)
    assert len(set(orders(machines[0]))) > 1
    assert orders(machines[0]) == orders(machines[1]) != orders(machines[2])


def test_the_results_are_in_the_order_of_the_tracers() -> None:
    assert all(list(measured(Machine(), Effort(1, 0, 0.01), seed).visits) == ["a", "b", "c", "d"] for seed in range(5))


def test_the_drift_of_the_machine_is_no_tracers() -> None:
    result = measured(Machine(), Effort(6, 0, 0.01))
    for name, factor in FACTORS.items():
        assert of_ratio(result.pairs(name)).middle == pytest.approx(factor, rel=1e-6)


def test_rounds_end_when_all_ratios_are_known() -> None:
    exact, noisy = measured(Machine(), Effort(3, 1e9, 0.01)), measured(Machine(0.03), Effort(3, 1e9, 0.01))
    assert exact.rounds == 3
    assert noisy.rounds > 10
    assert noisy.is_known(0.01)
    assert max(of_ratio(noisy.pairs(name)).half_width for name in FACTORS) <= 0.01


def test_rounds_end_when_the_next_would_take_too_long() -> None:
    machine = Machine(0.2)  # a round takes 10 s
    result = measured(machine, Effort(3, 65, 0.001))
    assert (result.rounds, machine.now) == (6, 60)


def test_there_are_as_many_rounds_as_there_must_be() -> None:
    assert measured(Machine(0.2), Effort(4, 0, 0.001)).rounds == 4


def test_a_measurement_that_missed_calls_is_repeated() -> None:
    machine = Machine(misses=2)
    assert measured(machine, Effort(2, 0, 0.01)).repeated == 2
    with pytest.raises(UnusableRun):
        measured(Machine(misses=3), Effort(2, 0, 0.01))


def test_what_is_announced_comes_before_its_round() -> None:
    machine = Machine()
    measure(
        machine,
        TRACERS,
        Effort(2, 0, 0.01),
        Random(1),
        clock=machine.clock,
        between=lambda number: machine.log.append(str(number)),
    )
    assert [word for word in machine.log if word in ("1", "2", "round")] == ["1", "round", "2", "round"]


def test_a_pair_is_of_one_quantity_and_both_sides() -> None:
    visit = Visit({COST: 10, "rate": 5}, {COST: 30, "rate": 2}, {COST: 20, "rate": 7})
    assert visit.pair(COST) == Pair(15, 30)
    assert visit.pair("rate") == Pair(6, 2)
    assert Measured({"a": [visit]}).untraced("rate") == [5, 7]
