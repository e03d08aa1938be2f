# SPDX-License-Identifier: Apache-2.0
"""A plan as plain JSON values, and back. What is read back is checked in full: it tells where probes are set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from ssllatency.code.machine import Cost
from ssllatency.probes import checks
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.checks import DamagedValues
from ssllatency.probes.plan import (
    CONDITIONS,
    CONSTANTS,
    LARGEST_FRAME,
    CodeRange,
    Covered,
    ImagePlan,
    Leaving,
    MissingOperation,
    OperationPlan,
    Probe,
    Role,
    SslOffsets,
)

MACHINES = ("x86-64", "aarch64")
KINDS = ("libssl", "libcrypto", "libcrypto_mb", "qatengine", "static", "")
_HIGHEST_ADDRESS = 1 << 63
MOST_CODE = 1 << 18  # bytes of one range
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REGISTER = re.compile(r"[a-z][a-z0-9]{0,4}")


def to_values(plan: ImagePlan) -> dict[str, Any]:
    """The plan as dictionaries, lists, strings and numbers, named as the fields of the plan."""
    return asdict(plan)


def from_values(values: object, file_size: int) -> ImagePlan:
    """The plan that `to_values` turned into `values`. DamagedValues for anything else; `file_size` bounds the offsets."""
    record = checks.record(values, ImagePlan)
    plan = ImagePlan(
        path=checks.text(record["path"], "path"),
        build_id=checks.text(record["build_id"], "build_id"),
        version=checks.text(record["version"], "version"),
        kind=checks.one_of(record["kind"], KINDS, "kind"),
        operations=tuple(_operation(each, file_size) for each in checks.items(record["operations"], "operations")),
        missing=tuple(_missing(each) for each in checks.items(record["missing"], "missing")),
        offsets=_offsets(record["offsets"]),
        code=code_ranges(record["code"], file_size),
        machine=checks.one_of(record["machine"], MACHINES, "machine"),
    )
    check_code(plan.code, (probe for planned in plan.operations for probe in planned.probes))
    return plan


def code_ranges(values: object, file_size: int) -> tuple[CodeRange, ...]:
    """The ranges of code that `to_values` turned into `values`, none of which goes past the file."""
    return tuple(_code_range(each, file_size) for each in checks.items(values, "code"))


def _code_range(values: object, file_size: int) -> CodeRange:
    record = checks.record(values, CodeRange)
    offset = checks.number(record["offset"], "offset", file_size)
    size = checks.number(record["size"], "size", min(file_size - offset, MOST_CODE) + 1)
    digest = checks.text(record["digest"], "digest")
    if not _DIGEST.fullmatch(digest):
        raise DamagedValues("digest")
    return CodeRange(offset, size, digest)


def check_code(code: Sequence[CodeRange], probes: Iterable[Probe]) -> None:
    """DamagedValues where a site lies in none of the ranges."""
    covered = Covered(code)
    if not all(covered.holds(probe.offset) for probe in probes):
        raise DamagedValues("code")


def _constant(value: object, name: str) -> int | None:
    if value is not None and (type(value) is not int or value not in CONSTANTS):
        raise DamagedValues(name)
    return value


def _name(value: object) -> str:
    return checks.one_of(value, BY_NAME, "operation")


def _missing(values: object) -> MissingOperation:
    record = checks.record(values, MissingOperation)
    return MissingOperation(_name(record["operation"]), checks.text(record["reason"], "reason"))


def _offsets(values: object) -> SslOffsets:
    record = checks.record(values, SslOffsets)
    return SslOffsets(**{k: checks.number_or_none(v, k, checks.LARGEST_FIELD_OFFSET) for k, v in record.items()})


def _operation(values: object, file_size: int) -> OperationPlan:
    record = checks.record(values, OperationPlan)
    plan = OperationPlan(
        operation=_name(record["operation"]),
        address=checks.number(record["address"], "address", _HIGHEST_ADDRESS),
        size=checks.number(record["size"], "size", _HIGHEST_ADDRESS),
        found=checks.text(record["found"], "found"),
        probes=tuple(probe(each, file_size) for each in checks.items(record["probes"], "probes")),
    )
    _check_roles(plan)
    return plan


def _check_roles(plan: OperationPlan) -> None:
    """One entry and its exits, or one return probe, and that never on what may run inside an ASYNC job; or entries alone."""
    roles = [each.role for each in plan.probes]
    if BY_NAME[plan.operation].only_entry:
        if set(roles) != {Role.ENTRY} or (len(roles) > 1 and not BY_NAME[plan.operation].callers_of):
            raise DamagedValues("role")
        return
    returning = roles == [Role.RETURN] and not BY_NAME[plan.operation].async_job
    entering = roles.count(Role.ENTRY) == 1 and roles.count(Role.EXIT) == len(roles) - 1 > 0
    if not (returning or entering):
        raise DamagedValues("role")
    for each in plan.probes:
        if (each.role is Role.EXIT) != bool(each.values()):
            raise DamagedValues("return_register")
        if any(isinstance(value, str) and not value for value in each.values()):
            raise DamagedValues("return_register")
        if not each.condition and (each.leaving is not Leaving.BOTH or each.taken_value != each.other_value):
            raise DamagedValues("condition")


def probe(values: object, file_size: int) -> Probe:
    """A probe that `to_values` turned into `values`; `file_size` bounds its offset."""
    record = checks.record(values, Probe)
    register = checks.text(record["return_register"], "return_register")
    if register and not _REGISTER.fullmatch(register):
        raise DamagedValues("return_register")
    try:
        role, cost, leaving = Role(record["role"]), Cost(record["cost"]), Leaving(record["leaving"])
    except ValueError:
        raise DamagedValues("role, cost or leaving") from None
    return Probe(
        offset=checks.number(record["offset"], "offset", file_size),
        address=checks.number(record["address"], "address", _HIGHEST_ADDRESS),
        role=role,
        instruction=checks.text(record["instruction"], "instruction"),
        cost=cost,
        stack_delta=checks.number(record["stack_delta"], "stack_delta", LARGEST_FRAME),
        return_register=register,
        shared=checks.flag(record["shared"], "shared"),
        keeps_length=checks.flag(record["keeps_length"], "keeps_length"),
        condition=checks.one_of(record["condition"], ("", *CONDITIONS), "condition"),
        leaving=leaving,
        taken_value=_constant(record["taken_value"], "taken_value"),
        other_value=_constant(record["other_value"], "other_value"),
        passed=checks.number(record["passed"], "passed", checks.MOST_ITEMS),
        fails=checks.flag(record["fails"], "fails"),
    )
