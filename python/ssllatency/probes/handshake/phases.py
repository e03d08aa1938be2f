# SPDX-License-Identifier: Apache-2.0
"""From an image to its handshake plan: the calls inside libssl that a handshake's phases are, and where its errors are raised.

A phase is watched from the call's site in libssl to what follows it there, not from the callee's entry to its exits: whatever
provider, engine or HSM does the work, and in an ASYNC job as well, both lie in libssl's own frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_of, calls_to
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import BASELINE, Emulation, Flow
from ssllatency.elf.image import ElfError, Image
from ssllatency.probes.catalogue import STATE_MACHINE
from ssllatency.probes.evidence import Evidence
from ssllatency.probes.handshake import phase_calls
from ssllatency.probes.handshake.error_sites import Entries, probe_at
from ssllatency.probes.handshake.plan import (
    CACHE,
    OPENS_TICKET,
    TICKET,
    ErrorKind,
    ErrorSite,
    HandshakePlan,
    MissingPart,
    PhaseCall,
)
from ssllatency.probes.handshake.pointer_calls import calls_in, calls_through
from ssllatency.probes.handshake.record_calls import record_calls
from ssllatency.probes.handshake.state_machine import plan_state_machine
from ssllatency.probes.plan import OperationPlan, Probe, Role
from ssllatency.probes.planner import kind_of, libraries_in, machine_of
from ssllatency.probes.sites.brackets import Begin, begin_site, end_site
from ssllatency.probes.sites.queries import passes_null
from ssllatency.stacks.base import Stack
from ssllatency.stacks.openssl import hidden
from ssllatency.stacks.openssl.callbacks import TICKET_KEY, CallbackPath, callback_paths
from ssllatency.stacks.openssl.hidden import Hidden
from ssllatency.stacks.openssl.libssl_code import LibsslCode, static_code
from ssllatency.stacks.openssl.tables.methods import ssl_methods
from ssllatency.stacks.phases import Callee, Phase, Transport
from ssllatency.stacks.registry import called, stack_of

_OF_TICKETS = ("EVP_EncryptFinal", "EVP_DecryptFinal")
_TAKES_A_REFERENCE = "SSL_SESSION_up_ref"  # libssl calls it for the callback that follows, and nothing else does it do
_NOT_FOUND = {
    Phase.PRIVATE_KEY: "libssl calls no function that is known to use a private key",
    Phase.KEY_EXCHANGE: "libssl calls no function that is known to make or combine a key exchange's keys",
    Phase.PEER_VERIFICATION: "libssl calls no function that is known to check the peer's certificate or signature",
}


def plan_handshake(image: Image, *, emulation: Emulation = BASELINE) -> HandshakePlan:
    """The handshake plan of one file: what it holds of libssl and of libcrypto. `emulation`: what the kernel emulates."""
    stack = stack_of(image)
    planner = _Planner(image, stack, emulation)
    libraries = libraries_in(image)
    if "libssl" in libraries:
        planner.plan_libssl()
    if "libcrypto" in libraries:
        planner.plan_libcrypto()
    return _confirmed(
        image,
        HandshakePlan(
            path=image.label,
            build_id=image.build_id,
            kind=kind_of(image),
            calls=tuple(planner.calls),
            transport=tuple(planner.transport),
            state_machine=planner.state_machine,
            within_data=planner.within_data,
            errors=tuple(planner.errors),
            wake=planner.wake,
            labels=stack.labels(image) if called(libraries) else {},
            missing=tuple(planner.missing),
        ),
    )


def _confirmed(image: Image, plan: HandshakePlan) -> HandshakePlan:
    """The plan with the code that its sites rest on, without sites that the code doesn't confirm."""
    evidence, missing = Evidence(image), list(plan.missing)

    def confirmed(what: str, *probes: Probe) -> bool:
        try:
            evidence.add(probes)
        except (Unplannable, ElfError) as reason:
            missing.append(MissingPart(what, str(reason).rstrip(".")))
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
    return replace(
        plan,
        calls=calls,
        transport=transport,
        state_machine=machine,
        within_data=within_data,
        errors=errors,
        wake=wake,
        missing=tuple(missing),
        code=evidence.ranges(),
    )


@dataclass(frozen=True)
class _Call:
    """A call site and what it is of."""

    callee: Callee
    site: int


