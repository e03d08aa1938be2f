# SPDX-License-Identifier: Apache-2.0
"""The plan of one operation: its control flow, the cheapest correct sites, and the check of them.

A return probe kills the process when the function is entered or left on a stack other than the thread's own: always possible
below the SSL_* functions (OpenSSL's ASYNC jobs), and above them in a program that runs its connections on fibers. So it is
never taken below them, and for the SSL_* functions only where a way out can't be covered, or on request where it is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssllatency.code.flow import Code, Graph, Unplannable, build
from ssllatency.code.machine import Cost, Machine
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Function, Image
from ssllatency.probes.costs import COST_NS, RETURN_PROBE_NS, cost_ns, failing_ns
from ssllatency.probes.plan import OperationPlan, Probe, Role
from ssllatency.probes.settings import PlanSettings
from ssllatency.probes.sites.branches import settled
from ssllatency.probes.sites.entry import Site, entry_site, keeps, return_probe_site
from ssllatency.probes.sites.exits import Chooser
from ssllatency.probes.sites.queries import without_size_queries
from ssllatency.probes.sites.verify import problem
from ssllatency.probes.sites.ways import Ways, probe
from ssllatency.stacks.base import Tails
from ssllatency.stacks.operation import Operation, ReturnValue

_MOST_BRANCHES = 32  # sites that are left in one direction only; more of them are not worth it


@dataclass(frozen=True)
class Planner:
    """Plans operations of one image."""

    image: Image
    machine: Machine
    code: Code
    tails: Tails
    settings: PlanSettings

    def plan(self, operation: Operation, function: Function, twin: Function | None = None) -> OperationPlan:
        """The probes of `operation`, which is `function`; `twin` is its twin, if any. Unplannable with the reason where it
        can't be probed."""
        graph = self._graph(function)
        needed = self._needed(operation)
        if operation.only_entry:
            return self._with_entry_alone(graph, needed, operation, function)
        if twin and self.share_calls(function, twin):
            return self._with_twin(needed, operation, function, twin)
        returning = self.settings.return_probes and not operation.async_job
        try:
            planned = self._with_exits(graph, needed, operation, function)
        except Unplannable:
            if not returning:
                raise
            return self._with_return_probe(graph, needed, operation, function)
        if returning and self.settings.prefer_return_probes and self._return_probe_ns(graph, needed) < cost_ns(planned):
            return self._with_return_probe(graph, needed, operation, function)
        return planned

    def _graph(self, function: Function) -> Graph:
        return build(self.code, function.address, function.size, self.tails.targets)

    def share_calls(self, function: Function, twin: Function) -> bool:
        """Whether a call of either function may go on in the other one by a tail call."""
        try:
            return twin.address in self._graph(function).nodes and function.address in self._graph(twin).nodes
        except Unplannable:
            return False

    def _with_twin(self, needed: frozenset[str], operation: Operation, function: Function, twin: Function) -> OperationPlan:
        """A call that begins in either function crosses one entry site or more, always with the stack that it began with, and
        is left by an exit site of both. A return probe would take each crossing for a call."""
        graph, other = (replace(self._graph(each), comes_back=True) for each in (function, twin))
        entry, more = (entry_site(each, needed, self.settings.emulation) for each in (graph, other))
        exits = self._chooser(graph, operation.return_value, branches=False).sites(entry.address)
        wrong = problem(graph, entry, exits, self.machine.result_register, twins=(more,)) or problem(
            other, more, exits, self.machine.result_register, twins=(entry,)
        )
        if wrong:
            raise Unplannable(wrong)
        entries = (probe(self.image, graph, entry, Role.ENTRY), probe(self.image, other, more, Role.ENTRY))
        ways = Ways(self.image, graph, exits, operation.return_value).probes()
        return _plan(operation, function, graph, (*(replace(entry, shared=True) for entry in entries), *ways))

    def _with_entry_alone(
        self, graph: Graph, needed: frozenset[str], operation: Operation, function: Function
    ) -> OperationPlan:
        entry = entry_site(graph, needed, self.settings.emulation)
        return _plan(operation, function, graph, (probe(self.image, graph, entry, Role.ENTRY),))

    def _needed(self, operation: Operation) -> frozenset[str]:
        arguments = {0} if operation.ssl_argument else set()
        if operation.skip_null is not None:
            arguments.add(operation.skip_null)
        return frozenset(self.machine.argument_registers[index] for index in arguments)

    def _with_exits(self, graph: Graph, needed: frozenset[str], operation: Operation, function: Function) -> OperationPlan:
        """The cheapest of the plans with exit sites."""
        entry = entry_site(graph, needed, self.settings.emulation)
        counted = self._counted(graph, operation)
        first = self._first(graph, entry, Role.ENTRY, operation)
        plans = [
            _plan(operation, function, graph, (first, *Ways(self.image, counted, exits, operation.return_value).probes()))
            for exits in self._exit_choices(counted, entry, operation.return_value)
        ]
        return min(plans, key=lambda plan: (cost_ns(plan), failing_ns(plan), _dear(plan), len(plan.probes)))

    def _exit_choices(self, graph: Graph, entry: Site, meaning: ReturnValue) -> list[list[Site]]:
        """The sets of exit sites that may be the cheapest, of which the check approves: with branches that tell the value, and
        without them; only where there is neither, the `ret`s themselves. Unplannable with what is wrong with these."""
        choices = []
        if self.settings.branch_exits:
            exits = self._chooser(graph, meaning, branches=True).sites(entry.address)
            if not self._problem(graph, entry, exits) and sum(site.ending.goes_on for site in exits) <= _MOST_BRANCHES:
                choices.append(exits)
                if all(settled(site.ending, branches=False) for site in exits):
                    return choices  # without branches it would be no cheaper
        chooser = self._chooser(graph, meaning, branches=False)
        exits = chooser.sites(entry.address)
        if not self._problem(graph, entry, exits):
            choices.append(exits)
        if choices:
            return choices
        returns = chooser.sites(entry.address, only_returns=True)
        wrong = self._problem(graph, entry, returns)
        if wrong:
            raise Unplannable(wrong)
        return [returns]

    def _chooser(self, graph: Graph, meaning: ReturnValue, *, branches: bool) -> Chooser:
        return Chooser(graph, self.settings.emulation, self.machine.result_register, meaning, branches)

    def _problem(self, graph: Graph, entry: Site, exits: Sequence[Site]) -> str:
        return problem(graph, entry, exits, self.machine.result_register)

    def _counted(self, graph: Graph, operation: Operation) -> Graph:
        """Without the ways that only calls take that aren't counted."""
        if operation.skip_null is None:
            return graph
        return without_size_queries(graph, self.machine, self.machine.argument_registers[operation.skip_null])

    def _return_probe_ns(self, graph: Graph, needed: frozenset[str]) -> int:
        return COST_NS[return_probe_site(graph, needed, self.settings.emulation).cost] + RETURN_PROBE_NS

    def _with_return_probe(
        self, graph: Graph, needed: frozenset[str], operation: Operation, function: Function
    ) -> OperationPlan:
        site = return_probe_site(graph, needed, self.settings.emulation)
        wrong = self._problem(graph, site, ())
        if wrong:
            raise Unplannable(wrong)
        return _plan(operation, function, graph, (self._first(graph, site, Role.RETURN, operation),))

    def _first(self, graph: Graph, site: Site, role: Role, operation: Operation) -> Probe:
        planned = probe(self.image, graph, site, role)
        if operation.length_argument is None:
            return planned
        return replace(planned, keeps_length=keeps(graph, site, self.machine.argument_registers[operation.length_argument]))


def _dear(plan: OperationPlan) -> int:
    return sum(probe.cost is Cost.SINGLE_STEPPED for probe in plan.probes)


def _plan(operation: Operation, function: Function, graph: Graph, probes: tuple[Probe, ...]) -> OperationPlan:
    size = function.size or graph.own[1] - function.address
    return OperationPlan(operation.name, function.address, size, function.found, probes, function.debug_file)
