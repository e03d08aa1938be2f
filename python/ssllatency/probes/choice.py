# SPDX-License-Identifier: Apache-2.0
"""A part of a plan: only the operations that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import FilePlan


def chosen(plan: FilePlan, patterns: Sequence[str]) -> FilePlan:
    """The plan with only the operations that a shell pattern matches; operations that aren't timed themselves stay if any other
    does."""

    def matches(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    kept = [planned for planned in plan.operations if BY_NAME[planned.operation].only_entry or matches(planned.operation)]
    if all(BY_NAME[planned.operation].only_entry for planned in kept):
        kept = []
    missing = tuple(absent for absent in plan.missing if matches(absent.operation))
    return replace(plan, operations=tuple(kept), missing=missing)
