# SPDX-License-Identifier: Apache-2.0
"""What the rounds add up to, and the page that says it. Pure functions of the measurements.

Every round measures all tracers one after the other. What a tracer adds is taken within a round, so that a machine that
slows down or speeds up between rounds does not count as a tracer; the figures are the medians over the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from tracers import FLOOR, NO_TRACING, SSLLATENCY, STOCK

AIM = 0.5  # of the added time of ssllatency.bt


@dataclass(frozen=True)
class Added:
    """What a tracer adds to a cost: the median over the rounds, and the quartiles, between which half of the rounds lie."""

    median: float
    low: float
    high: float


Costs = Mapping[str, Sequence[float]]  # by tracer, one for each round


def added(costs: Costs, tracer: str) -> Added:
    """What a tracer adds to a cost, in the unit of the costs."""
    differences = [with_it - without for with_it, without in zip(costs[tracer], costs[NO_TRACING], strict=True)]
    low, middle, high = quantiles(differences, n=4, method="inclusive")
    return Added(middle, low, high)


def ratio(costs: Costs, tracer: str, base: str) -> float | None:
    """What a tracer adds, divided by what `base` adds: the medians. None where what the base adds is lost in the noise."""
    whole = added(costs, base)
    return added(costs, tracer).median / whole.median if whole.low > 0 else None


def pump_table(costs: Costs) -> str:
    """Nanoseconds a call of the pump."""
    head = ("", "ns a call", "added ns a call", "middle half", "of the floor's", "of ssllatency.bt's")
    return _table(head, [(name, f"{median(costs[name]):,.0f}", *_added_cells(costs, name, "{:,.0f}".format)) for name in costs])


def worker_table(rates: Costs, cpu_ns: Costs) -> str:
    """Requests a second of the worker, and microseconds of its CPU time a request."""
    head = ("", "requests/s", "kept", "added µs of CPU a request", "middle half", "of the floor's", "of ssllatency.bt's")
    rows = []
    for name in rates:
        kept = median(rate / without for rate, without in zip(rates[name], rates[NO_TRACING], strict=True))
        rows.append((name, f"{median(rates[name]):,.0f}", f"{kept:.0%}", *_added_cells(cpu_ns, name, _microseconds)))
    return _table(head, rows)


def start_table(first_s: Costs, later_s: Costs) -> str:
    """Seconds to attached without plans kept from before and with them, medians."""
    rows = [(name, f"{median(first_s[name]):.2f} s", f"{median(later_s[name]):.2f} s") for name in first_s]
    return _table(("", "first start to attached", "later starts"), rows)


def verdict(costs_by_work: Mapping[str, Costs]) -> str:
    """One sentence for each work: whether ssllatency adds no more than AIM of what ssllatency.bt adds."""
    lines = []
    for work, costs in costs_by_work.items():
        share = ratio(costs, SSLLATENCY, STOCK)
        if share is None:
            lines.append(f"- {work}: what ssllatency.bt adds is lost in the noise of this run, so there is nothing to compare.")
        else:
            lines.append(f"- {work}: {share:.2f} of what ssllatency.bt adds; the aim, {AIM}, is {_met(share)}.")
    return "\n".join(lines)


def against(costs_by_work: Mapping[str, Costs], tracer: str, base: str) -> str:
    """One line for each work: what a tracer adds, as a part of what another one does."""
    lines = []
    for work, costs in costs_by_work.items():
        share = ratio(costs, tracer, base)
        lines.append(f"- {work}: {'lost in the noise of this run' if share is None else format(share, '.2f')}.")
    return "\n".join(lines)


def _met(share: float) -> str:
    return "met" if share <= AIM else "missed"


def _added_cells(costs: Costs, name: str, show: Callable[[float], str]) -> tuple[str, ...]:
    if name == NO_TRACING:
        return ("", "", "", "")
    extra = added(costs, name)
    spread = f"{show(extra.low)} to {show(extra.high)}"
    return (show(extra.median), spread, _times(ratio(costs, name, FLOOR)), _times(ratio(costs, name, STOCK)))


def _times(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


def _microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
