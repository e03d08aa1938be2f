# SPDX-License-Identifier: Apache-2.0
"""The sites of handshakes in images whose stack finds sites by its own rules, as Go's are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssllatency.code.flow import Code, Unplannable
from ssllatency.code.machine import Emulation, Machine
from ssllatency.elf.image import ElfError, Image
from ssllatency.errors import phrase
from ssllatency.probes.evidence import CodeEvidence
from ssllatency.probes.plan import HandshakeSites, PhaseCall, Probe, Role
from ssllatency.stacks.base import FunctionSites, PhaseSites, SitePlanner, Stack
from ssllatency.stacks.phases import MissingPart, Phase, Runtime, Transport


def plan_own_phases(image: Image, machine: Machine, stack: Stack, planner: SitePlanner, emulation: Emulation) -> HandshakeSites:
    """The sites of handshakes in one file, all of whose handshakes are calls of functions that are watched."""
    code, evidence = Code(image, machine), CodeEvidence(image)
    calls: list[PhaseCall] = []
    try:
        phases, missing = planner.phases()
    except ElfError as reason:
        phases, missing = (), (MissingPart("phases", phrase(reason)),)
    unseen = list(missing)
    for sites in phases:
        try:
            call = _phase_call(image, code, sites, emulation)
            evidence.add((call.begin, *call.ends), (sites.start, sites.end))
        except (Unplannable, ElfError) as reason:
            unseen.append(MissingPart(sites.name, phrase(reason)))
            continue
        calls.append(call)

    def returns(what: str, find: Callable[[], Sequence[FunctionSites]]) -> tuple[Probe, ...]:
        try:
            return tuple(probe for sites in find() for probe in _returns(image, code, evidence, sites, emulation))
        except (Unplannable, ElfError) as reason:
            unseen.append(MissingPart(what, phrase(reason)))
            return ()

    return HandshakeSites(
        calls=tuple(call for call in calls if isinstance(call.phase, Phase)),
        transport=tuple(call for call in calls if isinstance(call.phase, Transport)),
        collections=tuple(call for call in calls if isinstance(call.phase, Runtime)),
        chosen=returns("certificates", planner.chooses),
        parameters=returns("parameters of QUIC", planner.parameters),
        labels=stack.labels(image),
        missing=tuple(unseen),
        code=evidence.ranges(),
    )


def _returns(image: Image, code: Code, evidence: CodeEvidence, sites: FunctionSites, emulation: Emulation) -> tuple[Probe, ...]:
    end = sites.address + sites.size
    probes = tuple(_probe_of(image, code, (sites.address, end), address, Role.EXIT, emulation) for address in sites.exits)
    evidence.add(probes, (sites.address, end))
    return probes


def _phase_call(image: Image, code: Code, sites: PhaseSites, emulation: Emulation) -> PhaseCall:
    begin = _probe(image, code, sites, sites.entry, emulation)
    return PhaseCall(
        phase=sites.phase,
        callee=sites.name,
        begin=begin,
        ends=tuple(_probe(image, code, sites, address, emulation) for address in sites.exits),
        operation=sites.operation,
        condition=begin.instruction.partition(" ")[0] if sites.not_taken else "",
    )


def _probe(image: Image, code: Code, sites: PhaseSites, address: int, emulation: Emulation) -> Probe:
    role = Role.ENTRY if address == sites.entry else Role.EXIT
    return _probe_of(image, code, (sites.start, sites.end), address, role, emulation)


def _probe_of(image: Image, code: Code, function: tuple[int, int], address: int, role: Role, emulation: Emulation) -> Probe:
    instruction = code.at(address, function)
    cost = instruction.cost(emulation) if instruction else None
    if instruction is None or cost is None:
        raise Unplannable(f"its instruction at {address:#x} can't be probed")
    return Probe(image.file_offset(address), address, role, instruction.text, cost)
