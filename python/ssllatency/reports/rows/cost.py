# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.cost import PayingProcess, TracingCost
from ssllatency.units import counted, duration, share

_MOST_NAMES = 16


def cost_line(cost: TracingCost | None) -> str:
    """The costs to the traced processes and to others in one short sentence; "" where that isn't known, or nobody has paid."""
    if cost is None:
        return ""
    is_seen = cost.seen_ns is not None and cost.cpu_ns
    caches = f"{share(cost.seen_ns or 0, cost.cpu_ns or 0)} with" if is_seen else "excluding"
    beside = f"({caches} cache effects)"
    if not cost.other_hits:
        return f"Cost of tracing: {_paid(cost)} {beside}." if cost.hits else ""
    others = duration(cost.other_ns)
    if not cost.hits:
        return f"Cost of tracing: {others} of CPU time of other processes."
    return f"Cost of tracing: {_paid(cost, 'the targets')} {beside}, {others} of others'."


def cost_sentences(cost: TracingCost | None) -> list[str]:
    """The costs to the traced processes, then those to others; nothing where that isn't known, or nobody has paid."""
    if cost is None:
        return []
    sentences = []
    if cost.hits:
        is_seen = cost.seen_ns is not None and cost.cpu_ns
        beyond = "" if is_seen else ", excluding cache effects"
        sentences.append(f"Cost of tracing: {_paid(cost)} ({counted(cost.hits, 'probe hit')}, {_each(cost)}){beyond}.")
    if cost.seen_ns is not None and cost.cpu_ns:
        sentences.append(
            f"With cache effects it was {share(cost.seen_ns, cost.cpu_ns)}, estimated from the processes' CPU time per"
            " system call before, during and after tracing."
        )
    if cost.other_hits:
        hits = counted(cost.other_hits, "probe hit")
        sentences.append(
            f"Processes that aren't traced paid {duration(cost.other_ns)} of CPU time for {hits}, as they use the same files:"
            " --links process spares them."
        )
    if cost.others:
        sentences.append(f"Processes that aren't traced and share the probes: {_names(cost.others)}.")
    if cost.elsewhere_ns:
        sentences.append(
            f"BPF programs at tracepoints, not probes, took {duration(cost.elsewhere_ns)} of CPU time on the whole machine."
        )
    return sentences


def _paid(cost: TracingCost, whose: str = "the traced processes") -> str:
    least = "at least " if cost.run_ns is None else ""
    if cost.cpu_ns:
        return f"{least}{share(cost.total_ns, cost.cpu_ns)} of {whose}' CPU time"
    return f"{least}{duration(cost.total_ns)} of CPU time"


def _names(others: Sequence[PayingProcess]) -> str:
    names = [f"{process.comm} (PID {process.pid})" for process in others[:_MOST_NAMES]]
    beyond = [f"{len(others) - _MOST_NAMES} more"] if len(others) > _MOST_NAMES else []
    return ", ".join(names + beyond)


def _each(cost: TracingCost) -> str:
    each = f"{duration(cost.total_ns / cost.hits)} each"
    return each if cost.run_ns is not None else f"{each} without the BPF programs' own run time, which isn't known"
