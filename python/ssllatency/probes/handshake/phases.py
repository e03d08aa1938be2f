# SPDX-License-Identifier: Apache-2.0
"""From an image to the sites of its handshakes: where the phases of a handshake begin and end, and where its errors are raised.
Which calls are phases, and where they are, the image's stack tells.

A phase is watched from the call's site in the library to what follows it there, not from the callee's entry to its exits:
whatever provider, engine or HSM does the work, and in an ASYNC job as well, both lie in the library's own frame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ssllatency.abi import Convention
from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Code, Unplannable
from ssllatency.elf.image import ElfError, Function, Image
from ssllatency.errors import phrase
from ssllatency.probes.catalogue import STATE_MACHINE
from ssllatency.probes.evidence import CodeEvidence
from ssllatency.probes.handshake.error_sites import Entries, check_frame, probe_at
from ssllatency.probes.handshake.own import plan_own_phases
from ssllatency.probes.plan import ErrorSite, HandshakeSites, OperationPlan, PhaseCall, Probe, Role
from ssllatency.probes.planner import machine_of
from ssllatency.probes.settings import DEFAULTS, PlanSettings
from ssllatency.probes.sites.brackets import Begin, begin_site, end_site
from ssllatency.probes.sites.operation import Planner
from ssllatency.probes.sites.queries import passes_null
from ssllatency.stacks.base import Stack
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.phases import ARGUMENTS, CallSite, ErrorFunction, MissingPart, Phase, Transport
from ssllatency.stacks.registry import LIBRARIES, called, has_lower, libraries_in, stack_of

_UNTOLD = "the functions that were found without symbols don't show where it lies"


def plan_handshake(image: Image, settings: PlanSettings = DEFAULTS) -> HandshakeSites:
    """The sites of handshakes in one file: what it holds of its stack's libraries."""
    stack = stack_of(image)
    libraries = libraries_in(image)
    own = stack.site_planner(image, settings.emulation) if called(libraries) else None
    if own:
        return plan_own_phases(image, machine_of(image.machine), stack, own, settings.emulation)
    planner = _Planner(image, stack, libraries, settings)
    if called(libraries):
        planner.plan_calls()
        planner.name_untold()
    if has_lower(libraries):
        planner.plan_lower()
    return _confirmed(
        image,
        HandshakeSites(
            calls=tuple(planner.calls),
            transport=tuple(planner.transport),
            state_machine=planner.state_machine,
            within_data=planner.within_data,
            errors=tuple(planner.errors),
            wake=planner.entries.get("wake"),
            signs=planner.entries.get("signs"),
            transcript=planner.entries.get("transcript"),
            adds_parameters=planner.entries.get("parameters"),
            labels=stack.labels(image) if called(libraries) else {},
            missing=tuple(planner.missing),
        ),
    )


def _confirmed(image: Image, plan: HandshakeSites) -> HandshakeSites:
    """The sites with the code that they rest on, without those that the code doesn't confirm."""
    evidence, missing = CodeEvidence(image), list(plan.missing)

    def confirmed(what: str, *probes: Probe) -> bool:
        try:
            evidence.add(probes)
        except (Unplannable, ElfError) as reason:
            missing.append(MissingPart(what, phrase(reason)))
            return False
        return True

    calls = tuple(call for call in plan.calls if confirmed(call.callee, call.begin, *call.ends))
    transport = tuple(call for call in plan.transport if confirmed(call.callee, call.begin, *call.ends))
    machine = plan.state_machine
    if machine and not confirmed(machine.operation, *machine.probes):
        machine = None
    within_data = plan.within_data or (machine is None and plan.state_machine is not None)
    errors = tuple(error for error in plan.errors if confirmed(error.function, error.probe))
    wake = plan.wake if plan.wake and confirmed("offload", plan.wake) else None
    signs = plan.signs if plan.signs and confirmed("signature", plan.signs) else None
    transcript = plan.transcript if plan.transcript and confirmed("transcript", plan.transcript) else None
    added = plan.adds_parameters if plan.adds_parameters and confirmed("QUIC", plan.adds_parameters) else None
    return replace(
        plan,
        calls=calls,
        transport=transport,
        state_machine=machine,
        within_data=within_data,
        errors=errors,
        wake=wake,
        signs=signs,
        transcript=transcript,
        adds_parameters=added,
        missing=tuple(missing),
        code=evidence.ranges(),
    )


