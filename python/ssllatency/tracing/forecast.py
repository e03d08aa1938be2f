# SPDX-License-Identifier: Apache-2.0
"""The cost of an engine that can't remove probes while it runs: told before it attaches, by what the processes do now."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ssllatency.engines.cost import around
from ssllatency.engines.cost.spent import share_of
from ssllatency.errors import SsllatencyError
from ssllatency.model.cost import Moment
from ssllatency.probes.costs import REFERENCE, HitCosts
from ssllatency.tracing.resolve import Resolved

_LOOK_S = 0.25  # how long the processes are looked at, where nobody did so before
_HITS_OF_CALL = 2  # a call begins and ends
_PROGRAM_NS = 1_500  # what bpftrace's programs take at each: docs/measured/benchmarks.md


def refuse_beyond(
    engine: str,
    budget: float,
    resolved: Resolved,
    costs: HitCosts | None,
    look: Callable[[Collection[int]], Moment] = around.look,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """SsllatencyError where the engine would cost one of these processes more than the budget. Each read or write system call
    is taken for one of SSL_read or SSL_write: most servers make one for each."""
    pids = {pid for image in resolved.images for pid in image.pids} | {target.pid for target in resolved.targets}
    before = resolved.before
    if before is None or not set(before.done) >= pids:
        before = look(pids)
        sleep(_LOOK_S)
    share = forecast(before, look(pids), costs or REFERENCE)
    if share > budget:
        raise SsllatencyError(
            f"{engine} can't remove probes while it runs, and would take about {100 * min(share, 0.95):.0f} % of a process's"
            f" CPU time, more than the budget of {100 * budget:g} %: --engine libbpf keeps it, and --exact lifts it."
        )


def forecast(before: Moment, now: Moment, costs: HitCosts) -> float:
    """The part of its CPU time that it would take of the process which paid most, by what each did between two moments."""
    call_ns = _HITS_OF_CALL * (costs.emulated + costs.after_work + _PROGRAM_NS)
    shares = [0.0]
    for pid, (calls, cpu_ns) in now.done.items():
        if pid in before.done:
            calls_before, cpu_before_ns = before.done[pid]
            cost_ns = (calls - calls_before) * call_ns
            shares.append(share_of(cost_ns, cpu_ns - cpu_before_ns + cost_ns, now.at_s - before.at_s) or 0.0)
    return max(shares)
