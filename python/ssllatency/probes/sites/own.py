# SPDX-License-Identifier: Apache-2.0
"""The plans of operations whose sites their stack finds by its own rules, as Go's are."""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency.code.flow import Code, Unplannable
from ssllatency.code.machine import Emulation, Machine
from ssllatency.elf.image import ElfError, Image
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
            evidence.add(probes, (sites.address, sites.address + sites.size))
        except (Unplannable, ElfError) as reason:
            missing.append(MissingOperation(operation.name, phrase(reason)))
            continue
        operations.append(OperationPlan(operation.name, sites.address, sites.size, sites.found, probes))
    return operations, missing


def _probes(image: Image, code: Code, sites: FunctionSites, emulation: Emulation) -> Iterable[Probe]:
    for address in (sites.entry, *sites.exits):
        instruction = code.at(address, (sites.address, sites.address + sites.size))
        cost = instruction.cost(emulation) if instruction else None
        if instruction is None or cost is None:
            raise Unplannable(f"its instruction at {address:#x} can't be probed")
        branch = sites.not_taken and address == sites.entry
        yield Probe(
            offset=image.file_offset(address),
            address=address,
            role=Role.ENTRY if address == sites.entry else Role.EXIT,
            instruction=instruction.text,
            cost=cost,
            return_register="" if address == sites.entry else sites.result,
            condition=instruction.text.partition(" ")[0] if branch else "",
            leaving=Leaving.OTHER if branch else Leaving.BOTH,
        )
