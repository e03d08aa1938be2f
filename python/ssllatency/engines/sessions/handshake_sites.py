# SPDX-License-Identifier: Apache-2.0
"""From the sites of handshakes to the kernel's records: the calls watched, the sites of phases and errors, where labels lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

from ssllatency import abi
from ssllatency.data_class import dataclass
from ssllatency.engines.attach.images import is_go
from ssllatency.engines.attach.program_choice import PROGRAMS_OF_QUIC
from ssllatency.engines.attach.sites import Sites, argument, certificate_paths, cookie, packed, site
from ssllatency.engines.base import TracedImage
from ssllatency.model.handshakes import Label
from ssllatency.probes.catalogue import BY_NAME, CATALOGUE, STATE_MACHINE
from ssllatency.probes.plan import (
    ErrorSite,
    FilePlan,
    HandshakeSites,
    MissingOperation,
    OperationPlan,
    PhaseCall,
    Probe,
    Role,
    condition_number,
)
from ssllatency.stacks.base import Stack
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.phases import ARGUMENTS, ErrorKind, Offer, Phase, Runtime, Transport
from ssllatency.stacks.registry import KEYS, LIBRARIES, stack_named

_NAMED = frozenset((Label.VERSION, Label.CIPHER, Label.GROUP, Label.SIGNATURE))  # by the library
# The multi-buffer functions by the kernel's numbers: all of them, as a library with them may be mapped later.
BATCH_FUNCTIONS = tuple(operation.name for operation in CATALOGUE if LIBRARIES[operation.library].batches)
_REASON_ARGUMENTS = {kind: arguments[-1] for kind, arguments in ARGUMENTS.items()}


def watched(images: Iterable[TracedImage], among: Sequence[TracedImage]) -> list[TracedImage]:
    """The images with only those operations that a handshake's calls are, and with the code of all sites. `among`: all that are
    traced, as the jobs that one runs may pause in another."""
    pausing = _pausing(among)
    return [_watched(image, pauses_seen=image.plan.stack in pausing) for image in images]


def _pausing(images: Sequence[TracedImage]) -> set[str]:
    """The stacks whose jobs are seen to pause, wherever they do."""
    missed = {image.plan.stack for image in images if _pause_of(image.plan) in {one.operation for one in image.plan.missing}}
    return {image.plan.stack for image in images if _planned_pause(image.plan)} - missed


def _pause_of(plan: FilePlan) -> str:
    return stack_named(plan.stack).handshake_calls.pauses


def _planned_pause(plan: FilePlan) -> OperationPlan | None:
    return next((planned for planned in plan.operations if planned.operation == _pause_of(plan)), None)


def _watched(image: TracedImage, *, pauses_seen: bool) -> TracedImage:
    planned = {operation.operation: operation for operation in image.plan.operations}
    stack = stack_named(image.plan.stack)
    if stack.errors_in_threads and image.plan.offsets.rwstate is None:
        return _unwatched(image, stack)
    calls, wanted = stack.handshake_calls, {*stack.handshake_calls.beside}
    if not (image.plan.handshake.state_machine and pauses_seen):
        wanted |= {calls.shakes, *_around(planned, stack)}
    if image.plan.handshake.within_data:
        wanted |= {*calls.data}
    kept = tuple(operation for name, operation in planned.items() if name in wanted)
    code = (*image.plan.code, *image.plan.handshake.code)
    return labelled(replace(image, plan=replace(image.plan, operations=kept, code=code)))


def _unwatched(image: TracedImage, stack: Stack) -> TracedImage:
    """The image of a file whose handshakes aren't followed, as it can't be told how they end."""
    reason = f"{stack.shows_waits} doesn't show where the error of a call lies, so that how handshakes end isn't known"
    missing = MissingOperation(stack.handshake_calls.shakes, reason)
    return replace(image, plan=replace(image.plan, operations=(), missing=(*image.plan.missing, missing)))


def labelled(image: TracedImage) -> TracedImage:
    """The image with what labels its handshakes."""
    return replace(image, labels=image.plan.handshake.labels)


def _around(planned: Mapping[str, OperationPlan], stack: Stack) -> Iterator[str]:
    """Those around the call that makes a handshake which are watched as well: where it isn't, or where it is inlined in
    them."""
    inner = planned.get(stack.handshake_calls.shakes)
    for name in stack.handshake_calls.around:
        if inner is None or (stack.inlines_handshake and name in planned and not _exits(inner) & _exits(planned[name])):
            yield name


def _exits(planned: OperationPlan) -> set[int]:
    return {probe.offset for probe in planned.probes if probe.role is Role.EXIT}


def always_watched(calls: Iterable[PhaseCall]) -> list[PhaseCall]:
    """The private key's."""
    return [call for call in calls if call.phase is Phase.PRIVATE_KEY]


