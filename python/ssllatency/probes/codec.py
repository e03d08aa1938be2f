# SPDX-License-Identifier: Apache-2.0
"""A plan as plain JSON values, and back. What is read back is checked in full: it tells where probes are set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ssllatency.code.machine import Cost
from ssllatency.fields import Field
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import (
    AARCH64_CONDITIONS,
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
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.registry import LIBRARIES, NAMES

MACHINES = ("x86-64", "aarch64")
KINDS = (*LIBRARIES, "static", "")
_HIGHEST_ADDRESS = 1 << 63
LARGEST_FIELD_OFFSET = 1 << 16  # bytes into a structure of a library
_FARTHEST_ITAB = 1 << 31  # bytes from one itab to another
MOST_ITEMS = 4096
LONGEST_TEXT = 4096
MOST_CODE = 1 << 18  # bytes of one range
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REGISTER = re.compile(r"[a-z][a-z0-9]{0,4}")


def to_values(plan: ImagePlan) -> dict[str, Any]:
    """The plan as dictionaries, lists, strings and numbers, named as the fields of the plan."""
    return asdict(plan)


def from_values(values: object, file_size: int) -> ImagePlan:
    """The plan that `to_values` turned into `values`. FieldError for anything else; `file_size` bounds the offsets."""
    root = Field(values)
    record = root.record(ImagePlan)
    plan = ImagePlan(
        path=record["path"].text(LONGEST_TEXT),
        build_id=record["build_id"].text(LONGEST_TEXT),
        version=record["version"].text(LONGEST_TEXT),
        kind=record["kind"].one_of(KINDS),
        operations=tuple(operation(planned, file_size) for planned in record["operations"].items(MOST_ITEMS)),
        missing=tuple(_missing(missing) for missing in record["missing"].items(MOST_ITEMS)),
        offsets=_offsets(record["offsets"]),
        code=code_ranges(record["code"], file_size),
        machine=record["machine"].one_of(MACHINES),
        stack=record["stack"].one_of((*NAMES, "")),
    )
    check_code(record["code"], plan.code, (probe for planned in plan.operations for probe in planned.probes))
    return plan


def code_ranges(ranges: Field, file_size: int) -> tuple[CodeRange, ...]:
    """Ranges of code, none of which goes past the file."""
    return tuple(_code_range(code, file_size) for code in ranges.items(MOST_ITEMS))


def _code_range(code: Field, file_size: int) -> CodeRange:
    record = code.record(CodeRange)
    offset = record["offset"].whole(file_size)
    size = record["size"].whole(min(file_size - offset, MOST_CODE) + 1)
    digest = record["digest"].text(LONGEST_TEXT)
    if not _DIGEST.fullmatch(digest):
        record["digest"].refuse("a SHA-256")
    return CodeRange(offset, size, digest)


def check_code(field: Field, code: Sequence[CodeRange], probes: Iterable[Probe]) -> None:
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
    return MissingOperation(record["operation"].one_of(BY_NAME), record["reason"].text(LONGEST_TEXT))


def _offsets(offsets: Field) -> SslOffsets:
    record = offsets.record(SslOffsets)
    deadline = record.pop("deadline")
    distance = deadline.value
    if distance is not None and (type(distance) is not int or not -_FARTHEST_ITAB < distance < _FARTHEST_ITAB):
        deadline.refuse("a distance in a file")
    return SslOffsets(
        **{name: offset.whole_or_null(LARGEST_FIELD_OFFSET) for name, offset in record.items()}, deadline=distance
    )


def operation(field: Field, file_size: int, known: Mapping[str, Operation] = BY_NAME) -> OperationPlan:
    """The plan of one of the `known` operations; `file_size` bounds its offsets."""
    record = field.record(OperationPlan)
    plan = OperationPlan(
        operation=record["operation"].one_of(known),
        address=record["address"].whole(_HIGHEST_ADDRESS),
        size=record["size"].whole(_HIGHEST_ADDRESS),
        found=record["found"].text(LONGEST_TEXT),
        probes=tuple(probe(site, file_size) for site in record["probes"].items(MOST_ITEMS)),
    )
    if wrong := _wrong_role(plan, known[plan.operation]):
        record["probes"].refuse(wrong)
    return plan


def _wrong_role(plan: OperationPlan, operation: Operation) -> str:
    """How an operation's probes must be, "" where they are: one entry and its exits, or one return probe, and that never on
    what may run inside an ASYNC job; or entries alone."""
    roles = [site.role for site in plan.probes]
    if operation.only_entry:
        entries = set(roles) == {Role.ENTRY} and (len(roles) == 1 or operation.callers_of)
        return "" if entries else "entries alone"
    returning = roles == [Role.RETURN] and not operation.async_job
    entering = roles.count(Role.ENTRY) == 1 and roles.count(Role.EXIT) == len(roles) - 1 > 0
    if not (returning or entering):
        return "one entry and its exits, or one return probe"
    if any((site.role is Role.EXIT) != bool(site.values()) for site in plan.probes):
        return "exits with values, and nothing else with any"
    if any(isinstance(value, str) and not value for site in plan.probes for value in site.values()):
        return "with a register for each value that isn't a constant"
    if any(not site.condition and _differs_by_branch(site) for site in plan.probes):
        return "without directions where there is no condition"
    return ""


def _differs_by_branch(site: Probe) -> bool:
    return site.leaving is not Leaving.BOTH or site.taken_value != site.other_value


def probe(site: Field, file_size: int) -> Probe:
    """A probe; `file_size` bounds its offset."""
    record = site.record(Probe)
    register = record["return_register"].text(LONGEST_TEXT)
    if register and not _REGISTER.fullmatch(register):
        record["return_register"].refuse("a register")
    return Probe(
        offset=record["offset"].whole(file_size),
        address=record["address"].whole(_HIGHEST_ADDRESS),
        role=record["role"].one_of(Role),
        instruction=record["instruction"].text(LONGEST_TEXT),
        cost=record["cost"].one_of(Cost),
        stack_delta=record["stack_delta"].whole(LARGEST_FRAME),
        return_register=register,
        shared=record["shared"].flag(),
        keeps_length=record["keeps_length"].flag(),
        condition=record["condition"].one_of(("", *CONDITIONS, *AARCH64_CONDITIONS)),
        leaving=record["leaving"].one_of(Leaving),
        taken_value=_constant(record["taken_value"]),
        other_value=_constant(record["other_value"]),
        passed=record["passed"].whole(MOST_ITEMS),
        fails=record["fails"].flag(),
    )
