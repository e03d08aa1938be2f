# SPDX-License-Identifier: Apache-2.0
"""The rows that the bpftrace engine keeps, and how they are read back: the kernel's histograms, bucket for bucket.

@calls counts by process, row and slot; a row is the operation's number times how many outcomes there are, plus the outcome.
Slots: the exponential bucket, numbered from the underflow on (0, and 481 the overflow), from LINEAR on the linear one, from
REASON on the reason. @total, @least and @most keep the other figures of a row. @all counts every call once more, and is read
before @calls, so that the calls for which @calls had no room are known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ssllatency.abi import Outcome, Reason
from ssllatency.data_class import dataclass
from ssllatency.engines.base import LinearRange
from ssllatency.engines.bpftrace.judge import Lines
from ssllatency.engines.read import collect
from ssllatency.model.histogram import BUCKET_COUNT, UNDERFLOW, ExponentialHistogram, octave_bounds
from ssllatency.model.snapshot import Series

LINEAR, REASON = 1000, 2000
_SHIFT_TO = 36  # the highest bit of a duration once it is normalised, above that of any counted one
_SHORTEST_NS, _LONGEST_NS = 60, 64 * 10**9  # of what is neither underflow nor overflow
_OVERFLOW_SLOT = BUCKET_COUNT + 1
# That of the bucket which ends at the first bound from 2^_SHIFT_TO on, see octave_bounds().
_HIGHEST_SLOT = 16 * _SHIFT_TO - 479 - UNDERFLOW
_OUTCOMES = len(Outcome)  # rows of each operation

Maps = Mapping[str, Any]


def exponential_slot() -> Lines:
    """Sets $slot to the bucket of $ns, exactly as bpf/common/histogram.bpf.h does."""
    lines = [
        "$slot = (uint64)0;",
        f"if ($ns > {_LONGEST_NS}) {{",
        f"$slot = (uint64){_OVERFLOW_SLOT};",
        f"}} else if ($ns >= {_SHORTEST_NS}) {{",
        "$high = $ns;",
        f"$slot = (uint64){_HIGHEST_SLOT};",
    ]
    for shift in (16, 8, 4, 2, 1):
        lines += [f"if ($high < {1 << _SHIFT_TO + 1 - shift}) {{", f"$high = $high << {shift};"]
        lines += [f"$slot = $slot - {16 * shift};", "}"]
    above = " + ".join(f"($high > {bound})" for bound in octave_bounds(_SHIFT_TO))
    return [*lines, f"$slot = $slot + {above};", "}"]


def linear_slot(linear: LinearRange) -> Lines:
    """Sets $linear to the slot of the linear bucket."""
    lines = ["$us = $ns / 1000;", f"$linear = (uint64){LINEAR};", f"if ($us >= {linear.maximum}) {{"]
    lines += [f"$linear = (uint64){LINEAR + 1 + linear.buckets};"]
    return [
        *lines,
        f"}} else if ($us >= {linear.minimum}) {{",
        f"$linear = {LINEAR + 1} + ($us - {linear.minimum}) / {linear.step};",
        "}",
    ]


@dataclass(frozen=True)
class Numbers:
    """The recorder of the engine. `names`: keep the process's name, too."""

    linear: LinearRange
    names: bool
    begin_lost = "@lost[0] = count();"
    end_lost = "@lost[1] = count();"
    full = "@lost[2] = count();"

    def verdict(self, operation: str, outcome: Outcome, reason: Reason) -> str:
        """Keeps the reason until the call is recorded."""
        del operation
        return f"$outcome = {outcome.value}; $reason = {reason.value};"

    def record(self, number: int, operation: str) -> Lines:
        """The statements that add the call to its row."""
        del operation
        name = ['if (@name[pid] == "") {', "@name[pid] = comm;", "}"] if self.names else []
        return [
            *exponential_slot(),
            *linear_slot(self.linear),
            f"$row = {_OUTCOMES * number} + $outcome;",
            "@all = count();",
            "@calls[pid, $row, $slot] = count();",
            "@calls[pid, $row, $linear] = count();",
            f"if ($reason < {Reason.NONE.value}) {{",
            f"@calls[pid, $row, {REASON} + $reason] = count();",
            "}",
            "@total[pid, $row] = sum($ns);",
            "@least[pid, $row] = min($ns);",
            "@most[pid, $row] = max($ns);",
            *name,
        ]


