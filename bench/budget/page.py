# SPDX-License-Identifier: Apache-2.0
"""The page docs/measured/budget.md: what runs under a budget kept, and how often their estimates held the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from bench.budget.own_counts import FUNCTIONS
from bench.budget.runs import HANDSHAKES, BudgetRun, Estimated
from bench.measuring.intervals import of_mean

PAGE = """\
# What a budget keeps

Written by `make bench-budget RUNS={number}`; run it again to measure your own machine. This page is the home of these figures:
other pages point here.

{machine}

One nginx worker on a CPU of its own under wrk (keep-alive, {connections} connections, 1 KiB a response) at full speed; runs of
`trace --links process --budget {budget} -d {seconds:g}`, each between two times without tracing. The server counts and times
its calls itself, in its own process and without a probe (bench/budget/calls.c): that is the truth. {handshakes} handshakes are
made during each run. Means have their 95 % intervals in parentheses.

{table}

- *requests kept*: the rate from when the tracer says that it traces until its time is over, by that without. The tracer runs on
  the client's CPU, so what it takes there is in it, and so is what other processes of the machine take meanwhile. By the
  worker's CPU time these change little. What the tracer's own start and end take, once a run, isn't in it.
- *the estimate by the truth*: the estimated number of calls by the true one, and the widest that the interval was.
- *p99*: where calls take longer in windows than between them, as in a server at full speed, its interval is only bounded from
  above: "held" says that the truth lies below. *p99 by the truth* says how much longer calls took in windows.
"""


def render(runs: Sequence[BudgetRun], machine: str, budget: str, seconds: float, connections: int) -> str:
    """The page."""
    rows = [("", f"of {len(runs)} runs"), ("---", "---:"), *_rows(runs)]
    return PAGE.format(
        number=len(runs),
        machine=machine,
        connections=connections,
        budget=budget,
        seconds=seconds,
        handshakes=HANDSHAKES,
        table="\n".join(f"| {name} | {value} |" for name, value in rows),
    )


def _rows(runs: Sequence[BudgetRun]) -> list[tuple[str, str]]:
    rows = [
        ("requests kept", _mean([run.kept for run in runs])),
        ("requests a second of the worker's CPU time kept", _mean([run.kept_by_cpu for run in runs])),
        ("the cost that is stated", _mean([run.share for run in runs])),
        ("hits were dearer than measured by the factor", f"{fmean(run.dearer for run in runs):.2f}"),
        ("handshakes exact", f"{sum(run.exact for run in runs)} of {len(runs)}"),
    ]
    for function in FUNCTIONS:
        rows += _estimate_rows(function, [run.estimated[function] for run in runs if function in run.estimated], len(runs))
    return rows


def _estimate_rows(function: str, estimated: Sequence[Estimated], number: int) -> list[tuple[str, str]]:
    if not estimated:
        return [(f"{function}: estimated", f"0 of {number}")]
    widest = max(((one.count[2] or 0.0) - (one.count[1] or 0.0) for one in estimated), default=0.0)
    values = [one.count[0] for one in estimated]
    return [
        (f"{function}: the number of calls held by its interval", _share(estimated, lambda one: one.count_held, number)),
        (f"{function}: the estimate by the truth", f"{min(values):.3f} to {max(values):.3f} (widest interval {widest:.3f})"),
        (f"{function}: p99 held", _share(estimated, lambda one: one.p99_held, number)),
        (f"{function}: p99 by the truth", f"{fmean(one.p99_ns[0] / one.true_p99_ns for one in estimated):.2f}"),
    ]


def _share(estimated: Sequence[Estimated], held: Callable[[Estimated], bool], number: int) -> str:
    return f"{sum(map(held, estimated))} of {number}"


def _mean(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{100 * values[0]:.1f} %"
    interval = of_mean(values)
    return f"{100 * interval.middle:.1f} % ({100 * interval.low:.1f} % to {100 * interval.high:.1f} %)"