def windowed_sites(image: TracedImage) -> tuple[Sites, Sites]:
    """The sites at which the other phases begin and end; among them those that tell what the client has offered, which only
    counts in handshakes whose phases are watched."""
    offers = _offers_of(image)
    others = [call for call in image.plan.handshake.calls if call.phase is not Phase.PRIVATE_KEY]
    return phase_sites([replace(call, ends=()) if offers.get(call.callee) is Offer.TICKET else call for call in others], offers)


def collection_sites(image: TracedImage) -> tuple[Sites, Sites]:
    """The sites at which its runtime begins to work for a collection of garbage, or asks for help with one, and those at which
    that is done. They go into windows with the phases."""
    calls = image.plan.handshake.collections
    begins = [site(call.begin, _collection_cookie(call, begins=True)) for call in calls]
    return begins, [site(end, _collection_cookie(call, begins=False)) for call in calls for end in call.ends]


def _collection_cookie(call: PhaseCall, *, begins: bool) -> int:
    bits = abi.PhaseCookie
    fields: dict[IntEnum, int] = {bits.ASSIST: int(call.phase is Runtime.ASSIST)}
    if begins and call.condition:
        fields |= {bits.CONDITIONAL: 1, bits.CONDITION: condition_number(call.condition)}
    return packed(fields)


def phase_sites(calls: Sequence[PhaseCall], offers: Mapping[str, Offer]) -> tuple[Sites, Sites]:
    """The sites at which phases begin, and those at which they end."""
    begins = [site(call.begin, _phase_cookie(call, offers.get(call.callee))) for call in calls]
    ends = {site(end, _end_cookie(call.phase, end.stack_delta)) for call in calls for end in call.ends}
    return begins, sorted(ends)


def _phase_cookie(call: PhaseCall, offer: Offer | None) -> int:
    bits = abi.PhaseCookie
    fields: dict[IntEnum, int] = {
        bits.PART: abi.Part[call.phase.name],
        bits.STACK: call.begin.stack_delta,
        bits.KEY: KEYS.get(call.callee, 0),
        bits.INNER: int(not call.ends),
        bits.OPERATION: abi.KeyOperation[call.operation.upper() or "NONE"],
        bits.TICKET: int(offer is Offer.TICKET),
        bits.OPENS: int(offer is Offer.OPENS),
        bits.CACHE: int(offer is Offer.CACHE),
    }
    if call.condition:  # a branch in front of the call, where its arguments aren't set yet
        fields |= {bits.CONDITIONAL: 1, bits.CONDITION: condition_number(call.condition), bits.TAKEN: int(call.taken)}
    else:
        fields |= {
            bits.SKIP_NULL: argument(call.skip_null),
            bits.SIZE: argument(call.size_argument),
            bits.SIZE_POINTED: int(call.size_is_pointer),
        }
    return packed(fields)


def _end_cookie(phase: Phase | Transport | Runtime, stack_delta: int) -> int:
    return packed({abi.PhaseCookie.PART: abi.Part[phase.name], abi.PhaseCookie.STACK: stack_delta})


def _machine_of(stack: str) -> Operation:
    """The state machine of handshakes, which tells errors as the call does that makes one."""
    shakes = BY_NAME.get(stack_named(stack).handshake_calls.shakes, STATE_MACHINE)
    return replace(STATE_MACHINE, returns=shakes.returns)


