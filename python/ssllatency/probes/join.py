# SPDX-License-Identifier: Apache-2.0
"""Combines findings from several files of one process: libcrypto shows the layout of a BIO, libssl uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssllatency.probes.plan import ImagePlan

Users = tuple[ImagePlan, tuple[int, ...]]


def complete(planned: Sequence[Users]) -> list[ImagePlan]:
    """The plans, in order, each with the offset of a BIO's flags from the libcrypto that the same processes map.

    Where those processes map several libcryptos that disagree, it stays unknown.
    """
    return [_with_bio_flags(plan, pids, planned) for plan, pids in planned]


def _with_bio_flags(plan: ImagePlan, pids: Sequence[int], planned: Sequence[Users]) -> ImagePlan:
    if plan.offsets.bio_flags is not None or plan.offsets.rwstate is None:
        return plan
    offsets = {other.offsets.bio_flags for other, users in planned if set(users) & set(pids)} - {None}
    return replace(plan, offsets=replace(plan.offsets, bio_flags=offsets.pop())) if len(offsets) == 1 else plan
