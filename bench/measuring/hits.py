# SPDX-License-Identifier: Apache-2.0
"""What the kernel takes for a hit of a probe on this machine, measured between the rounds, in nanoseconds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import TypeVar

from ssllatency.probes.costs import HitCosts
from ssllatency.tracing import hit_costs

_Result = TypeVar("_Result")


class Hits:
    """The measurements of a hit beside those of one work, in `costs`."""

    def __init__(self) -> None:
        self.costs: list[HitCosts] = []

    def measure(self) -> None:
        """One more, unless the machine is too busy for one."""
        hit_costs.of_this_machine.cache_clear()
        costs = hit_costs.of_this_machine(keep=False)
        if costs:
            self.costs.append(costs)

    @property
    def median(self) -> HitCosts | None:
        """Of each kind; None where nothing was measured."""
        return median_costs(self.costs)


def median_costs(costs: Sequence[HitCosts]) -> HitCosts | None:
    """The median of each kind; None of nothing."""
    if not costs:
        return None
    return HitCosts(**{kind.name: round(median(getattr(cost, kind.name) for cost in costs)) for kind in fields(HitCosts)})


def sentence(costs: HitCosts | None) -> str:
    """What a hit cost meanwhile."""
    if costs is None:
        return "What a hit of a probe costs could not be measured meanwhile."
    return (
        f"A hit of an empty program meanwhile: {costs.emulated:,} ns at an instruction that the kernel emulates, "
        f"{costs.single_stepped:,} ns at one that it single-steps,\n{costs.optimised:,} ns at a 5-byte nop; a return probe "
        f"{costs.returning:,} ns more than its entry; {costs.after_work:,} ns more after other work (medians)."
    )


def with_costs(measure: Callable[[Path], _Result]) -> tuple[_Result, str]:
    """What is measured in a folder of its own, and the sentence about what a hit cost before and after that."""
    paid = Hits()
    paid.measure()
    with tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as directory:
        result = measure(Path(directory))
    paid.measure()
    return result, sentence(paid.median)
