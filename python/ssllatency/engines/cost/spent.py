# SPDX-License-Identifier: Apache-2.0
"""Processor time paid up to a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from ssllatency.data_class import dataclass

_LEAST_BUSY = 0.1  # of a processor: whoever uses less of it has time to spare, and its share would be a matter of chance
LEAST_S = 0.25  # for which at least so much is taken for granted: a few handshakes at once are no load


@dataclass(frozen=True)
class Payment:
    """The payment of one process, or of those that are counted together with it, and the time that it has run, in nanoseconds
    of processor time. `traced`: whether it is traced, or one of them is."""

    cost_ns: int
    cpu_ns: int
    traced: bool = True


@dataclass(frozen=True)
class Share:
    """The part of its processor time that tracing took of whoever paid most: `counted`, as it counts against the budget;
    `at_work`, the same by the time alone that it has run, however short; `weight`, how many times what it paid they are, as who
    isn't traced has a smaller budget."""

    counted: float
    at_work: float
    weight: float = 1.0

    def times(self, factor: float) -> Share:
        """The share if hits cost so many times as much."""
        return replace(self, counted=self.counted * factor, at_work=self.at_work * factor)


@dataclass(frozen=True)
class Spent:
    """The cost up to a moment, in nanoseconds of processor time: by tracing, and by the traced processes altogether.

    `at_s`: when that was, in seconds. `payments`: those of each process that hits probes, traced or not, by the slot that its
    hits are counted in; none where they weren't asked for.
    """

    cost_ns: int = 0
    cpu_ns: int = 0
    at_s: float = 0.0
    payments: Mapping[int, Payment] = field(default_factory=dict)

    @property
    def others_cost_ns(self) -> int:
        """The payments of processes that aren't traced."""
        return sum(payment.cost_ns for payment in self.payments.values() if not payment.traced)

    def share_since(self, earlier: Spent, others_weight: float = 1.0, least_s: float = LEAST_S) -> Share | None:
        """The part that tracing took in between of the traced processes' time, or of that process's which paid most of its own;
        None where nobody did anything. `others_weight`: how many times what a process pays counts which isn't traced; `least_s`
        by share_of()."""
        shares = (self._own_share_since(earlier, least_s), *self._shares_since(earlier, others_weight, least_s))
        return max((share for share in shares if share), key=lambda share: share.counted, default=None)

    def _own_share_since(self, earlier: Spent, least_s: float) -> Share | None:
        return _share(self.cost_ns - earlier.cost_ns, self.cpu_ns - earlier.cpu_ns, self.at_s - earlier.at_s, least_s)

    def _shares_since(self, earlier: Spent, others_weight: float, least_s: float) -> Iterator[Share | None]:
        seconds = self.at_s - earlier.at_s
        for slot, now in self.payments.items():
            then = earlier.payments.get(slot, NO_PAYMENT)
            weight = 1.0 if now.traced else others_weight
            yield _share(now.cost_ns - then.cost_ns, now.cpu_ns - then.cpu_ns, seconds, least_s, weight)


NO_PAYMENT = Payment(0, 0)


def share_of(cost_ns: int, cpu_ns: int, seconds: float, least_s: float = LEAST_S) -> float | None:
    """Return which part of its processor time somebody paid in that many seconds, at least a tenth of a processor's taken for
    granted, for `least_s` or more; None for one that did nothing and paid nothing."""
    if cost_ns <= 0 and cpu_ns <= 0:
        return None
    least_ns = _LEAST_BUSY * max(seconds, least_s) * 1e9 if seconds > 0 else 0.0
    whole_ns = max(cpu_ns, least_ns)
    return max(0, cost_ns) / whole_ns if whole_ns > 0 else None


def _share(cost_ns: int, cpu_ns: int, seconds: float, least_s: float, weight: float = 1.0) -> Share | None:
    counted = share_of(cost_ns, cpu_ns, seconds, least_s)
    if counted is None:
        return None
    at_work = min(1.0, max(0, cost_ns) / cpu_ns) if cpu_ns > 0 else counted
    return Share(counted * weight, at_work * weight, weight)


def tool_share(tool_ns: float, cpu_ns: float, seconds: float) -> float:
    """The share that the tracer itself took in that many seconds, by the traced processes' processor time, of which a whole
    processor is taken for granted: where less is used there is room for it."""
    whole_ns = max(cpu_ns, seconds * 1e9)
    return max(0.0, tool_ns) / whole_ns if whole_ns > 0 else 0.0


class Paid:
    """The cost of hits, in nanoseconds, each at the price of when it was counted: the price is measured all the time, and
    what was paid before must not seem to grow while nothing is hit."""

    def __init__(self) -> None:
        self.total_ns = 0
        self._counts: Sequence[int] = ()

    def count(self, counts: Sequence[int], price_ns: Callable[[Sequence[int]], int]) -> None:
        """Adds what came since the last time; `counts` by kind, cumulative."""
        more = [now - before for now, before in zip(counts, self._counts or [0] * len(counts), strict=True)]
        if any(more):
            self.total_ns += max(0, price_ns(more))
        self._counts = counts