def machine_sites(image: TracedImage, library: int) -> tuple[Sites, Sites]:
    """The sites at which handshakes go on, in whatever call of the application's, and ASYNC jobs pause; and those at which they
    come back from there. The numbers of these two operations are none that others have."""
    paused = _planned_pause(image.plan)
    machine = image.plan.handshake.state_machine
    begins: Sites = []
    ends: Sites = []
    for planned, number in ((machine, abi.Operation.STATE_MACHINE), (paused, abi.Operation.PAUSE)):
        if planned is None:
            continue
        operation = _machine_of(image.plan.stack) if planned is machine else BY_NAME[planned.operation]
        for probe in planned.probes:
            cookie_of_it = cookie(probe, operation, number, library)
            (begins if probe.role is Role.ENTRY else ends).append(site(probe, cookie_of_it))
    return begins, ends


def error_sites(errors: Iterable[ErrorSite]) -> Sites:
    """The sites at which errors are raised."""

    def cookie_of(error: ErrorSite) -> int:
        bits = abi.ErrorCookie
        levelled = error.kind is ErrorKind.ALERT
        fatal = levelled or error.kind is ErrorKind.FATAL
        return packed({bits.FATAL: fatal, bits.LEVELLED: levelled, bits.REASON: _REASON_ARGUMENTS[error.kind]})

    return [site(error.probe, cookie_of(error)) for error in errors]


def tell_why(all_sites: Iterable[HandshakeSites]) -> bool:
    """Whether all libraries that make handshakes are watched where they say why they break one off, so that errors raised below
    them matter only where they name a reason in general terms."""
    making = (sites for sites in all_sites if sites.calls or sites.state_machine)
    return all(any(error.kind is ErrorKind.OWN for error in sites.errors) for sites in making)


def raised_sites(sites: HandshakeSites) -> Sites:
    """The sites at which any error is raised."""
    return error_sites(error for error in sites.errors if error.kind is ErrorKind.RAISE)


def software_sites(plan: FilePlan) -> Sites:
    """The entries of the library's own private-key methods."""
    return [site(probe) for _, probe in _entries(plan, stack_named(plan.stack).handshake_calls.software)]


def quic_sites(images: Sequence[TracedImage]) -> dict[str, list[Sites]]:
    """The sites of each program, in each of these images, that tell the IDs of connections over QUIC."""
    plans = [image.plan.handshake for image in images]
    messages = [[site(plan.transcript)] if plan.transcript else [] for plan in plans]
    added = [[site(plan.adds_parameters)] if plan.adds_parameters else [] for plan in plans]
    returned = [[site(probe) for probe in plan.parameters] for plan in plans]
    return dict(zip(PROGRAMS_OF_QUIC, (messages, added, returned), strict=True))


def batch_sites(plan: FilePlan) -> Sites:
    """The entries of the multi-buffer functions, each with its place in BATCH_FUNCTIONS."""
    numbers = {name: number << abi.Cookie.OPERATION for number, name in enumerate(BATCH_FUNCTIONS)}
    return [site(probe, numbers[name]) for name, probe in _entries(plan, BATCH_FUNCTIONS)]


def _entries(plan: FilePlan, names: Sequence[str]) -> list[tuple[str, Probe]]:
    return [
        (planned.operation, probe)
        for planned in plan.operations
        if planned.operation in names
        for probe in planned.probes
        if probe.role is not Role.EXIT
    ]


def row_mask(by: Sequence[Label]) -> abi.Labels:
    """All ones in what distinguish rows: the ending, these labels, and the library whose codes they hold; and whether a text
    had no room."""
    mask = abi.Labels(known=1 << abi.Label.OTHER | sum(1 << abi.Label[label.name] for label in by), ending=0xFF)
    for label in by:
        mask.values[abi.Label[label.name]] = 0xFFFFFFFF
    if not _NAMED.isdisjoint(by):
        mask.library = 0xFFFF
    return mask


def _offers_of(image: TracedImage) -> Mapping[str, Offer]:
    """The calls that tell of a client's offer, in the library of this image."""
    return stack_named(image.plan.stack).offers


@dataclass(frozen=True)
class Transports:
    """Whether reads and writes have sites: those of C's libraries, and the waits of `goroutines`."""

    watched: bool = False
    goroutines: bool = True

    def of(self, image: TracedImage) -> Sequence[PhaseCall]:
        """Those of the image."""
        return image.plan.handshake.transport if (self.goroutines if is_go(image) else self.watched) else ()