@dataclass
class CallTotals:
    """One row as it is added up; several of folded processes may go into one."""

    slots: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    total: int = 0
    least: int | None = None
    most: int | None = None

    def series(self, key: collect.Key, operations: Sequence[str], wanted: LinearRange) -> Series:
        """Return it as a series of the model."""
        pid, number, outcome = key
        return Series(
            function=operations[number],
            outcome=collect.OUTCOMES[Outcome(outcome)],
            pid=pid or None,
            total_ns=self.total,
            min_ns=self.least,
            max_ns=self.most,
            exponential=self._exponential(),
            linear=collect.linear_histogram([self.slots[LINEAR + n] for n in range(wanted.buckets + 2)], wanted),
            reasons={collect.REASONS.get(n, "unknown"): c for n in range(Reason.NONE) if (c := self.slots[REASON + n])},
        )

    def _exponential(self) -> ExponentialHistogram:
        inner = [self.slots[n] for n in range(1, _OVERFLOW_SLOT)]
        return ExponentialHistogram.from_dense(inner, self.slots[0], self.slots[_OVERFLOW_SLOT])


def rows(maps: Maps, process: Mapping[int, int]) -> dict[collect.Key, CallTotals]:
    """The contents of the maps, by process, operation and outcome. `process` gives the process under which another counts."""
    counted: dict[collect.Key, CallTotals] = defaultdict(CallTotals)
    for (pid, row, slot), calls in keyed(maps, "@calls"):
        counted[process.get(pid, pid), *divmod(row, _OUTCOMES)].slots[slot] += calls
    for (pid, row), total in keyed(maps, "@total"):
        counted[process.get(pid, pid), *divmod(row, _OUTCOMES)].total += total
    for (pid, row), least in keyed(maps, "@least"):
        series = counted[process.get(pid, pid), *divmod(row, _OUTCOMES)]
        series.least = least if series.least is None else min(least, series.least)
    for (pid, row), most in keyed(maps, "@most"):
        series = counted[process.get(pid, pid), *divmod(row, _OUTCOMES)]
        series.most = most if series.most is None else max(most, series.most)
    return counted


def keyed(maps: Maps, name: str) -> list[tuple[tuple[int, ...], Any]]:
    """The entries of a map whose key is of numbers."""
    return [(tuple(map(int, key.split(","))), value) for key, value in maps.get(name, {}).items()]


def lost(maps: Maps, number: int) -> int:
    """One of the counters in @lost."""
    return int(dict(keyed(maps, "@lost")).get((number,), 0))


def without_room(maps: Maps, room: int) -> int:
    """Return how many calls @calls had no room for, at least: calls continue between the reading of the two maps. `room` is how
    many entries the map has room for."""
    return _missing(maps) if _is_full(maps, room) else 0


def overwritten(maps: Maps, room: int) -> int:
    """Return how many calls @calls has lost although it had room: bpftrace adds to a count without an atomic operation, so that
    two calls which are added at once may count as one."""
    return 0 if _is_full(maps, room) else _missing(maps)


def _is_full(maps: Maps, room: int) -> bool:
    return len(maps.get("@calls", {})) >= room


def _missing(maps: Maps) -> int:
    """Return how many more calls @all has than @calls."""
    counted: int = sum(calls for (_, _, slot), calls in keyed(maps, "@calls") if slot < LINEAR)
    everything: int = maps.get("@all", 0)
    return max(everything - counted, 0)
