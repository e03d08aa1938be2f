# SPDX-License-Identifier: Apache-2.0
"""From plans to what the kernel is told: the cookie of each site, and the state offsets of each library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType

from ssllatency import abi
from ssllatency.code.machine import Cost
from ssllatency.code.values import FieldPath
from ssllatency.data_class import dataclass
from ssllatency.engines.base import AttachError, TracedImage
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import FilePlan, Leaving, Probe, Role, SslOffsets, condition_number
from ssllatency.stacks.base import Stack
from ssllatency.stacks.operation import Operation, Tier

# The registers by the numbers that the machine's instructions have for them.
_X86_64 = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))
_AARCH64 = tuple(f"x{number}" for number in range(31))
_REGISTERS = {name: number for names in (_X86_64, _AARCH64) for number, name in enumerate(names)}
_WORD = 8  # bytes
_MOST_OPERATIONS = MOST_LIBRARIES = 256
# Where the kernel side looks for labels, of which there are more.
_CERTIFICATE_LABELS = ("certificate", "chain")
_PLACES = {place.name.lower(): place for place in abi.PlaceOf if place is not abi.PlaceOf.PLACES}

Sites = list[tuple[int, int]]


@dataclass(frozen=True)
class ImageSites:
    """The (file offset, cookie) pairs of one image by role; `returns` get an entry and a return probe, `frees` end an SSL, at
    `errors` an error is raised."""

    image: TracedImage
    entries: Sites
    exits: Sites
    returns: Sites
    frees: Sites
    errors: Sites


def operations_of(images: Sequence[TracedImage]) -> list[str]:
    """The names of all operations that are probed; the position is the number that the kernel knows each by."""
    planned = (planned.operation for image in images for planned in image.plan.operations)
    names = dict.fromkeys(name for name in planned if not BY_NAME[name].only_entry)
    if len(names) > _MOST_OPERATIONS or len(images) > MOST_LIBRARIES:
        raise AttachError(f"there is room for {MOST_LIBRARIES} files in one run: name fewer of them.")
    return list(names)


def numbered(images: Sequence[TracedImage], *, later: bool) -> list[str]:
    """The names of all probed operations, by number; `later`: those that other images may bring have their numbers, too."""
    names = operations_of(images)
    more = (name for name, operation in BY_NAME.items() if not operation.only_entry) if later else ()
    return list(dict.fromkeys((*names, *more)))


_HITS = {
    Cost.EMULATED: abi.Hit.EMULATED,
    Cost.SINGLE_STEPPED: abi.Hit.SINGLE_STEPPED,
    Cost.OPTIMISED: abi.Hit.OPTIMISED,
}


def site(probe: Probe, cookie: int = 0) -> tuple[int, int]:
    """The offset of a probe, and the cookie that tells the kernel side what to do at a hit."""
    return probe.offset, cookie | _HITS[probe.cost] << abi.Cookie.HIT


def cookie(probe: Probe, operation: Operation, number: int, library: int, *, windowed: bool = False) -> int:
    """The 64-bit cookie of a call's site, as enum ssll_cookie lays it out. `windowed`: the site comes and goes, so that a call
    may be seen to end that wasn't seen to begin."""
    fields: dict[IntEnum, int] = {
        abi.Cookie.OPERATION: number,
        abi.Cookie.CONVENTION: operation.convention,
        abi.Cookie.REGISTER: int(probe.shared) if probe.role is Role.ENTRY else register_number(probe),
        # A size query's exit has no entry that was counted, like that of a shared function.
        abi.Cookie.SHARED: int(probe.shared or operation.skip_null is not None or windowed),
        abi.Cookie.SKIP_NULL: argument(operation.skip_null),
        abi.Cookie.SSL: int(operation.ssl_argument),
        abi.Cookie.LIBRARY: library,
        abi.Cookie.STACK: probe.stack_delta,
        abi.Cookie.CONDITION: condition_number(probe.condition),
        abi.Cookie.TAKEN: _ending(probe.taken_value, probe.leaving is not Leaving.OTHER),
        abi.Cookie.OTHER: _ending(probe.other_value, probe.leaving is not Leaving.TAKEN),
        abi.Cookie.TIER: operation.tier,
        abi.Cookie.RETURNS: operation.returns,
    }
    return packed(fields | _slots(probe))


