# SPDX-License-Identifier: Apache-2.0
"""A plan as plain JSON values, and back. What is read back is checked in full: it tells where probes are set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ssllatency import abi
from ssllatency.code.machine import Cost
from ssllatency.fields import Field
from ssllatency.probes.catalogue import BY_NAME, STATE_MACHINE
from ssllatency.probes.plan import (
    AARCH64_CONDITIONS,
    CONDITIONS,
    CONSTANTS,
    CodeRange,
    Covered,
    ErrorSite,
    FilePlan,
    HandshakeSites,
    Leaving,
    MissingOperation,
    OperationPlan,
    PhaseCall,
    Probe,
    Role,
    SslOffsets,
)
from ssllatency.stacks.base import LARGEST_FRAME, fits_cookie
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.phases import ErrorKind, MissingPart, Phase, Runtime, Transport
from ssllatency.stacks.registry import LIBRARIES, NAMES

if TYPE_CHECKING:
    from ssllatency.code.values import FieldPath

_MACHINES = ("x86-64", "aarch64")
_KINDS = (*LIBRARIES, "static", "")
_HIGHEST_ADDRESS = 1 << 63
_LARGEST_FIELD_OFFSET = 1 << 16  # bytes into a structure of a library
_FARTHEST_ITAB = 1 << 31  # bytes from one itab to another
_LARGEST_HASH = 1 << 32
_MOST_ITEMS = 4096
_LONGEST_TEXT = 4096
_MOST_CODE = 1 << 18  # bytes of one range
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEY_OPERATIONS = ("", "sign", "decrypt")
_KEYS_OF_GO = "crypto/"  # with this their methods' names begin
_ARGUMENTS = 6
_FIELD_SIZES = (0, 1, 2, 4, 8)
_LONGEST_WAY = 4
_ALL_BITS = 0xFFFF
_REGISTER = re.compile(r"[a-z][a-z0-9]{0,4}")


def to_values(plan: FilePlan) -> dict[str, Any]:
    """The plan as dictionaries, lists, strings and numbers, named as the fields of the plan."""
    return asdict(plan)


def from_values(values: object, file_size: int) -> FilePlan:
    """The plan that `to_values` turned into `values`. FieldError for anything else; `file_size` bounds the offsets."""
    root = Field(values)
    record = root.record(FilePlan)
    plan = FilePlan(
        path=record["path"].text(_LONGEST_TEXT),
        build_id=record["build_id"].text(_LONGEST_TEXT),
        version=record["version"].text(_LONGEST_TEXT),
        kind=record["kind"].one_of(_KINDS),
        operations=tuple(_operation(planned, file_size) for planned in record["operations"].items(_MOST_ITEMS)),
        missing=tuple(_missing(missing) for missing in record["missing"].items(_MOST_ITEMS)),
        offsets=_offsets(record["offsets"]),
        code=_code_ranges(record["code"], file_size),
        machine=record["machine"].one_of(_MACHINES),
        stack=record["stack"].one_of((*NAMES, "")),
        handshake=_handshake(record["handshake"], file_size),
    )
    _check_code(record["code"], plan.code, (probe for planned in plan.operations for probe in planned.probes))
    return plan


def _code_ranges(ranges: Field, file_size: int) -> tuple[CodeRange, ...]:
    """Ranges of code, none of which goes past the file."""
    return tuple(_code_range(code, file_size) for code in ranges.items(_MOST_ITEMS))


def _code_range(code: Field, file_size: int) -> CodeRange:
    record = code.record(CodeRange)
    offset = record["offset"].whole(file_size)
    size = record["size"].whole(min(file_size - offset, _MOST_CODE) + 1)
    digest = record["digest"].text(_LONGEST_TEXT)
    if not _DIGEST.fullmatch(digest):
        record["digest"].refuse("a SHA-256")
    return CodeRange(offset, size, digest)


def _check_code(field: Field, code: Sequence[CodeRange], probes: Iterable[Probe]) -> None:
    """FieldError where a site lies in none of the ranges, which `field` has."""
    covered = Covered(code)
    if not all(covered.holds(probe.offset) for probe in probes):
        field.refuse("code around every site")


def _constant(value: Field) -> int | None:
    if value.value is not None and (type(value.value) is not int or value.value not in CONSTANTS):
        value.refuse("a small number")
    return value.value


def _missing(missing: Field) -> MissingOperation:
    record = missing.record(MissingOperation)
    return MissingOperation(record["operation"].one_of(BY_NAME), record["reason"].text(_LONGEST_TEXT))


def _offsets(offsets: Field) -> SslOffsets:
    record = offsets.record(SslOffsets)
    deadline = record.pop("deadline")
    distance = deadline.value
    if distance is not None and (type(distance) is not int or not -_FARTHEST_ITAB < distance < _FARTHEST_ITAB):
        deadline.refuse("a distance in a file")
    hashes = tuple(item.whole(_LARGEST_HASH) for item in record.pop("go_types").items(abi.GoType.GO_TYPES))
    fields = tuple(item.whole(_LARGEST_FIELD_OFFSET) for item in record.pop("go_fields").items(abi.GoField.GO_FIELDS))
    return SslOffsets(
        **{name: offset.whole_or_null(_LARGEST_FIELD_OFFSET) for name, offset in record.items()},
        deadline=distance,
        go_types=hashes,
        go_fields=fields,
    )


def _operation(field: Field, file_size: int, known: Mapping[str, Operation] = BY_NAME) -> OperationPlan:
    """The plan of one of the `known` operations; `file_size` bounds its offsets."""
    record = field.record(OperationPlan)
    plan = OperationPlan(
        operation=record["operation"].one_of(known),
        address=record["address"].whole(_HIGHEST_ADDRESS),
        size=record["size"].whole(_HIGHEST_ADDRESS),
        found=record["found"].text(_LONGEST_TEXT),
        probes=tuple(_probe(site, file_size) for site in record["probes"].items(_MOST_ITEMS)),
        debug_file=record["debug_file"].text(_LONGEST_TEXT),
    )
    if wrong := _wrong_role(plan, known[plan.operation]):
        record["probes"].refuse(wrong)
    return plan


def _wrong_role(plan: OperationPlan, operation: Operation) -> str:
    """Return how an operation's probes must be, "" where they are: one entry and its exits, or one return probe, and that never
    on what may run inside an ASYNC job; or entries alone. A call that may go on in another function, and come back, may
    begin in either."""
    roles = [site.role for site in plan.probes]
    if operation.only_entry:
        entries = set(roles) == {Role.ENTRY} and (len(roles) == 1 or operation.callers_of)
        return "" if entries else "entries alone"
    returning = roles == [Role.RETURN] and not operation.async_job
    entries_shared = [site.shared for site in plan.probes if site.role is Role.ENTRY]
    entering = entries_shared == [False] or (entries_shared == [True, True] and operation.twin)
    exiting = roles.count(Role.EXIT) == len(roles) - len(entries_shared) > 0
    if not (returning or (entering and exiting)):
        return "one entry and its exits, or one return probe"
    if any((site.role is Role.EXIT) != bool(site.values()) for site in plan.probes):
        return "exits with values, and nothing else with any"
    if any(isinstance(value, str) and not value for site in plan.probes for value in site.values()):
        return "with a register for each value that isn't a constant"
    if any(not site.condition and _differs_by_branch(site) for site in plan.probes):
        return "without directions where there is no condition"
    returns_both = operation.returns is abi.Returns.GO_ERROR and operation.convention is abi.Convention.SSL_IO
    if any(site.result_slots and not (returns_both and site.role is Role.EXIT) for site in plan.probes):
        return "without slots where no number and error are returned"
    return ""


def _differs_by_branch(site: Probe) -> bool:
    return site.leaving is not Leaving.BOTH or site.taken_value != site.other_value


def _probe(site: Field, file_size: int) -> Probe:
    """A probe; `file_size` bounds its offset."""
    record = site.record(Probe)
    register = record["return_register"].text(_LONGEST_TEXT)
    if register and not _REGISTER.fullmatch(register):
        record["return_register"].refuse("a register")
    return Probe(
        offset=record["offset"].whole(file_size),
        address=record["address"].whole(_HIGHEST_ADDRESS),
        role=record["role"].one_of(Role),
        instruction=record["instruction"].text(_LONGEST_TEXT),
        cost=record["cost"].one_of(Cost),
        stack_delta=record["stack_delta"].whole(LARGEST_FRAME),
        return_register=register,
        shared=record["shared"].flag(),
        keeps_length=record["keeps_length"].flag(),
        condition=record["condition"].one_of(("", *CONDITIONS, *AARCH64_CONDITIONS)),
        leaving=record["leaving"].one_of(Leaving),
        taken_value=_constant(record["taken_value"]),
        other_value=_constant(record["other_value"]),
        passed=record["passed"].whole(_MOST_ITEMS),
        fails=record["fails"].flag(),
        result_slots=_slots(record["result_slots"], register),
    )


def _slots(slots: Field, register: str) -> tuple[int, ...]:
    """None, or those of a number and of an error, which a cookie has room for."""
    bytes_above = tuple(slot.whole(LARGEST_FRAME) for slot in slots.items(_MOST_ITEMS))
    if bytes_above and (register or not fits_cookie(bytes_above)):
        slots.refuse("two slots of a frame near its site")
    return bytes_above


# Handshakes.


def handshake_values(sites: HandshakeSites) -> dict[str, Any]:
    """The sites of handshakes alone, as `to_values` has them in a plan."""
    return asdict(sites)


def handshake_from_values(values: object, file_size: int) -> HandshakeSites:
    """The sites that `handshake_values` turned into `values`; errors and `file_size` as for `from_values`."""
    return _handshake(Field(values), file_size)


def _handshake(field: Field, file_size: int) -> HandshakeSites:
    record = field.record(HandshakeSites)
    sites = HandshakeSites(
        calls=tuple(_call(call, file_size, Phase) for call in record["calls"].items(_MOST_ITEMS)),
        transport=tuple(_call(call, file_size, Transport) for call in record["transport"].items(_MOST_ITEMS)),
        collections=tuple(_call(call, file_size, Runtime) for call in record["collections"].items(_MOST_ITEMS)),
        state_machine=_state_machine(record["state_machine"], file_size),
        within_data=record["within_data"].flag(),
        errors=tuple(_error(error, file_size) for error in record["errors"].items(_MOST_ITEMS)),
        wake=_entry(record["wake"], file_size),
        chosen=tuple(_bare_probe(probe, file_size, Role.EXIT) for probe in record["chosen"].items(_MOST_ITEMS)),
        signs=_entry(record["signs"], file_size),
        transcript=_entry(record["transcript"], file_size),
        parameters=tuple(_bare_probe(probe, file_size, Role.EXIT) for probe in record["parameters"].items(_MOST_ITEMS)),
        adds_parameters=_entry(record["adds_parameters"], file_size),
        labels={label.name().text(_LONGEST_TEXT): _path(label) for _, label in record["labels"].members()},
        missing=tuple(_missing_part(missing) for missing in record["missing"].items(_MOST_ITEMS)),
        code=_code_ranges(record["code"], file_size),
    )
    _check_code(record["code"], sites.code, sites.probes())
    return sites


def _entry(site: Field, file_size: int) -> Probe | None:
    return None if site.value is None else _bare_probe(site, file_size, Role.ENTRY)


def _bare_probe(site: Field, file_size: int, role: Role) -> Probe:
    probe = _probe(site, file_size)
    if probe.role is not role or probe.return_register or probe.result_slots:
        site.refuse(f"an {role} without a register for a value")
    return probe


def _call(call: Field, file_size: int, kind: type[Phase | Transport | Runtime]) -> PhaseCall:
    record = call.record(PhaseCall)
    ends = tuple(_bare_probe(end, file_size, Role.EXIT) for end in record["ends"].items(_MOST_ITEMS))
    phase_call = PhaseCall(
        phase=kind(record["phase"].one_of(kind)),
        callee=record["callee"].text(_LONGEST_TEXT),
        begin=_bare_probe(record["begin"], file_size, Role.ENTRY),
        ends=ends,
        skip_null=record["skip_null"].whole_or_null(_ARGUMENTS),
        operation=record["operation"].one_of(_KEY_OPERATIONS),
        size_argument=record["size_argument"].whole_or_null(_ARGUMENTS),
        size_is_pointer=record["size_is_pointer"].flag(),
        condition=record["condition"].one_of(("", *CONDITIONS, *AARCH64_CONDITIONS)),
        taken=record["taken"].flag(),
    )
    if not ends and not (phase_call.operation and phase_call.callee.startswith(_KEYS_OF_GO)):
        record["ends"].refuse("one or more, but of a method of a kind of key")
    if phase_call.condition and (phase_call.skip_null, phase_call.size_argument) != (None, None):
        record["condition"].refuse('"" where arguments are read')
    return phase_call


def _state_machine(operation: Field, file_size: int) -> OperationPlan | None:
    return None if operation.value is None else _operation(operation, file_size, {STATE_MACHINE.name: STATE_MACHINE})


def _error(error: Field, file_size: int) -> ErrorSite:
    record = error.record(ErrorSite)
    return ErrorSite(
        kind=record["kind"].one_of(ErrorKind),
        function=record["function"].text(_LONGEST_TEXT),
        probe=_bare_probe(record["probe"], file_size, Role.ENTRY),
    )


def _missing_part(missing: Field) -> MissingPart:
    record = missing.record(MissingPart)
    return MissingPart(record["what"].text(_LONGEST_TEXT), record["reason"].text(_LONGEST_TEXT))


def _path(label: Field) -> FieldPath:
    from ssllatency.code.values import FieldPath

    record = label.record(FieldPath)
    offsets = tuple(offset.whole(_LARGEST_FIELD_OFFSET) for offset in record["offsets"].items(_LONGEST_WAY))
    size, bits = record["size"].whole(), record["bits"].whole(_ALL_BITS)
    if not offsets or size not in _FIELD_SIZES:
        label.refuse("a way of one or more steps to a number of 1, 2, 4 or 8 bytes, or to an address")
    return FieldPath(offsets, size, bits)
