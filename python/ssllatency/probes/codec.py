# SPDX-License-Identifier: Apache-2.0
"""A plan as plain JSON values, and back. What is read back is checked in full: it tells where probes are set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import (
    CONSTANTS,
    Cost,
    ImagePlan,
    Leaving,
    MissingOperation,
    OperationPlan,
    Probe,
    Role,
    SslOffsets,
)

KINDS = ("libssl", "libcrypto", "libcrypto_mb", "qatengine", "static", "")
_LONGEST_TEXT = 4096
_MOST_ITEMS = 4096
_HIGHEST_ADDRESS = 1 << 63
_LARGEST_FRAME = 1 << 24
_LARGEST_FIELD_OFFSET = 1 << 16
_CONDITION = re.compile(r"jn?[a-z]{1,2}")
_REGISTER = re.compile(r"[a-z][a-z0-9]{0,4}")


class DamagedPlan(Exception):
    """The values are no plan. The text names the field."""


def to_values(plan: ImagePlan) -> dict[str, Any]:
    """The plan as dictionaries, lists, strings and numbers, named as the fields of the plan."""
    return asdict(plan)


def from_values(values: object, *, file_size: int) -> ImagePlan:
    """The plan that `to_values` turned into `values`. DamagedPlan for anything else; `file_size` bounds the offsets."""
    record = _record(values, ImagePlan)
    kind = _text(record["kind"], "kind")
    if kind not in KINDS:
        raise DamagedPlan("kind")
    return ImagePlan(
        path=_text(record["path"], "path"),
        build_id=_text(record["build_id"], "build_id"),
        version=_text(record["version"], "version"),
        kind=kind,
        operations=tuple(_operation(each, file_size) for each in _items(record["operations"], "operations")),
        missing=tuple(_missing(each) for each in _items(record["missing"], "missing")),
        offsets=_offsets(record["offsets"]),
    )


def _record(values: object, kind: type) -> Mapping[str, Any]:
    names = {field.name for field in fields(kind)}
    if not isinstance(values, dict) or set(values) != names:
        raise DamagedPlan(kind.__name__)
    return values


def _items(value: object, name: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) > _MOST_ITEMS:
        raise DamagedPlan(name)
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise DamagedPlan(name)
    return value


def _number(value: object, name: str, limit: int) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise DamagedPlan(name)
    return value


def _flag(value: object, name: str) -> bool:
    if type(value) is not bool:
        raise DamagedPlan(name)
    return value


def _constant(value: object, name: str) -> int | None:
    if value is not None and (type(value) is not int or value not in CONSTANTS):
        raise DamagedPlan(name)
    return value


def _name(value: object) -> str:
    name = _text(value, "operation")
    if name not in BY_NAME:
        raise DamagedPlan("operation")
    return name


def _missing(values: object) -> MissingOperation:
    record = _record(values, MissingOperation)
    return MissingOperation(_name(record["operation"]), _text(record["reason"], "reason"))


def _offsets(values: object) -> SslOffsets:
    record = _record(values, SslOffsets)
    return SslOffsets(**{k: None if v is None else _number(v, k, _LARGEST_FIELD_OFFSET) for k, v in record.items()})


def _operation(values: object, file_size: int) -> OperationPlan:
    record = _record(values, OperationPlan)
    plan = OperationPlan(
        operation=_name(record["operation"]),
        address=_number(record["address"], "address", _HIGHEST_ADDRESS),
        size=_number(record["size"], "size", _HIGHEST_ADDRESS),
        found=_text(record["found"], "found"),
        probes=tuple(_probe(each, file_size) for each in _items(record["probes"], "probes")),
    )
    _check_roles(plan)
    return plan


def _check_roles(plan: OperationPlan) -> None:
    """One entry and its exits, or one return probe, and that never on what may run inside an ASYNC job; or an entry alone."""
    roles = [probe.role for probe in plan.probes]
    if BY_NAME[plan.operation].only_entry:
        if roles != [Role.ENTRY]:
            raise DamagedPlan("role")
        return
    returning = roles == [Role.RETURN] and not BY_NAME[plan.operation].async_job
    entering = roles.count(Role.ENTRY) == 1 and roles.count(Role.EXIT) == len(roles) - 1 > 0
    if not (returning or entering):
        raise DamagedPlan("role")
    for probe in plan.probes:
        if (probe.role is Role.EXIT) != bool(probe.values()):
            raise DamagedPlan("return_register")
        if any(isinstance(value, str) and not value for value in probe.values()):
            raise DamagedPlan("return_register")
        if not probe.condition and (probe.leaving is not Leaving.BOTH or probe.taken_value != probe.other_value):
            raise DamagedPlan("condition")


def _probe(values: object, file_size: int) -> Probe:
    record = _record(values, Probe)
    register = _text(record["return_register"], "return_register")
    if register and not _REGISTER.fullmatch(register):
        raise DamagedPlan("return_register")
    condition = _text(record["condition"], "condition")
    if condition and not _CONDITION.fullmatch(condition):
        raise DamagedPlan("condition")
    try:
        role, cost, leaving = Role(record["role"]), Cost(record["cost"]), Leaving(record["leaving"])
    except ValueError:
        raise DamagedPlan("role, cost or leaving") from None
    return Probe(
        offset=_number(record["offset"], "offset", file_size),
        address=_number(record["address"], "address", _HIGHEST_ADDRESS),
        role=role,
        instruction=_text(record["instruction"], "instruction"),
        cost=cost,
        stack_delta=_number(record["stack_delta"], "stack_delta", _LARGEST_FRAME),
        return_register=register,
        shared=_flag(record["shared"], "shared"),
        keeps_length=_flag(record["keeps_length"], "keeps_length"),
        condition=condition,
        leaving=leaving,
        taken_value=_constant(record["taken_value"], "taken_value"),
        other_value=_constant(record["other_value"], "other_value"),
        passed=_number(record["passed"], "passed", _MOST_ITEMS),
        fails=_flag(record["fails"], "fails"),
    )


record, items, text, number, probe = _record, _items, _text, _number, _probe  # for other kinds of plans