def _slots(probe: Probe) -> dict[IntEnum, int]:
    """The fields that say where an exit finds its results in a frame, in place of others; none where they are in registers."""
    if not probe.result_slots:
        return {}
    count, error = (slot // _WORD for slot in probe.result_slots)
    bits = abi.DeferredCookie
    return {abi.Cookie.SKIP_NULL: 0, abi.Cookie.SSL: 0, bits.COUNT_AT: count, bits.ERROR_BEHIND: error - count}


def register_number(probe: Probe) -> int:
    """The register that holds the value returned past an exit site, as cookies have it."""
    return _REGISTERS[probe.return_register] if probe.return_register else 0


def packed(fields: Mapping[IntEnum, int]) -> int:
    """A cookie of these fields, each at its own shift."""
    return sum(value << shift for shift, value in fields.items())


def argument(number: int | None) -> int:
    """An argument as cookies have it: 0 for none, else one more than its number."""
    return 0 if number is None else number + 1


def _ending(constant: int | None, leaving: bool) -> int:
    """The meaning of a direction of an exit site, in enum ssll_exit."""
    if not leaving:
        return abi.Exit.GOES_ON
    return abi.Exit.IN_REGISTER if constant is None else abi.Exit.CONSTANT + constant


def sites_of(
    image: TracedImage, operations: Sequence[str], library: int, tier: Tier | None = None, *, windowed: bool = False
) -> ImageSites:
    """All sites of one image, or those of one tier; `windowed` as for cookie()."""
    by_role: dict[Role, Sites] = {role: [] for role in Role}
    frees: Sites = []
    errors: Sites = []
    numbers = {name: number for number, name in enumerate(operations)}
    for planned in image.plan.operations:
        operation = BY_NAME[planned.operation]
        if tier is not None and operation.tier is not tier:
            continue
        for probe in planned.probes:
            if operation.only_entry:
                if operation.ssl_argument:
                    frees.append(site(probe, abi.Operation.FREE << abi.Cookie.OPERATION))
                else:
                    errors.append(site(probe))
                continue
            value = cookie(probe, operation, numbers[planned.operation], library, windowed=windowed)
            by_role[probe.role].append(site(probe, value))
    return ImageSites(image, by_role[Role.ENTRY], by_role[Role.EXIT], by_role[Role.RETURN], frees, errors)


def remembers_sides(plan: FilePlan) -> bool:
    """Whether the kernel side may remember which side an SSL is on: it sees what settles that, and what frees the SSL."""
    probed = [BY_NAME[planned.operation] for planned in plan.operations]
    settled = any(operation.convention is abi.Convention.SSL_HANDSHAKE for operation in probed)
    return settled and any(operation.only_entry and operation.ssl_argument for operation in probed)


def library_record(
    offsets: SslOffsets,
    stack: Stack,
    labels: Mapping[str, FieldPath] = MappingProxyType({}),
    *,
    remember: bool = False,
    companion: bool = False,
    attached: bool = True,
    tells_ids: bool = False,
) -> abi.Library:
    """A library as the kernel side knows it: the offsets, -1 for one that isn't known, and the ways to what labels handshakes.
    `companion` as in TracedImage; `attached`: all of its sites are; `tells_ids` as in HandshakeSites."""

    def offset(value: int | None) -> int:
        return -1 if value is None else value

    record = abi.Library(
        rwstate=offset(offsets.rwstate),
        server=offset(offsets.client if offsets.server is None else offsets.server),
        rbio=offset(offsets.rbio),
        wbio=offset(offsets.wbio),
        shutdown=offset(offsets.shutdown),
        state=offset(offsets.state),
        bio_flags=offset(offsets.bio_flags),
        # Since OpenSSL 3.2 an SSL * begins with its type; before, with its version.
        typed=int(bool(offsets.version)),
        remember=int(remember),
        stack=stack.number,
        holder=offset(offsets.boringssl),
        server_bits=offsets.server_bits or 0,
        companion=int(companion),
        attached=int(attached),
        deadline=offsets.deadline or 0,
        sent=offset(offsets.sent),
        tells_ids=int(tells_ids),
    )
    for number, type_hash in enumerate(offsets.go_types):
        record.types[number] = type_hash
    for number, at in enumerate(offsets.go_fields):
        record.fields[number] = at
    paths = {**labels, **_socket_paths(offsets)}
    for name in _CERTIFICATE_LABELS:
        paths.pop(name, None)  # they lead to no more than a pointer
    paths |= certificate_paths(labels, offsets)
    for place in _PLACES.keys() & paths.keys():
        path, kept = paths[place], record.paths[_PLACES[place]]
        kept.length, kept.size, kept.bits = len(path.offsets), path.size, path.bits
        for step, value in enumerate(path.offsets):
            kept.offsets[step] = value
    return record


def _socket_paths(offsets: SslOffsets) -> dict[str, FieldPath]:
    """The paths by which what a connection reads from (its BIO) has its type and its descriptor."""
    if offsets.rbio is None or offsets.bio_method is None or offsets.bio_descriptor is None:
        return {}
    bio_type, descriptor = (offsets.rbio, offsets.bio_method, 0), (offsets.rbio, offsets.bio_descriptor)
    return {"bio_type": FieldPath(bio_type, 4), "bio_descriptor": FieldPath(descriptor, 4)}


def certificate_paths(labels: Mapping[str, FieldPath], offsets: SslOffsets) -> dict[str, FieldPath]:
    """Those into the certificate that a server serves, and to the stack of those that it sends with it; none where libcrypto
    doesn't show how it keeps them, or a path would be too long."""
    certificate, chain = labels.get("certificate"), labels.get("chain")
    encoding, signature, count = offsets.x509_encoding, offsets.x509_signature, offsets.stack_count
    if certificate is None or encoding is None or signature is None or len(certificate.offsets) >= abi.PathSize.PATH_LENGTH:
        return {}
    paths = {
        "certificate": FieldPath((*certificate.offsets, encoding), 0),
        "signature_bits": FieldPath((*certificate.offsets, signature), 0),
    }
    if chain is not None and count is not None:
        paths["chain"] = FieldPath((*chain.offsets, count), 0)
    return paths


def joined(first: Mapping[str, Sequence[Sites]], second: Mapping[str, Sequence[Sites]], count: int) -> dict[str, list[Sites]]:
    """The sites of both by program and image, of so many images: links are made in this order."""
    none: Sequence[Sites] = [[]] * count
    return {
        program: [[*one, *other] for one, other in zip(first.get(program, none), second.get(program, none), strict=True)]
        for program in dict.fromkeys((*first, *second))
    }