class _Planner:
    """Gathers the parts of one image's plan."""

    def __init__(self, image: Image, stack: Stack, emulation: Emulation) -> None:
        self.calls: list[PhaseCall] = []
        self.transport: list[PhaseCall] = []
        self.state_machine: OperationPlan | None = None
        self.within_data = False
        self.errors: list[ErrorSite] = []
        self.wake: Probe | None = None
        self.missing: list[MissingPart] = []
        self._image = image
        self._stack = stack
        self._emulation = emulation
        self._machine = machine_of(image.machine)
        self._bodies = Bodies(image, self._machine)
        self._entries = Entries(image, self._machine, self._bodies, emulation)

    # libcrypto.

    def plan_libcrypto(self) -> None:
        """The entries in libcrypto."""
        for what, plan in (("errors", self._plan_raising), ("offload", self._plan_wake)):
            self._try(what, plan)

    def _plan_raising(self) -> None:
        self.errors += self._entries.raising()

    def _plan_wake(self) -> None:
        self.wake = self._entries.wake()

    def _try(self, what: str, plan: Callable[[], None]) -> None:
        try:
            plan()
        except (Unplannable, ElfError) as reason:
            self.missing.append(MissingPart(what, str(reason).rstrip(".")))

    # libssl.

    def plan_libssl(self) -> None:
        """The calls that are phases, the state machine, and what breaks a handshake off."""
        self._try("phases", self._plan_phases)
        if self._stack.has_state_machine:
            self._try(STATE_MACHINE.name, self._plan_state_machine)
        self.within_data = not (self.state_machine or self._stack.runs_handshakes_alone(self._image, self._bodies))

    def _plan_state_machine(self) -> None:
        self.state_machine = plan_state_machine(self._image, self._machine, self._bodies, self._emulation, self._methods)

    def _plan_phases(self) -> None:
        code = self._code
        self._try("alerts", self._plan_fatal)
        wanted = [*self._library_calls(), *self._lookups(), *self._callbacks(code), *self._transport()]
        for call in self._bracketed(sorted({call.site: call for call in wanted}.values(), key=lambda call: call.site)):
            (self.transport if isinstance(call.phase, Transport) else self.calls).append(call)

    @cached_property
    def _methods(self) -> dict[str, dict[int, int]]:
        return ssl_methods(self._image)

    @cached_property
    def _code(self) -> LibsslCode:
        if kind_of(self._image) != "static":
            return LibsslCode()
        functions = (self._image.function(callee.name) for callee in self._stack.callees)
        return static_code(self._image, self._bodies, [function.address for function in functions if function])

    @cached_property
    def _sites(self) -> dict[str, list[int]]:
        names = phase_calls.names_of((*self._stack.callees, *self._stack.transport))
        names |= hidden.NAMES | {_TAKES_A_REFERENCE, OPENS_TICKET, *_OF_TICKETS}
        sites_by_name = calls_of(self._image, names, self._code.within)
        return {name: [site for site in sites if self._inside(site)] for name, sites in sites_by_name.items()}

    def _inside(self, site: int) -> bool:
        start = self._bodies.function(site)
        return start is not None and self._code.holds(start)

    @cached_property
    def _hidden(self) -> Hidden:
        return Hidden(self._image, self._bodies, self._code, self._sites)

    def _plan_fatal(self) -> None:
        probe = self._entries.at(self._hidden.ossl_statem_fatal(), 0, 1)
        self.errors.append(ErrorSite(ErrorKind.FATAL, "ossl_statem_fatal", probe))

    def _library_calls(self) -> Iterator[_Call]:
        phases = set()
        for callee in self._stack.callees:
            for site in phase_calls.calls(callee, self._sites, self._bodies):
                phases.add(callee.phase)
                if not self._is_size_query(callee, site):
                    yield _Call(callee, site)
        self.missing += [MissingPart(phase, reason) for phase, reason in _NOT_FOUND.items() if phase not in phases]

    def _is_size_query(self, callee: Callee, site: int) -> bool:
        """Whether the call's code shows that it only asks for a size: a probe there would be hit for nothing."""
        start = self._bodies.function(site)
        if callee.skip_null is None or start is None:
            return False
        return passes_null(self._bodies.graph(start), site, self._machine.argument_registers[callee.skip_null])

    def _transport(self) -> Iterator[_Call]:
        """The reads and writes of handshakes alone; where these can't be told, all of libssl's."""
        try:
            calls = record_calls(self._image, self._machine, self._bodies, self._code, self._methods)
        except (Unplannable, ElfError):
            calls = {callee: phase_calls.calls(callee, self._sites, self._bodies) for callee in self._stack.transport}
        for callee, sites in calls.items():
            if not sites:
                self.missing.append(MissingPart(callee.phase, f"libssl doesn't call {callee.name}"))
            yield from (_Call(callee, site) for site in sites if not self._is_last(site))

    def _is_last(self, site: int) -> bool:
        """Whether the call is its function's last step, as in those that print: nothing follows it there."""
        caller = self._bodies.function(site)
        return caller is not None and self._ends_in(caller, site)

    def _lookups(self) -> Iterator[_Call]:
        for name, find in (
            (TICKET, self._hidden.tls_decrypt_ticket),
            (CACHE, self._hidden.lookup_sess_in_cache),
        ):
            try:
                start = find()
                if name == TICKET:
                    yield _Call(Callee(Phase.SESSION_LOOKUP, OPENS_TICKET), self._opens_ticket(start))
            except (Unplannable, ElfError) as reason:
                self.missing.append(MissingPart(name, str(reason)))
                continue
            sites = self._calls_to(start)
            if not sites:
                self.missing.append(MissingPart(name, "nothing calls it"))
            yield from (_Call(Callee(Phase.SESSION_LOOKUP, name), site) for site in sites)

    def _opens_ticket(self, start: int) -> int:
        """The call that the function at `start` makes only where the client sent a ticket that is long enough to be one."""
        sites = [site for site in self._sites[OPENS_TICKET] if self._bodies.function(site) == start]
        if len(sites) != 1:
            raise Unplannable(f"it has {len(sites) or 'no'} calls of {OPENS_TICKET}, where one is expected")
        return sites[0]

    def _calls_to(self, start: int, depth: int = 2) -> list[int]:
        """The calls of the function that begins at `start`, and of those that end in it by a tail call."""
        calling = []
        for site in calls_to(self._image, {start}, self._code.within)[start]:
            caller = self._bodies.function(site)
            if caller is None or not self._code.holds(caller):
                continue
            if depth and self._ends_in(caller, site):
                calling += self._calls_to(caller, depth - 1)
            else:
                calling.append(site)
        return calling

    def _ends_in(self, caller: int, site: int) -> bool:
        """Whether the instruction at `site` leaves its function by a jump."""
        try:
            instruction = self._bodies.graph(caller).nodes.get(site)
        except Unplannable:
            return False
        return instruction is not None and instruction.flow is Flow.JUMP

    def _callbacks(self, code: LibsslCode) -> Iterator[_Call]:
        for name, path in callback_paths(self._image).items():
            if isinstance(path, str):
                self.missing.append(MissingPart(name, path))
                continue
            sites = self._calls_through(name, path, code)
            if not sites:
                self.missing.append(MissingPart(name, "no call of it is found"))
            yield from (_Call(Callee(Phase.CALLBACKS, name), site) for site in sites)

    def _calls_through(self, name: str, path: CallbackPath, code: LibsslCode) -> list[int]:
        """Those of the callback for a ticket's keys are where tickets are made and opened."""
        if name != TICKET_KEY:
            return calls_through(self._image, self._machine, self._bodies, (path[0], path[1]), code)
        starts = self._bodies.functions(site for callee in _OF_TICKETS for site in self._sites[callee])
        return calls_in(self._bodies, sorted(starts), path)

    # Sites.

    def _bracketed(self, calls: Sequence[_Call]) -> list[PhaseCall]:
        """Begins first: no end may be where another phase begins."""
        begins: list[tuple[_Call, Begin]] = []
        bracketed: list[PhaseCall] = []
        for call in calls:
            self._try(call.callee.name, lambda call=call: begins.append((call, self._begin(call))))  # type: ignore[misc]
        taken = {begin.site.address for _, begin in begins}
        for call, begin in begins:
            self._try(
                call.callee.name,
                lambda call=call, begin=begin: bracketed.append(self._phase_call(call, begin, taken)),  # type: ignore[misc]
            )
        return bracketed

    def _register(self, argument: int | None) -> frozenset[str]:
        return frozenset() if argument is None else frozenset((self._machine.argument_registers[argument],))

    def _begin(self, call: _Call) -> Begin:
        graph = self._bodies.graph(self._start(call))
        needed, wanted = self._register(call.callee.skip_null), self._register(call.callee.size_argument)
        passing = self._sites[_TAKES_A_REFERENCE]
        return begin_site(graph, call.site, needed, wanted, self._emulation, branches=not needed | wanted, passing=passing)

    def _start(self, call: _Call) -> int:
        start = self._bodies.function(call.site)
        if start is None:
            raise Unplannable(f"the unwind tables know no function at {call.site:#x}")
        return start

    def _phase_call(self, call: _Call, begin: Begin, taken: set[int]) -> PhaseCall:
        end = end_site(self._bodies.graph(self._start(call)), call.site, taken, self._emulation)
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
