# SPDX-License-Identifier: Apache-2.0
"""What ssllatency says that its own trace cost ("cost" in its JSON document), beside what the traced process lost. Pure
functions.

`kernel_ns` is what the kernel took for the hits, `run_ns` what the programs ran, both over the whole trace and all targets;
`share` is the part of the targets' CPU time that this was, `other_ns` what processes paid that aren't targets. `seen_ns` is
what the targets' own CPU time for each system call showed, with what hits push out of caches: the share is by it, where it is
known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bench.measuring.intervals import Interval, of_mean, of_quotient
from bench.measuring.rounds import COST, Visit

PER_CALL, SHARE = "stated ns a call", "stated share"
AIM = 0.2  # what is stated is to be right to within this part of it


@dataclass(frozen=True)
class StatedCost:
    """Nanoseconds that a trace says it took of its targets' CPU time, and what part of that time it was, if it says so;
    nanoseconds that it took of others'."""

    ns: float
    share: float | None
    others_ns: float


def stated_cost(output: str) -> StatedCost | None:
    """What a tracer's output says of its cost; None for what says nothing of it, or isn't one JSON document."""
    try:
        document = json.loads(output)
    except ValueError:
        return None
    cost = document.get("cost") if isinstance(document, dict) else None
    if not isinstance(cost, dict):
        return None
    kernel_ns, run_ns, share, others_ns = (cost.get(name) for name in ("kernel_ns", "run_ns", "share", "other_ns"))
    if kernel_ns is None or run_ns is None or others_ns is None:
        return None
    seen_ns, cpu_ns = cost.get("seen_ns"), cost.get("cpu_ns")
    return StatedCost(kernel_ns + run_ns, seen_ns / cpu_ns if seen_ns is not None and cpu_ns else share, others_ns)


@dataclass(frozen=True)
class Check:
    """What was stated and what was measured, in one unit, and the one divided by the other; None where what was measured isn't
    told from nothing."""

    stated: Interval
    measured: Interval
    quotient: Interval | None

    @property
    def verdict(self) -> str:
        """Whether the statement is right to within AIM."""
        if self.quotient is None:
            return "the loss is not to be told from nothing"
        if self.quotient.low >= 1 - AIM and self.quotient.high <= 1 + AIM:
            return f"within {100 * AIM:.0f} %"
        if self.quotient.high < 1 - AIM or self.quotient.low > 1 + AIM:
            return f"not within {100 * AIM:.0f} %"
        return f"not known whether within {100 * AIM:.0f} %"


def check(visits: Sequence[Visit], quantity: str) -> Check | None:
    """Of a tracer's visits: what it stated a call, or as a share, against the pairs of costs. None where it stated nothing."""
    stating = [visit for visit in visits if quantity in visit.traced]
    if len(stating) < 2:
        return None
    stated = [visit.traced[quantity] for visit in stating]
    pairs = [visit.pair(COST) for visit in stating]
    measured = [pair.added if quantity == PER_CALL else pair.share for pair in pairs]
    return Check(of_mean(stated), of_mean(measured), of_quotient(stated, measured))
