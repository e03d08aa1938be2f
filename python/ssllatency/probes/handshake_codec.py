# SPDX-License-Identifier: Apache-2.0
"""A handshake plan as plain JSON values, and back. What is read back is checked in full: it tells where probes are set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ssllatency.elf.values import FieldPath
from ssllatency.probes import codec
from ssllatency.probes.codec import DamagedPlan
from ssllatency.probes.handshake_plan import (
    CONDITIONS,
    ErrorKind,
    ErrorSite,
    HandshakePlan,
    MissingPart,
    Phase,
    PhaseCall,
)
from ssllatency.probes.plan import Probe, Role

_OPERATIONS = ("", "sign", "decrypt")
_ARGUMENTS = 6
_LARGEST_FIELD_OFFSET = 1 << 16
_FIELD_SIZES = (1, 2, 4, 8)
_LONGEST_WAY = 4


def to_values(plan: HandshakePlan) -> dict[str, Any]:
    """The plan as dictionaries, lists, strings and numbers, named as the fields of the plan."""
    return asdict(plan)


def from_values(values: object, *, file_size: int) -> HandshakePlan:
    """The plan that `to_values` turned into `values`. DamagedPlan for anything else; `file_size` bounds the offsets."""
    record = codec.record(values, HandshakePlan)
    kind = codec.text(record["kind"], "kind")
    if kind not in codec.KINDS:
        raise DamagedPlan("kind")
    return HandshakePlan(
        path=codec.text(record["path"], "path"),
        build_id=codec.text(record["build_id"], "build_id"),
        kind=kind,
        calls=tuple(_call(each, file_size) for each in codec.items(record["calls"], "calls")),
        errors=tuple(_error(each, file_size) for each in codec.items(record["errors"], "errors")),
        wake=None if record["wake"] is None else _probe(record["wake"], file_size, Role.ENTRY),
        labels=_labels(record["labels"]),
        missing=tuple(_missing(each) for each in codec.items(record["missing"], "missing")),
    )


def _probe(values: object, file_size: int, role: Role) -> Probe:
    found = codec.probe(values, file_size)
    if found.role is not role or found.return_register:
        raise DamagedPlan("role")
    return found


def _flag(value: object, name: str) -> bool:
    if type(value) is not bool:
        raise DamagedPlan(name)
    return value


def _argument(value: object, name: str) -> int | None:
    return None if value is None else codec.number(value, name, _ARGUMENTS)


def _one_of(value: object, choices: tuple[str, ...] | frozenset[str], name: str) -> str:
    text = codec.text(value, name)
    if text not in choices:
        raise DamagedPlan(name)
    return text


def _call(values: object, file_size: int) -> PhaseCall:
    record = codec.record(values, PhaseCall)
    ends = tuple(_probe(each, file_size, Role.EXIT) for each in codec.items(record["ends"], "ends"))
    call = PhaseCall(
        phase=Phase(_one_of(record["phase"], tuple(Phase), "phase")),
        callee=codec.text(record["callee"], "callee"),
        begin=_probe(record["begin"], file_size, Role.ENTRY),
        ends=ends,
        skip_null=_argument(record["skip_null"], "skip_null"),
        operation=_one_of(record["operation"], _OPERATIONS, "operation"),
        size_argument=_argument(record["size_argument"], "size_argument"),
        size_is_pointer=_flag(record["size_is_pointer"], "size_is_pointer"),
        condition=_one_of(record["condition"], CONDITIONS | {""}, "condition"),
        taken=_flag(record["taken"], "taken"),
    )
    if not ends or (call.condition and (call.skip_null, call.size_argument) != (None, None)):
        raise DamagedPlan("ends or condition")
    return call


def _error(values: object, file_size: int) -> ErrorSite:
    record = codec.record(values, ErrorSite)
    kind = ErrorKind(_one_of(record["kind"], tuple(ErrorKind), "kind"))
    return ErrorSite(kind, codec.text(record["function"], "function"), _probe(record["probe"], file_size, Role.ENTRY))


def _missing(values: object) -> MissingPart:
    record = codec.record(values, MissingPart)
    return MissingPart(codec.text(record["what"], "what"), codec.text(record["reason"], "reason"))


def _labels(values: object) -> dict[str, FieldPath]:
    if not isinstance(values, dict):
        raise DamagedPlan("labels")
    return {codec.text(name, "labels"): _path(value) for name, value in values.items()}


def _path(values: object) -> FieldPath:
    record = codec.record(values, FieldPath)
    offsets = tuple(codec.number(each, "offsets", _LARGEST_FIELD_OFFSET) for each in codec.items(record["offsets"], "offsets"))
    if not 0 < len(offsets) <= _LONGEST_WAY or type(record["size"]) is not int or record["size"] not in _FIELD_SIZES:
        raise DamagedPlan("labels")
    return FieldPath(offsets, record["size"])