def sites_by_program(
    first: int, images: Sequence[TracedImage], transports: Transports, *, raised: bool, software: bool, quic: bool
) -> dict[str, list[Sites]]:
    """The sites of each program in each of these images, but for those that may go into windows; the first image's number is
    `first`. `raised`, `software`, `quic`: raised_sites(), software_sites() and quic_sites() as well."""
    phases = [_always_set(image, transports) for image in images]
    phases_of = {go: _of_stack(images, phases, go=go) for go in (False, True)}
    machines = [machine_sites(image, number) for number, image in enumerate(images, first)]
    wakes = [image.plan.handshake.wake for image in images]
    signs = [image.plan.handshake.signs for image in images]
    return {
        "at_exit": [ends for _, ends in machines],
        "at_phase_end": [ends for _, ends in phases_of[False]],
        "at_go_phase_end": [ends for _, ends in phases_of[True]],
        "at_error": [_error_sites(image.plan.handshake, raised=raised) for image in images],
        "at_go_certificate": [[site(probe) for probe in image.plan.handshake.chosen] for image in images],
        **(quic_sites(images) if quic else {program: [[] for _ in images] for program in PROGRAMS_OF_QUIC}),
        "at_software": [software_sites(image.plan) if software else [] for image in images],
        "at_signing": [[site(sign)] if sign else [] for sign in signs],
        "at_wake_set": [[site(wake)] if wake else [] for wake in wakes],
        "at_batch": [batch_sites(image.plan) for image in images],
        "at_phase": [begins for begins, _ in phases_of[False]],
        "at_go_phase": [begins for begins, _ in phases_of[True]],
        "at_entry": [begins for begins, _ in machines],
    }


def _of_stack(images: Sequence[TracedImage], sites: Sequence[tuple[Sites, Sites]], *, go: bool) -> list[tuple[Sites, Sites]]:
    """The sites of those images that are Go's, or of the others; none of the rest."""
    return [of_image if is_go(image) is go else ([], []) for image, of_image in zip(images, sites, strict=True)]


def _error_sites(sites: HandshakeSites, *, raised: bool) -> Sites:
    return error_sites(error for error in sites.errors if raised or error.kind is not ErrorKind.RAISE)


def _always_set(image: TracedImage, transports: Transports) -> tuple[Sites, Sites]:
    offers = _offers_of(image)
    return phase_sites((*always_watched(image.plan.handshake.calls), *transports.of(image)), offers)


def shows_certificates(plan: FilePlan) -> bool:
    """Whether the file shows where the certificates are that its servers serve."""
    labels = plan.handshake.labels
    kept = "certificate_bytes" in labels or certificate_paths(labels, plan.offsets)
    sent = plan.handshake.signs and {"sent_certificates", "first_certificate"} <= labels.keys()
    return bool(plan.handshake.chosen or sent or ("signature" in labels and kept))


def _ends_protocol_in_zero(plan: FilePlan) -> bool:
    """Whether the protocol that was agreed on is a text without a length: behind a pointer, or in the connection itself."""
    alpn = plan.handshake.labels.get("alpn")
    return alpn is not None and (not alpn.size or stack_named(plan.stack).ends_protocol_in_zero)


def places_of(plan: FilePlan) -> frozenset[Label]:
    """The labels whose places the library shows."""
    names, offsets = set(plan.handshake.labels), plan.offsets
    labels = {label for label in Label if label.value in names}
    if {"group_tls13", "group_session", "did_kex"} <= names:
        labels.add(Label.GROUP)
    if {"verify_mode", "peer_certificate"} <= names:
        labels.add(Label.CLIENT_CERTIFICATE)
    in_one_place = "server_name_length" in names or stack_named(plan.stack).keeps_name_in_one_place
    if "server_name" in names and ("server_name_session" in names or in_one_place):
        labels.add(Label.SNI)
    if "alpn_length" not in names and not _ends_protocol_in_zero(plan):
        labels.discard(Label.ALPN)
    # How a key signs is what its function is called with.
    if plan.handshake.signs or any(call.callee in KEYS for call in plan.handshake.calls):
        labels.add(Label.SIGNATURE)
    if "descriptor" in names or None not in (offsets.rbio, offsets.bio_method, offsets.bio_descriptor):
        labels |= {Label.PORT, Label.PEER}
    return frozenset(labels | {Label.ROLE, Label.PROCESS})
