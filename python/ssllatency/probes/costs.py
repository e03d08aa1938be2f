# SPDX-License-Identifier: Apache-2.0
"""The cost of probes, in nanoseconds a hit, before the program's own work.

Sites are chosen by REFERENCE, so that a plan doesn't depend on the machine that made it: measured on an x86-64 virtual machine
with Linux 6.18 and an empty BPF program. A trap that the kernel emulates took 490 to 530 ns there, one that it single-steps
5,000 ns (on bare metal about three times the first, not ten times), a 5-byte nop that it turned into a call 240 ns; a return
probe 300 ns more than its entry. That was of hits one after the other; after other work each takes 140 ns more. What this
machine takes is measured by engines/hit_cost.py.
"""

from __future__ import annotations

from dataclasses import replace

from ssllatency.code.machine import Cost
from ssllatency.data_class import dataclass
from ssllatency.probes.plan import OperationPlan, Probe, Role

WORK_NS = 2_000.0  # other work between two hits: after less, the second one finds some of its way in the nearest caches


@dataclass(frozen=True)
class HitCosts:
    """Nanoseconds of processor time that a hit takes, by kind of site, where one comes right after the other; `returning`: how
    much more a return probe takes than its entry; `after_work`: how much more a hit takes after other work, as then the
    kernel's way to the program isn't in the nearest caches."""

    optimised: int
    emulated: int
    single_stepped: int
    returning: int
    after_work: int

    def amid(self, work_ns: float) -> HitCosts:
        """The time of hits between which processes work for so long on average."""
        more = round(self.after_work * min(1.0, work_ns / WORK_NS))
        return replace(
            self,
            optimised=self.optimised + more,
            emulated=self.emulated + more,
            single_stepped=self.single_stepped + more,
        )

    def of(self, cost: Cost) -> int:
        """Return the cost of a kind of site."""
        return {Cost.OPTIMISED: self.optimised, Cost.EMULATED: self.emulated, Cost.SINGLE_STEPPED: self.single_stepped}[cost]


REFERENCE = HitCosts(240, 500, 5000, 300, 140)
COST_NS = {cost: REFERENCE.of(cost) for cost in Cost}
RETURN_PROBE_NS = REFERENCE.returning


def cost_ns(plan: OperationPlan, costs: HitCosts = REFERENCE) -> int:
    """The time that the probes add at most to one call that succeeds: the entry, the dearest way out, and the sites on that way
    that are passed without leaving."""
    exits = [probe for probe in plan.probes if probe.role is Role.EXIT]
    return _at_most(plan, [probe for probe in exits if not probe.fails] or exits, costs)


def failing_ns(plan: OperationPlan, costs: HitCosts = REFERENCE) -> int:
    """The time that the probes add at most to any call: those that fail may leave by dearer ways."""
    return _at_most(plan, [probe for probe in plan.probes if probe.role is Role.EXIT], costs)


def _at_most(plan: OperationPlan, exits: list[Probe], costs: HitCosts) -> int:
    entry = sum(costs.of(probe.cost) for probe in plan.probes if probe.role is not Role.EXIT)
    leaving = (costs.of(probe.cost) + probe.passed * costs.emulated for probe in exits)
    returns = sum(costs.returning for probe in plan.probes if probe.role is Role.RETURN)
    return entry + max(leaving, default=0) + returns
