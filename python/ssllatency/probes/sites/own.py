# SPDX-License-Identifier: Apache-2.0
"""The plans of operations whose sites their stack finds by its own rules, as Go's are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ssllatency.code.flow import Code, Unplannable
from ssllatency.code.machine import Emulation, Machine
from ssllatency.elf.image import ElfError, Image, Range
from ssllatency.errors import phrase
from ssllatency.probes.evidence import CodeEvidence
from ssllatency.probes.plan import NOT_IN_LIBRARY, Leaving, MissingOperation, OperationPlan, Probe, Role
from ssllatency.stacks.base import FunctionSites, SitePlanner
from ssllatency.stacks.operation import Operation


def plan_own(
    image: Image,
    machine: Machine,
    planner: SitePlanner,
    wanted: Iterable[Operation],
    emulation: Emulation,
    evidence: CodeEvidence,
) -> tuple[list[OperationPlan], list[MissingOperation]]:
    """The plans of these operations, and which are missing. `evidence` gets the code of the sites."""
    code = Code(image, machine)
    operations: list[OperationPlan] = []
    missing: list[MissingOperation] = []
    for operation in wanted:
        try:
            sites = planner.sites(operation)
            if sites is None:
                missing.append(MissingOperation(operation.name, NOT_IN_LIBRARY))
                continue
            probes = tuple(_probes(image, code, sites, emulation))
            own = (sites.address, sites.address + sites.size)
            evidence.add([probe for probe in probes if own[0] <= probe.address < own[1]], own)
            if sites.deferred:
                evidence.add([probes[-1]], (sites.deferred.start, sites.deferred.end))
        except (Unplannable, ElfError) as reason:
            missing.append(MissingOperation(operation.name, phrase(reason)))
            continue
        operations.append(OperationPlan(operation.name, sites.address, sites.size, sites.found, probes))
    return operations, missing


def _probes(image: Image, code: Code, sites: FunctionSites, emulation: Emulation) -> Iterable[Probe]:
    """Return its entry, its exits, and last what its calls end at in another function."""
    for address in (sites.entry, *sites.exits):
        branch = sites.not_taken and address == sites.entry
        probe = _probe(image, code, address, (sites.address, sites.address + sites.size), emulation, branch=branch)
        yield replace(probe, role=Role.ENTRY) if address == sites.entry else replace(probe, return_register=sites.result)
    if sites.deferred:
        callee = sites.deferred
        probe = _probe(image, code, callee.address, (callee.start, callee.end), emulation, branch=callee.not_taken)
        yield replace(probe, stack_delta=callee.depth, result_slots=callee.results)


def _probe(image: Image, code: Code, address: int, own: Range, emulation: Emulation, *, branch: bool) -> Probe:
    """An exit; `branch`: it counts where the branch there isn't taken."""
    instruction = code.at(address, own)
    cost = instruction.cost(emulation) if instruction else None
    if instruction is None or cost is None:
        raise Unplannable(f"its instruction at {address:#x} can't be probed")
    return Probe(
        offset=image.file_offset(address),
        address=address,
        role=Role.EXIT,
        instruction=instruction.text,
        cost=cost,
        condition=instruction.text.partition(" ")[0] if branch else "",
        leaving=Leaving.OTHER if branch else Leaving.BOTH,
    )
