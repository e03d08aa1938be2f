# SPDX-License-Identifier: Apache-2.0
"""Combines findings from several files of one process: libcrypto shows the layouts of a BIO and an X509, libssl uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssllatency.probes.plan import FilePlan

Users = tuple[FilePlan, tuple[int, ...]]


_IN_LIBCRYPTO = ("bio_flags", "bio_method", "bio_descriptor", "x509_encoding", "x509_signature", "stack_count")


def complete(planned: Sequence[Users]) -> list[FilePlan]:
    """The plans, in order, each with the offsets from the libcrypto that the same processes map.

    Where those processes map several libcryptos that disagree about one, it stays unknown.
    """
    return [_with_libcrypto(plan, pids, planned) for plan, pids in planned]


def _with_libcrypto(plan: FilePlan, pids: Sequence[int], planned: Sequence[Users]) -> FilePlan:
    if plan.offsets.rwstate is None:
        return plan
    others = [other.offsets for other, users in planned if set(users) & set(pids)]
    unknown = [name for name in _IN_LIBCRYPTO if getattr(plan.offsets, name) is None]
    values = {name: {getattr(offsets, name) for offsets in others} - {None} for name in unknown}
    known = {name: offsets.pop() for name, offsets in values.items() if len(offsets) == 1}
    return replace(plan, offsets=replace(plan.offsets, **known)) if known else plan