def _bare(site: Probe) -> Probe:
    """The site alone. Unplannable where its frame can't be told to the kernel side."""
    check_frame(site)
    return Probe(site.offset, site.address, site.role, site.instruction, site.cost, site.stack_delta)


class _Planner:
    """Gathers the parts of one image's plan."""

    def __init__(self, image: Image, stack: Stack, libraries: Collection[str], settings: PlanSettings) -> None:
        self.calls: list[PhaseCall] = []
        self.transport: list[PhaseCall] = []
        self.state_machine: OperationPlan | None = None
        self.within_data = False
        self.errors: list[ErrorSite] = []
        self.entries: dict[str, Probe] = {}
        """Of functions of which one alone is watched, by its name in HandshakeSites."""
        self.missing: list[MissingPart] = []
        self._image = image
        self._stack = stack
        self._libraries = libraries
        self._settings = replace(settings, return_probes=False)
        self._machine = machine_of(image.machine)
        self._bodies = Bodies(image, self._machine)
        self._entries = Entries(image, self._machine, self._bodies, settings.emulation)

    def _try(self, what: str, plan: Callable[[], None]) -> None:
        try:
            plan()
        except (Unplannable, ElfError) as reason:
            self.missing.append(MissingPart(what, phrase(reason)))

    # The lower library.

    def plan_lower(self) -> None:
        """The entries in the library that raises errors."""
        for what, plan in (("errors", self._plan_raising), ("offload", self._plan_wake)):
            self._try(what, plan)

    def _plan_raising(self) -> None:
        self.errors += [self._entries.of(function) for function in self._stack.error_functions(self._image)]

    def _plan_wake(self) -> None:
        for library in self._libraries:
            if LIBRARIES[library].wakes:
                self.entries["wake"] = self._entries.named(LIBRARIES[library].wakes, 0, 1, 2)

    # The library that applications call.

    def plan_calls(self) -> None:
        """The calls that are phases, the state machine, and what breaks a handshake off."""
        self._try("phases", self._plan_phases)
        self._try("signature", self._plan_signing)
        self._try("transcript", self._plan_transcript)
        self._try("QUIC", self._plan_parameters)
        self._try(STATE_MACHINE.name, self._plan_state_machine)
        self.within_data = not (self.state_machine or self._stack.runs_handshakes_alone(self._image, self._bodies))

    def name_untold(self) -> None:
        """The labels that functions without symbols don't show."""
        known = {part.what for part in self.missing}
        untold = self._stack.untold(self._image) if self._image.unnamed else ()
        self.missing += [MissingPart(name, _UNTOLD) for name in untold if name not in known]

    def _plan_signing(self) -> None:
        function = self._stack.signing_function(self._image)
        if function:
            self.entries["signs"] = self._entries.at(function.address, 0, 4, size=function.size)

    def _plan_transcript(self) -> None:
        function = self._stack.transcript_function(self._image, self._bodies)
        if function:
            self.entries["transcript"] = self._entries.at(function.address, 1, 2, size=function.size)

    def _plan_parameters(self) -> None:
        function = self._stack.parameters_function(self._image)
        if function:
            self.entries["parameters"] = self._entries.at(function.address, 0, size=function.size)

    def _plan_state_machine(self) -> None:
        function = self._stack.state_machine(self._image, self._bodies)
        if function:
            self.state_machine = self._planner(self._settings).plan(STATE_MACHINE, function)

    def _planner(self, settings: PlanSettings) -> Planner:
        code, tails = Code(self._image, self._machine), self._stack.tails(self._image)
        return Planner(self._image, self._machine, code, tails, settings)

    def _plan_functions(self) -> None:
        """Those that are phases as a whole. Where one ends, no value has to be known."""
        planner = self._planner(replace(self._settings, branch_exits=False))
        for phase, function in ((each.phase, each.function) for each in self._stack.phase_functions(self._image)):
            self._try(
                function.name,
                lambda phase=phase, function=function: self.calls.append(self._whole(planner, phase, function)),  # type: ignore[misc]
            )

    def _whole(self, planner: Planner, phase: Phase, function: Function) -> PhaseCall:
        planned = planner.plan(Operation(function.name, "", Convention.NONE), function)
        begin, *ends = (_bare(each) for each in planned.probes)
        return PhaseCall(phase, function.name, begin, tuple(ends))

    def _plan_phases(self) -> None:
        self._plan_functions()
        code = self._stack.handshake_code(self._image, self._machine, self._bodies, self._libraries)

        def plan_fatal() -> None:
            function = code.fatal()
            self.errors += [self._entries.of(function)] if function else []

        self._try("alerts", plan_fatal)
        self.errors += self._own_errors(code.own_errors())
        try:
            wanted = {call.address: call for call in code.calls() if not self._is_size_query(call)}
        finally:
            planned = {call.phase for call in self.calls}
            self.missing += [part for part in code.missing if part.what not in planned]
        for call in self._bracketed(sorted(wanted.values(), key=lambda call: call.address), code.passing()):
            (self.transport if isinstance(call.phase, Transport) else self.calls).append(call)

    def _own_errors(self, calls: Collection[ErrorFunction]) -> list[ErrorSite]:
        """The sites in front of these calls; none unless all can be probed, as then all errors are watched."""
        try:
            return [self._own_error(call) for call in calls]
        except (Unplannable, ElfError):
            return []

    def _own_error(self, call: ErrorFunction) -> ErrorSite:
        assert call.address is not None
        needed = frozenset(self._machine.argument_registers[index] for index in ARGUMENTS[call.kind])
        begin = begin_site(
            self._bodies.graph(self._start(call.address)), call.address, needed, frozenset(), self._settings.emulation
        )
        return ErrorSite(call.kind, call.name, probe_at(self._image, begin.site, Role.ENTRY))

    def _is_size_query(self, call: CallSite) -> bool:
        """Whether the call's code shows that it only asks for a size: a probe there would be hit for nothing."""
        start = self._bodies.function(call.address)
        if call.callee.skip_null is None or start is None:
            return False
        return passes_null(self._bodies.graph(start), call.address, self._machine.argument_registers[call.callee.skip_null])

    # Sites.

    def _bracketed(self, calls: Sequence[CallSite], passing: Collection[int]) -> list[PhaseCall]:
        """Begins first: no end may be where another phase begins."""
        begins: list[tuple[CallSite, Begin]] = []
        bracketed: list[PhaseCall] = []
        for call in calls:
            self._try(call.callee.name, lambda call=call: begins.append((call, self._begin(call, passing))))  # type: ignore[misc]
        taken = {begin.site.address for _, begin in begins}
        for call, begin in begins:
            self._try(
                call.callee.name,
                lambda call=call, begin=begin: bracketed.append(self._phase_call(call, begin, taken)),  # type: ignore[misc]
            )
        return bracketed

    def _register(self, argument: int | None) -> frozenset[str]:
        return frozenset() if argument is None else frozenset((self._machine.argument_registers[argument],))

    def _begin(self, call: CallSite, passing: Collection[int]) -> Begin:
        graph = self._bodies.graph(self._start(call.address))
        needed, wanted = self._register(call.callee.skip_null), self._register(call.callee.size_argument)
        branches = not needed | wanted
        return begin_site(graph, call.address, needed, wanted, self._settings.emulation, branches=branches, passing=passing)

    def _start(self, address: int) -> int:
        start = self._bodies.function(address)
        if start is None:
            raise Unplannable(f"the unwind tables know no function at {address:#x}")
        return start

    def _phase_call(self, call: CallSite, begin: Begin, taken: set[int]) -> PhaseCall:
        end = end_site(self._bodies.graph(self._start(call.address)), call.address, taken, self._settings.emulation)
        callee = call.callee
        return PhaseCall(
            phase=callee.phase,
            callee=callee.name,
            begin=probe_at(self._image, begin.site, Role.ENTRY),
            ends=(probe_at(self._image, end, Role.EXIT),),
            skip_null=callee.skip_null,
            operation=callee.operation,
            size_argument=None if begin.lost else callee.size_argument,
            size_is_pointer=callee.size_is_pointer and not begin.lost,
            condition=begin.condition,
            taken=begin.taken,
        )
