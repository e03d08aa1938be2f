# SPDX-License-Identifier: Apache-2.0
"""A handshake plan as plain JSON values, and back. What is read back is checked in full: it tells where probes are set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ssllatency.code.values import FieldPath
from ssllatency.probes import checks, codec
from ssllatency.probes.checks import DamagedValues
from ssllatency.probes.handshake.plan import (
    ErrorKind,
    ErrorSite,
    HandshakePlan,
    InnerCall,
    MissingPart,
    Phase,
    PhaseCall,
    Transport,
)
from ssllatency.probes.plan import CONDITIONS, Probe, Role

_OPERATIONS = ("", "sign", "decrypt")
_INNER = ("SSL_read", "SSL_write")
_ARGUMENTS = 6
_FIELD_SIZES = (1, 2, 4, 8)
_LONGEST_WAY = 4


def to_values(plan: HandshakePlan) -> dict[str, Any]:
    """The plan as dictionaries, lists, strings and numbers, named as the fields of the plan."""
    return asdict(plan)


def from_values(values: object, file_size: int) -> HandshakePlan:
    """The plan that `to_values` turned into `values`. DamagedValues for anything else; `file_size` bounds the offsets."""
    record = checks.record(values, HandshakePlan)
    plan = HandshakePlan(
        path=checks.text(record["path"], "path"),
        build_id=checks.text(record["build_id"], "build_id"),
        kind=checks.one_of(record["kind"], codec.KINDS, "kind"),
        calls=tuple(_call(each, file_size, Phase) for each in checks.items(record["calls"], "calls")),
        transport=tuple(_call(each, file_size, Transport) for each in checks.items(record["transport"], "transport")),
        inner=tuple(_inner(each, file_size) for each in checks.items(record["inner"], "inner")),
        errors=tuple(_error(each, file_size) for each in checks.items(record["errors"], "errors")),
        wake=None if record["wake"] is None else _probe(record["wake"], file_size, Role.ENTRY),
        labels=_labels(record["labels"]),
        missing=tuple(_missing(each) for each in checks.items(record["missing"], "missing")),
        code=codec.code_ranges(record["code"], file_size),
    )
    codec.check_code(plan.code, plan.probes())
    return plan


def _probe(values: object, file_size: int, role: Role, *, returns: bool = False) -> Probe:
    found = codec.probe(values, file_size)
    if found.role is not role or bool(found.return_register) != returns:
        raise DamagedValues("role")
    return found


def _call(values: object, file_size: int, kind: type[Phase] | type[Transport]) -> PhaseCall:
    record = checks.record(values, PhaseCall)
    ends = tuple(_probe(each, file_size, Role.EXIT) for each in checks.items(record["ends"], "ends"))
    call = PhaseCall(
        phase=kind(checks.one_of(record["phase"], tuple(kind), "phase")),
        callee=checks.text(record["callee"], "callee"),
        begin=_probe(record["begin"], file_size, Role.ENTRY),
        ends=ends,
        skip_null=checks.number_or_none(record["skip_null"], "skip_null", _ARGUMENTS),
        operation=checks.one_of(record["operation"], _OPERATIONS, "operation"),
        size_argument=checks.number_or_none(record["size_argument"], "size_argument", _ARGUMENTS),
        size_is_pointer=checks.flag(record["size_is_pointer"], "size_is_pointer"),
        condition=checks.one_of(record["condition"], ("", *CONDITIONS), "condition"),
        taken=checks.flag(record["taken"], "taken"),
    )
    if not ends or (call.condition and (call.skip_null, call.size_argument) != (None, None)):
        raise DamagedValues("ends or condition")
    return call


def _inner(values: object, file_size: int) -> InnerCall:
    record = checks.record(values, InnerCall)
    return InnerCall(
        function=checks.one_of(record["function"], _INNER, "function"),
        begin=_probe(record["begin"], file_size, Role.ENTRY),
        end=_probe(record["end"], file_size, Role.EXIT, returns=True),
    )


def _error(values: object, file_size: int) -> ErrorSite:
    record = checks.record(values, ErrorSite)
    kind = ErrorKind(checks.one_of(record["kind"], tuple(ErrorKind), "kind"))
    return ErrorSite(kind, checks.text(record["function"], "function"), _probe(record["probe"], file_size, Role.ENTRY))


def _missing(values: object) -> MissingPart:
    record = checks.record(values, MissingPart)
    return MissingPart(checks.text(record["what"], "what"), checks.text(record["reason"], "reason"))


def _labels(values: object) -> dict[str, FieldPath]:
    if not isinstance(values, dict):
        raise DamagedValues("labels")
    return {checks.text(name, "labels"): _path(value) for name, value in values.items()}


def _path(values: object) -> FieldPath:
    record = checks.record(values, FieldPath)
    offsets = tuple(
        checks.number(each, "offsets", checks.LARGEST_FIELD_OFFSET) for each in checks.items(record["offsets"], "offsets")
    )
    if not 0 < len(offsets) <= _LONGEST_WAY or type(record["size"]) is not int or record["size"] not in _FIELD_SIZES:
        raise DamagedValues("labels")
    return FieldPath(offsets, record["size"])
