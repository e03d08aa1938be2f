# SPDX-License-Identifier: Apache-2.0
"""What a tracer without a planner does: a return probe on each function's first instruction.

Only for programs that return from their functions in the order in which they called them: no ASYNC jobs, no fibers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ssllatency.code.machine import Cost
from ssllatency.model.histogram import ExponentialHistogram, quantile_rank
from ssllatency.model.snapshot import Outcome, Series, Snapshot
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import FilePlan, OperationPlan, Probe, Role


def with_return_probes(plan: FilePlan) -> FilePlan:
    """The plan with a return probe in place of each operation's exit sites."""
    return replace(plan, operations=tuple(_returning(each) for each in plan.operations))


def _returning(planned: OperationPlan) -> OperationPlan:
    if BY_NAME[planned.operation].only_entry:
        return planned
    offset = planned.address + planned.probes[0].offset - planned.probes[0].address
    probe = Probe(offset, planned.address, Role.RETURN, "", Cost.SINGLE_STEPPED)
    return replace(planned, probes=(probe,))


Rows = dict[tuple[str, Outcome], Series]


def rows(snapshot: Snapshot) -> Rows:
    """The series by function and outcome; needs a trace of one process."""
    found = {(one.function, one.outcome): one for one in snapshot.series}
    assert len(found) == len(snapshot.series)
    return found


def distances(ours: ExponentialHistogram, stock: ExponentialHistogram, shares: Iterable[float]) -> list[int]:
    """By how many buckets the stock probes' quantiles lie above ours."""
    return [_bucket(stock, share) - _bucket(ours, share) for share in shares]


def _bucket(histogram: ExponentialHistogram, share: float) -> int:
    return histogram.bucket_at(quantile_rank(share, histogram.count))
