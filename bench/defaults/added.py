# SPDX-License-Identifier: Apache-2.0
"""What commands add to the CPU time of a server's work, as a table: a column for each server, a row for each command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from bench.figures import table
from bench.measuring.intervals import Pair, of_added, of_ratio

ByCommand = Mapping[str, Sequence[Pair]]


def in_ns(by_command: ByCommand, twins_ns: float) -> ByCommand:
    """Pairs of costs that were divided by those of a twin, which took so many nanoseconds in the mean."""
    return {
        name: [Pair(pair.without * twins_ns, pair.traced * twins_ns) for pair in pairs] for name, pairs in by_command.items()
    }


def table_of_added(what: str, by_server: Mapping[str, ByCommand]) -> str:
    """The table, from costs in nanoseconds; `what`: the work that they are the cost of."""
    without = ("without tracing", *(f"{_without_us(by_command):.1f} us" for by_command in by_server.values()))
    names = next(iter(by_server.values()))
    rows = ((name, *(_added(by_command[name]) for by_command in by_server.values())) for name in names)
    return table((what, *by_server), [without, *rows])


def _without_us(by_command: ByCommand) -> float:
    return fmean(pair.without for pairs in by_command.values() for pair in pairs) / 1000


def _added(pairs: Sequence[Pair]) -> str:
    added, ratio = of_added(pairs), of_ratio(pairs)
    low, high = added.low / 1000, added.high / 1000
    return f"{added.middle / 1000:+.1f} us ({low:+.1f} to {high:+.1f}), {ratio.middle:.3f} times"
