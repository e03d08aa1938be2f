# SPDX-License-Identifier: Apache-2.0
"""Combines findings from several files of one process: libcrypto shows the layout of a BIO, libssl uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssllatency.probes.plan import FilePlan

Users = tuple[FilePlan, tuple[int, ...]]


_IN_BIO = ("bio_flags", "bio_method", "bio_descriptor")


def complete(planned: Sequence[Users]) -> list[FilePlan]:
    """The plans, in order, each with the offsets inside a BIO from the libcrypto that the same processes map.

    Where those processes map several libcryptos that disagree about one, it stays unknown.
    """
    return [_with_bio(plan, pids, planned) for plan, pids in planned]


def _with_bio(plan: FilePlan, pids: Sequence[int], planned: Sequence[Users]) -> FilePlan:
    if plan.offsets.rwstate is None:
        return plan
    others = [other.offsets for other, users in planned if set(users) & set(pids)]
    unknown = [name for name in _IN_BIO if getattr(plan.offsets, name) is None]
    values = {name: {getattr(offsets, name) for offsets in others} - {None} for name in unknown}
    known = {name: offsets.pop() for name, offsets in values.items() if len(offsets) == 1}
    return replace(plan, offsets=replace(plan.offsets, **known)) if known else plan
