# SPDX-License-Identifier: Apache-2.0
"""Where the time of one ending's handshakes went: as bars, and as a table of its parts."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.model.handshakes import PHASES, WAITS, Group, Part, Times
from ssllatency.reports.text.bars import legend, split_bar
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.handshakes import ADJECTIVES, PARTS
from ssllatency.reports.words.quantiles import quantile
from ssllatency.reports.words.units import duration, share

HEADINGS = ("PART", "COUNT", "SHARE", "MEAN", "P50", "P90", "P99", "MAX")
_QUANTILES = (0.5, 0.9, 0.99)

# Each row of the table and how deep it stands below the one that it is a part of.
ROWS = (
    (Part.WALL, 0),
    (Part.CALLS, 1),
    *((phase, 2) for phase in PHASES),
    (Part.ON_CPU, 2),
    (Part.OFF_CPU, 2),
    (Part.WAIT_PEER, 1),
    (Part.WAIT_WINDOW, 1),
    (Part.WAIT_OFFLOAD, 1),
    (Part.COMPLETION, 2),
    (Part.RESUMPTION, 2),
    (Part.WAIT_APPLICATION, 1),
    (Part.WAIT_UNKNOWN, 1),
)


def bars(group: Group, page: Page) -> list[list[str]]:
    """A bar of the mean handshake; where most of it was spent waiting, another of the time in calls."""
    wall, calls = group.parts[Part.WALL].total_ns, group.parts[Part.CALLS].total_ns
    title = f"Mean {ADJECTIVES[group.ending]} handshake"
    blocks = [_bar(title, group, (*PHASES, *WAITS), page)] if wall else []
    if 2 * calls < wall and sum(bool(group.parts[phase].total_ns) for phase in PHASES if phase in group.parts) > 1:
        blocks.append(_bar("Of it in calls", group, PHASES, page))
    return blocks


def _bar(title: str, group: Group, parts: tuple[Part, ...], page: Page) -> list[str]:
    # Per handshake, whether it had the part or not, so that the times add up to the whole.
    mean = {part: group.parts[part].total_ns / group.count for part in parts if part in group.parts}
    line = f"  {split_bar(mean, page.width - 4, page)}"
    return [f"{title}: {duration(sum(mean.values()))}", line, *legend(mean, page)]


def table(group: Group, page: Page) -> list[str]:
    """The parts, each of the handshakes that had it."""
    return page.table([HEADINGS, *_rows(group)], left=1)


def _rows(group: Group) -> Iterator[list[str]]:
    wall_ns = group.parts[Part.WALL].total_ns
    for part, depth in ROWS:
        times = group.parts.get(part)
        if times and times.count:
            yield [f"{'  ' * depth}{PARTS[part]}", *cells(times, wall_ns)]


def cells(times: Times, wall_ns: int) -> list[str]:
    """Count, share, mean, percentiles and maximum of a part."""
    quantiles = [quantile(times, q) for q in _QUANTILES]
    mean = duration(times.total_ns / times.count)
    return [str(times.count), share(times.total_ns, wall_ns), mean, *quantiles, duration(times.max_ns)]
