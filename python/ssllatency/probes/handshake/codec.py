# SPDX-License-Identifier: Apache-2.0
"""A handshake plan as plain JSON values, and back. What is read back is checked in full: it tells where probes are set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ssllatency.code.values import FieldPath
from ssllatency.fields import Field
from ssllatency.probes import codec
from ssllatency.probes.catalogue import STATE_MACHINE
from ssllatency.probes.codec import LARGEST_FIELD_OFFSET, LONGEST_TEXT, MOST_ITEMS
from ssllatency.probes.handshake.plan import ErrorSite, HandshakePlan, PhaseCall
from ssllatency.probes.plan import CONDITIONS, OperationPlan, Probe, Role
from ssllatency.stacks.phases import ErrorKind, MissingPart, Phase, Transport

_OPERATIONS = ("", "sign", "decrypt")
_ARGUMENTS = 6
_FIELD_SIZES = (1, 2, 4, 8)
_LONGEST_WAY = 4


def to_values(plan: HandshakePlan) -> dict[str, Any]:
    """The plan as dictionaries, lists, strings and numbers, named as the fields of the plan."""
    return asdict(plan)


def from_values(values: object, file_size: int) -> HandshakePlan:
    """The plan that `to_values` turned into `values`. FieldError for anything else; `file_size` bounds the offsets."""
    record = Field(values).record(HandshakePlan)
    plan = HandshakePlan(
        path=record["path"].text(LONGEST_TEXT),
        build_id=record["build_id"].text(LONGEST_TEXT),
        kind=record["kind"].one_of(codec.KINDS),
        calls=tuple(_call(call, file_size, Phase) for call in record["calls"].items(MOST_ITEMS)),
        transport=tuple(_call(call, file_size, Transport) for call in record["transport"].items(MOST_ITEMS)),
        state_machine=_state_machine(record["state_machine"], file_size),
        within_data=record["within_data"].flag(),
        errors=tuple(_error(error, file_size) for error in record["errors"].items(MOST_ITEMS)),
        wake=None if record["wake"].value is None else _probe(record["wake"], file_size, Role.ENTRY),
        labels={label.name().text(LONGEST_TEXT): _path(label) for _, label in record["labels"].members()},
        missing=tuple(_missing(missing) for missing in record["missing"].items(MOST_ITEMS)),
        code=codec.code_ranges(record["code"], file_size),
    )
    codec.check_code(record["code"], plan.code, plan.probes())
    return plan


def _probe(site: Field, file_size: int, role: Role) -> Probe:
    probe = codec.probe(site, file_size)
    if probe.role is not role or probe.return_register:
        site.refuse(f"an {role} without a register for a value")
    return probe


def _call(call: Field, file_size: int, kind: type[Phase] | type[Transport]) -> PhaseCall:
    record = call.record(PhaseCall)
    ends = tuple(_probe(end, file_size, Role.EXIT) for end in record["ends"].items(MOST_ITEMS))
    phase_call = PhaseCall(
        phase=kind(record["phase"].one_of(kind)),
        callee=record["callee"].text(LONGEST_TEXT),
        begin=_probe(record["begin"], file_size, Role.ENTRY),
        ends=ends,
        skip_null=record["skip_null"].whole_or_null(_ARGUMENTS),
        operation=record["operation"].one_of(_OPERATIONS),
        size_argument=record["size_argument"].whole_or_null(_ARGUMENTS),
        size_is_pointer=record["size_is_pointer"].flag(),
        condition=record["condition"].one_of(("", *CONDITIONS)),
        taken=record["taken"].flag(),
    )
    if not ends:
        record["ends"].refuse("one or more")
    if phase_call.condition and (phase_call.skip_null, phase_call.size_argument) != (None, None):
        record["condition"].refuse('"" where arguments are read')
    return phase_call


def _state_machine(operation: Field, file_size: int) -> OperationPlan | None:
    return None if operation.value is None else codec.operation(operation, file_size, {STATE_MACHINE.name: STATE_MACHINE})


def _error(error: Field, file_size: int) -> ErrorSite:
    record = error.record(ErrorSite)
    return ErrorSite(
        kind=record["kind"].one_of(ErrorKind),
        function=record["function"].text(LONGEST_TEXT),
        probe=_probe(record["probe"], file_size, Role.ENTRY),
    )


def _missing(missing: Field) -> MissingPart:
    record = missing.record(MissingPart)
    return MissingPart(record["what"].text(LONGEST_TEXT), record["reason"].text(LONGEST_TEXT))


def _path(label: Field) -> FieldPath:
    record = label.record(FieldPath)
    offsets = tuple(offset.whole(LARGEST_FIELD_OFFSET) for offset in record["offsets"].items(_LONGEST_WAY))
    size = record["size"].whole()
    if not offsets or size not in _FIELD_SIZES:
        label.refuse("a way of one or more steps to a number of 1, 2, 4 or 8 bytes")
    return FieldPath(offsets, size)
