# SPDX-License-Identifier: Apache-2.0
"""The time of one ending's handshakes: the mean handshake's pieces, and a row for each part.

Where phases were watched in some of the handshakes only, their share of all is estimated from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import (
    BEFORE,
    CLIENT_WAIT_PARTS,
    MEANWHILE,
    PHASES,
    SAMPLED,
    Ending,
    Group,
    Handshakes,
    Part,
    Times,
)
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.parts import CLIENT_PIECES, PARTS
from ssllatency.reports.words.quantiles import quantile
from ssllatency.units import duration, share

HEADINGS = ("Part", "Count", "Share", "Mean", "p50", "p90", "p99", "Max")
ESTIMATED = "~"
_QUANTILES = (0.5, 0.9, 0.99)

# Each row of the table and how deep it stands below the one that it is a part of.
_ROWS = (
    (Part.CLIENT_WAIT, 0),
    (Part.WALL, 0),
    (Part.CALLS, 1),
    *((phase, 2) for phase in PHASES),
    (Part.REST_ASLEEP, 3),
    (Part.ON_CPU, 2),
    (Part.OFF_CPU, 2),
    (Part.OFF_CPU_RUNNABLE, 3),
    (Part.OFF_CPU_THROTTLED, 4),
    (Part.ASSISTS, 2),
    (Part.GONE, 2),
    (Part.WAIT_PEER, 1),
    (Part.ROUND_TRIPS, 2),
    (Part.LOSSES, 2),
    (Part.QUEUE_SERVER, 1),
    (Part.QUEUE_OFFLOAD, 2),
    (Part.WAIT_PEER_OR_SERVER, 1),
    (Part.WAIT_WINDOW, 1),
    (Part.WAIT_OFFLOAD, 1),
    (Part.COMPLETION, 2),
    (Part.WAIT_APPLICATION, 1),
    (Part.WAIT_UNKNOWN, 1),
    *((part, 0) for part in BEFORE),
    (Part.QUEUE, 0),
    *((part, 1) for part in MEANWHILE),
)

_NOT_IN_WALL = frozenset((Part.CLIENT_WAIT, *BEFORE, Part.QUEUE, *MEANWHILE))


def shown_group(handshakes: Handshakes) -> Group | None:
    """The handshakes whose time is shown: the successful ones where there are any, else the failed, else the abandoned ones."""
    return next((group for group in (total(handshakes, ending) for ending in Ending) if group), None)


def mean_ns(group: Group, parts: Sequence[Part] = CLIENT_PIECES) -> dict[Part, float]:
    """The time of each part in the mean handshake, whether a handshake had it or not, so that they add up to the whole."""
    whole = group.estimated
    means = {part: whole.parts[part].total_ns / group.count for part in parts if part in whole.parts}
    if Part.CLIENT_WAIT in means:
        means[Part.CLIENT_WAIT] = group.total_ns(*CLIENT_WAIT_PARTS) / group.count
    return means


def mostly_waits(group: Group) -> bool:
    """Whether most of the time was spent waiting, so that what is in the calls shows only in a bar of its own."""
    phases = sum(bool(group.total_ns(phase)) for phase in PHASES)
    return phases > 1 and 2 * group.total_ns(Part.CALLS) < group.total_ns(*CLIENT_WAIT_PARTS)


def part_rows(group: Group, names: Mapping[Part, str] = PARTS) -> list[Row]:
    """A row for each part, under HEADINGS: each of the handshakes that had it, with its share of the wall time where it lies
    in that. ESTIMATED stands before what is estimated."""
    return [Row((names[part],), _cells(group, part), depth, part) for part, depth in _ROWS if _is_shown(group, part)]


def _is_shown(group: Group, part: Part) -> bool:
    if part not in group.parts or not group.parts[part].count:
        return False
    if part is Part.CLIENT_WAIT:  # else it is the wall time
        return group.total_ns(Part.QUEUE_START) > 0
    return not (group.unphased and part is Part.REST_ASLEEP)  # that has that of phases, too


def _cells(group: Group, part: Part) -> tuple[str, ...]:
    times, whole = group.parts[part], group.estimated.parts[part]
    wall_ns = 0 if part in _NOT_IN_WALL else group.parts[Part.WALL].total_ns
    part_of_wall = share(whole.total_ns, wall_ns) if wall_ns else "-"
    if group.unphased and part is Part.REST:  # what its times hold are those of unwatched phases, too
        mean = f"{ESTIMATED}{duration(whole.total_ns / whole.count)}"
        return str(times.count), f"{ESTIMATED}{part_of_wall}", mean, *("-" for _ in _QUANTILES), "-"
    mark = ESTIMATED if group.unphased and part in SAMPLED else ""
    return str(times.count), f"{mark}{part_of_wall}", *_statistics(times)


def _statistics(times: Times) -> tuple[str, ...]:
    return duration(times.total_ns / times.count), *(quantile(times, q) for q in _QUANTILES), duration(times.max_ns)
