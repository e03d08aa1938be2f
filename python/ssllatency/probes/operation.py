# SPDX-License-Identifier: Apache-2.0
"""The plan of one operation: its control flow, the cheapest correct sites, and the check of them.

A call costs its entry site, and the dearest of its exit sites or the return probe. A return probe kills the process when the
function is entered or left on a stack other than the thread's own: always possible below the SSL_* functions (OpenSSL's ASYNC
jobs), and above them in a program that runs its connections on fibers. So it is never taken there, and for the SSL_* functions
only where a way out can't be covered, or on request where it is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssllatency.abi import Convention
from ssllatency.elf.image import Function, Image
from ssllatency.probes.catalogue import Operation
from ssllatency.probes.costs import COST_NS, RETURN_PROBE_NS
from ssllatency.probes.entry import Site, entry_site, keeps, return_probe_site
from ssllatency.probes.exits import exit_sites
from ssllatency.probes.flow import Code, Graph, Unplannable, build
from ssllatency.probes.machine import Emulation, Machine
from ssllatency.probes.plan import OperationPlan, Probe, Role
from ssllatency.probes.tails import Tails
from ssllatency.probes.verify import problem


@dataclass(frozen=True)
class Planner:
    """Plans operations of one image. `return_probes`: whether return probes may be used at all; `prefer_return_probes`: also
    where they are only cheaper."""

    image: Image
    machine: Machine
    code: Code
    tails: Tails
    emulation: Emulation
    return_probes: bool
    prefer_return_probes: bool = False

    def plan(self, operation: Operation, function: Function) -> OperationPlan:
        """The probes of `operation`, which is `function`. Unplannable with the reason where it can't be probed."""
        graph = build(self.code, function.address, function.size, self.tails.targets)
        needed = self._needed(operation)
        if operation.only_entry:
            return self._with_entry_alone(graph, needed, operation, function)
        returning = self.return_probes and not operation.async_job
        try:
            entry, exits = self._entry_and_exits(graph, needed, operation)
        except Unplannable:
            if not returning:
                raise
            return self._with_return_probe(graph, needed, operation, function)
        if returning and self.prefer_return_probes and self._return_probe_is_cheaper(graph, needed, entry, exits):
            return self._with_return_probe(graph, needed, operation, function)
        first = self._with_length(self._probe(graph, entry, Role.ENTRY), graph, entry, operation)
        probes = (first, *(self._probe(graph, site, Role.EXIT) for site in exits))
        return _plan(operation, function, graph, probes)

    def _with_entry_alone(
        self, graph: Graph, needed: frozenset[str], operation: Operation, function: Function
    ) -> OperationPlan:
        entry = entry_site(graph, needed, self.emulation)
        return _plan(operation, function, graph, (self._probe(graph, entry, Role.ENTRY),))

    def _needed(self, operation: Operation) -> frozenset[str]:
        arguments = {0} if operation.ssl_argument else set()
        if operation.skip_null is not None:
            arguments.add(operation.skip_null)
        return frozenset(self.machine.argument_registers[index] for index in arguments)

    def _entry_and_exits(self, graph: Graph, needed: frozenset[str], operation: Operation) -> tuple[Site, list[Site]]:
        """Entry and exit sites that the check approves of: the cheapest, else the `ret`s themselves."""
        entry = entry_site(graph, needed, self.emulation)
        result = self.machine.result_register
        wide = operation.convention is Convention.POINTER
        wrong = ""
        for only_returns in (False, True):
            exits = exit_sites(graph, result, entry.address, self.emulation, wide=wide, only_returns=only_returns)
            wrong = problem(graph, entry, exits, result)
            if not wrong:
                return entry, exits
        raise Unplannable(wrong)

    def _return_probe_is_cheaper(self, graph: Graph, needed: frozenset[str], entry: Site, exits: Sequence[Site]) -> bool:
        site = return_probe_site(graph, needed, self.emulation)
        return COST_NS[site.cost] + RETURN_PROBE_NS < COST_NS[entry.cost] + max(COST_NS[each.cost] for each in exits)

    def _with_return_probe(
        self, graph: Graph, needed: frozenset[str], operation: Operation, function: Function
    ) -> OperationPlan:
        site = return_probe_site(graph, needed, self.emulation)
        wrong = problem(graph, site, (), self.machine.result_register)
        if wrong:
            raise Unplannable(wrong)
        first = self._with_length(self._probe(graph, site, Role.RETURN), graph, site, operation)
        return _plan(operation, function, graph, (first,))

    def _with_length(self, probe: Probe, graph: Graph, site: Site, operation: Operation) -> Probe:
        if operation.length_argument is None:
            return probe
        return replace(probe, keeps_length=keeps(graph, site, self.machine.argument_registers[operation.length_argument]))

    def _probe(self, graph: Graph, site: Site, role: Role) -> Probe:
        return Probe(
            offset=self.image.file_offset(site.address),
            address=site.address,
            role=role,
            instruction=site.instruction.text,
            cost=site.cost,
            stack_delta=site.stack_delta,
            return_register=site.register,
            shared=role is Role.EXIT and graph.functions[site.address] in graph.shared,
        )


def _plan(operation: Operation, function: Function, graph: Graph, probes: tuple[Probe, ...]) -> OperationPlan:
    size = function.size or graph.own[1] - function.address
    return OperationPlan(operation.name, function.address, size, function.found, probes)
