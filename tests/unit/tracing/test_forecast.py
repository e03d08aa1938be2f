# SPDX-License-Identifier: Apache-2.0
"""What bpftrace would cost is told before it attaches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.model.cost import Moment
from ssllatency.model.snapshot import Target
from ssllatency.probes.costs import HitCosts
from ssllatency.tracing.forecast import forecast, refuse_beyond

if TYPE_CHECKING:
    from ssllatency.tracing.resolve import Resolved

COSTS = HitCosts(optimised=200, emulated=400, single_stepped=4_000, returning=300, after_work=100)
CALL_NS = 2 * (400 + 100 + 1_500)
S = 10**9


def at(seconds: float, **done: tuple[int, int]) -> Moment:
    return Moment(seconds, {int(pid[1:]): values for pid, values in done.items()})


def test_the_process_that_would_pay_most_decides() -> None:
    before, now = at(0, p5=(0, 0), p6=(0, 0)), at(1, p5=(1_000, S // 2), p6=(100_000, S), p7=(10**9, 1))
    whole_ns = S + 100_000 * CALL_NS
    assert forecast(before, now, COSTS) == pytest.approx(100_000 * CALL_NS / whole_ns)


def test_who_does_little_pays_little() -> None:
    assert forecast(at(0, p5=(0, 0)), at(1, p5=(100, S // 1000)), COSTS) == pytest.approx(100 * CALL_NS / (S / 10))
    assert forecast(at(0), at(1), COSTS) == 0


@dataclass
class Named:
    """What of Resolved is asked."""

    before: Moment | None
    targets: tuple[Target, ...] = (Target(5, "nginx", ()),)
    images: tuple[object, ...] = ()
    slept: list[float] = field(default_factory=list)


@pytest.mark.parametrize("seen", [True, False])
def test_what_exceeds_the_budget_is_refused(seen: bool) -> None:
    moments = [at(0, p5=(0, 0)), at(1, p5=(50_000, S))]
    named = Named(moments.pop(0) if seen else None)

    def refuse(budget: float) -> None:
        left = iter(moments)
        refuse_beyond("bpftrace", budget, cast("Resolved", named), COSTS, lambda _: next(left), named.slept.append)

    with pytest.raises(SsllatencyError, match=r"would take about 17 % .* more than the budget of 5 %: .*--exact lifts it"):
        refuse(0.05)
    refuse(0.2)
    assert bool(named.slept) is not seen
