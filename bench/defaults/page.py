# SPDX-License-Identifier: Apache-2.0
"""The page docs/measured/defaults.md: what is kept while a command runs with nothing but a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from bench.defaults.half_load import P50, P99
from bench.measuring.intervals import Interval, Pair, of_mean
from bench.measuring.rounds import COST, Measured

PAGE = """\
# What the defaults keep

Written by `make bench-defaults`; run it again to measure your own machine. This page is the home of these figures: other pages
point here.

{machine}

Each command runs with nothing but a target (`-p PID`), on a server that is under load before the command starts and after it
has ended. What is kept is the rate at which clients are answered, over {seconds:g} s from when the command says that it traces,
by the mean of the rates just before and just after; with its 95 % interval of {rounds} rounds. *{again}* is no tracing measured
as if it were a command: it shows what the machine's noise comes to. Server and clients have a CPU each, and the command shares
both: what it takes itself is in the figures. Clients map copies of the libraries, so that they aren't probed.

{hits}

## Requests kept at full speed

{kept}

- *nginx, kept connections*: one worker, {connections} connections of wrk, 1 KiB an answer. With several workers they share both
  CPUs with the client.
- *nginx, close*: a full handshake with RSA-2048 for each request.
- *haproxy*: one thread, which answers itself. *asyncio*: a server of Python. *PostgreSQL*: {sessions} sessions that ask for a
  constant.
- *a bystander*: a process that only calls SSL_read and SSL_write, without a pause, and isn't traced, beside an idle one that
  is; by its CPU time a call.

## Latency at half load

An nginx worker is asked {rate:,.0f} times a second over {clients} kept connections, half of what it answers at full speed: what
clients measured (h2load), in microseconds.

{half}
"""


def kept_table(works: Mapping[str, Measured]) -> str:
    """A row for each command, a column for each work."""
    pairs = {work: {name: measured.pairs(name, COST) for name in measured.visits} for work, measured in works.items()}
    return kept_pairs(pairs)


def kept_pairs(works: Mapping[str, Mapping[str, Sequence[Pair]]]) -> str:
    """The same of costs without and with each command."""
    names = list(dict.fromkeys(name for measured in works.values() for name in measured))
    rows = [("", *works), ("---", *["---:"] * len(works))]
    for name in names:
        rows.append((name, *(_kept(measured.get(name, ())) for measured in works.values())))
    return _table(rows)


def _kept(pairs: Sequence[Pair]) -> str:
    return _percent(of_mean([pair.without / pair.traced for pair in pairs])) if pairs else ""


def half_table(measured: Measured) -> str:
    """The median and the 99th percentile, without and with each command."""
    rows = [("", "P50 without", "with", "P99 without", "with"), ("---", *["---:"] * 4)]
    for name in measured.visits:
        rows.append((name, *_both(measured.pairs(name, P50)), *_both(measured.pairs(name, P99))))
    return _table(rows)


def _both(pairs: list[Pair]) -> tuple[str, str]:
    return f"{fmean(pair.without for pair in pairs):.0f}", f"{fmean(pair.traced for pair in pairs):.0f}"


def _percent(interval: Interval) -> str:
    return f"{100 * interval.middle:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
