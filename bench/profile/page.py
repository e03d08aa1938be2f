# SPDX-License-Identifier: Apache-2.0
"""The page profile.md of docs/measured: what a hit's time is made of."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.measuring.intervals import of_mean
from bench.measuring.tracers import FLOOR, SSLLATENCY
from bench.profile.samples import USER, by_kind, kind_of

UNTRACED = "no tracing"
_SHOWN = 16  # symbols

PAGE = """\
# Where the time of a hit goes

Written by `make bench-profile`; run it again to measure your own machine. This page is the home of these figures: other pages
point here.

{machine}

The pump of [benchmarks.md](benchmarks.md) (one SSL_read and one SSL_write in turn, in one process), {rounds} rounds in which no
tracing, empty programs at the same sites, and `trace` take turns; {seconds:g} s of each are sampled by perf's cpu-clock.
Nanoseconds a call: the part of the samples, times the CPU time that a call took. A call has an entry and an exit site. 95 %
intervals in parentheses; what they don't tell from nothing has none of its own.

## By what is done

| | no tracing | empty programs | `trace` | what `trace` adds to empty programs |
| --- | ---: | ---: | ---: | ---: |
{kinds}

## By the kernel's symbols

Those to which `trace` adds most over empty programs (`at_nothing`):

| symbol | of | empty programs | `trace` | added |
| --- | --- | ---: | ---: | ---: |
{symbols}

## In one nginx worker

The same for a request of the keep-alive load of [benchmarks.md](benchmarks.md), in as many rounds; nanoseconds a request.

| | no tracing | empty programs | `trace` | what `trace` adds to empty programs |
| --- | ---: | ---: | ---: | ---: |
{worker_kinds}

| symbol | of | empty programs | `trace` | added |
| --- | --- | ---: | ---: | ---: |
{worker_symbols}

## Threads that count in the same rows

Each of the {cpus} CPUs has a pump: a thread of one process, whose calls all add to the same rows, or a process of its own, with
rows of its own. Nanoseconds of CPU time a call. Rows for each CPU would pay where the threads pay more than the processes.

| | no tracing | empty programs | `trace` | what `trace` adds to empty programs |
| --- | ---: | ---: | ---: | ---: |
{shared}

## How to read it

- The virtual machine has no counters of instructions or cache misses, so a timer takes the samples. It can't interrupt the
  kernel where interrupts are off: those samples fall on the function that turns them on again, most of all
  `irqentry_exit_to_user_mode` at the end of a trap. BPF programs run with interrupts on, and their figures are their own.
- *{user}* becomes dearer while it is traced by what the traps push out of caches and predictors.
- In the worker, what is added to *all else in the kernel* is of the network, by its symbols: a server that is slowed down has
  to wake its clients more often.
- Where a helper is inlined into a program (array look-ups, the atomic additions), its time is the program's.
"""


@dataclass(frozen=True)
class Profile:
    """What a call or a request took, in nanoseconds of CPU time, and the process's samples by symbol."""

    cost_ns: float
    samples: Mapping[str, int]

    @property
    def by_symbol_ns(self) -> dict[str, float]:
        """What of that time was spent in each symbol."""
        whole = sum(self.samples.values()) or 1
        return {symbol: self.cost_ns * count / whole for symbol, count in self.samples.items()}


Round = Mapping[str, Profile]
SharedRound = Mapping[tuple[str, bool], float]  # a call's time, by tracer, and whether the pumps are threads of one process


def render(
    pumped: Sequence[Round], served: Sequence[Round], shared: Sequence[SharedRound], machine: str, seconds: float
) -> str:
    """The page, of rounds of the pump, of the worker, and of several pumps at once."""
    return PAGE.format(
        machine=machine,
        rounds=len(pumped),
        seconds=seconds,
        kinds="\n".join(_kind_rows(pumped, "a call")),
        symbols="\n".join(_symbol_rows(pumped)),
        worker_kinds="\n".join(_kind_rows(served, "a request")),
        worker_symbols="\n".join(_symbol_rows(served)),
        user=USER,
        cpus=os.cpu_count(),
        shared="\n".join(
            _row(name, *([one[tracer, is_shared] for one in shared] for tracer in (UNTRACED, FLOOR, SSLLATENCY)))
            for name, is_shared in (("threads of one process", True), ("processes", False))
        ),
    )


def _kind_rows(rounds: Sequence[Round], whole_name: str) -> list[str]:
    sums = {name: [by_kind(one[name].by_symbol_ns) for one in rounds] for name in (UNTRACED, FLOOR, SSLLATENCY)}
    rows = [
        (kind, *([one[kind] for one in sums[name]] for name in (UNTRACED, FLOOR, SSLLATENCY))) for kind in sums[UNTRACED][0]
    ]
    whole = ([one[name].cost_ns for one in rounds] for name in (UNTRACED, FLOOR, SSLLATENCY))
    return [_row(*row) for row in (*rows, (whole_name, *whole))]


def _row(name: str, untraced: Sequence[float], floor: Sequence[float], traced: Sequence[float]) -> str:
    return f"| {name} | {fmean(untraced):,.0f} | {fmean(floor):,.0f} | {fmean(traced):,.0f} | {_added(floor, traced)} |"


def _symbol_rows(rounds: Sequence[Round]) -> list[str]:
    pairs = [(one[FLOOR].by_symbol_ns, one[SSLLATENCY].by_symbol_ns) for one in rounds]
    symbols = {symbol for floor, traced in pairs for symbol in (*floor, *traced)} - {USER}

    def values(symbol: str) -> tuple[list[float], list[float]]:
        return [floor.get(symbol, 0.0) for floor, _ in pairs], [traced.get(symbol, 0.0) for _, traced in pairs]

    most = sorted(symbols, key=lambda symbol: fmean(values(symbol)[0]) - fmean(values(symbol)[1]))[:_SHOWN]
    return [
        f"| `{symbol}` | {kind_of(symbol)} | {fmean(floor):,.0f} | {fmean(traced):,.0f} | {_added(floor, traced)} |"
        for symbol in most
        for floor, traced in [values(symbol)]
    ]


def _added(floor: Sequence[float], traced: Sequence[float]) -> str:
    interval = of_mean([after - before for before, after in zip(floor, traced, strict=True)])
    bounds = f"({interval.low:,.0f} to {interval.high:,.0f})"
    return bounds if interval.holds(0) else f"{interval.middle:,.0f} {bounds}"
