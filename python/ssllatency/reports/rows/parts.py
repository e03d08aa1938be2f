# SPDX-License-Identifier: Apache-2.0
"""Where the time of one ending's handshakes went: the mean handshake's pieces, and a row for each part."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.handshake_arithmetic import total
from ssllatency.model.handshakes import BEFORE, MEANWHILE, PHASES, Ending, Group, Handshakes, Part, Times
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.parts import PARTS, PIECES
from ssllatency.reports.words.quantiles import quantile
from ssllatency.reports.words.units import duration, share

HEADINGS = ("Part", "Count", "Share", "Mean", "p50", "p90", "p99", "Max")
_QUANTILES = (0.5, 0.9, 0.99)

# Each row of the table and how deep it stands below the one that it is a part of.
_ROWS = (
    (Part.WALL, 0),
    (Part.CALLS, 1),
    *((phase, 2) for phase in PHASES),
    (Part.REST_ASLEEP, 3),
    (Part.ON_CPU, 2),
    (Part.OFF_CPU, 2),
    (Part.OFF_CPU_RUNNABLE, 3),
    (Part.GONE, 2),
    (Part.WAIT_PEER, 1),
    (Part.ROUND_TRIPS, 2),
    (Part.LOSSES, 2),
    (Part.QUEUE_SERVER, 1),
    (Part.WAIT_PEER_OR_SERVER, 1),
    (Part.WAIT_WINDOW, 1),
    (Part.WAIT_OFFLOAD, 1),
    (Part.COMPLETION, 2),
    (Part.RESUMPTION, 2),
    (Part.WAIT_APPLICATION, 1),
    (Part.WAIT_UNKNOWN, 1),
    *((part, 0) for part in BEFORE),
    (Part.QUEUE, 0),
    *((part, 1) for part in MEANWHILE),
)

_NOT_IN_WALL = frozenset((*BEFORE, Part.QUEUE, *MEANWHILE))


def shown_group(handshakes: Handshakes) -> Group | None:
    """The handshakes whose time is shown: the successful ones where there are any, else the failed, else the abandoned ones."""
    return next((group for group in (total(handshakes, ending) for ending in Ending) if group), None)


def mean_ns(group: Group, parts: Sequence[Part] = PIECES) -> dict[Part, float]:
    """The time of each part in the mean handshake, whether a handshake had it or not, so that they add up to the whole."""
    return {part: group.parts[part].total_ns / group.count for part in parts if part in group.parts}


def mostly_waits(group: Group) -> bool:
    """Whether most of the time was spent waiting, so that what is in the calls is to be seen only in a bar of its own."""
    phases = sum(bool(group.total_ns(phase)) for phase in PHASES)
    return phases > 1 and 2 * group.total_ns(Part.CALLS) < group.total_ns(Part.WALL)


def part_rows(group: Group) -> list[Row]:
    """A row for each part, under HEADINGS: each of the handshakes that had it, with its share of the wall time where it lies
    in that."""
    wall_ns = group.parts[Part.WALL].total_ns
    present = [(part, depth, group.parts[part]) for part, depth in _ROWS if part in group.parts and group.parts[part].count]
    return [
        Row((PARTS[part],), _cells(times, 0 if part in _NOT_IN_WALL else wall_ns), depth, part)
        for part, depth, times in present
    ]


def _cells(times: Times, wall_ns: int) -> tuple[str, ...]:
    quantiles = (quantile(times, q) for q in _QUANTILES)
    mean = duration(times.total_ns / times.count)
    return str(times.count), share(times.total_ns, wall_ns) if wall_ns else "-", mean, *quantiles, duration(times.max_ns)
