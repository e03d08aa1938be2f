# SPDX-License-Identifier: Apache-2.0
"""The parts of the time of one ending's handshakes: as bars, and as a table of its parts."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.model.handshakes import PHASES, Group, Part
from ssllatency.reports.rows.parts import HEADINGS, mean_ns, mostly_waits, part_rows
from ssllatency.reports.text.bars import legend, split_bar
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.reports.words.marks import DOMINANT
from ssllatency.reports.words.parts import CLIENT_PIECES, PARTS
from ssllatency.units import duration

_GOES = ("MAX", "P90")  # columns that are left out where there is no room


def bars(group: Group, page: Page, names: Mapping[Part, str] = PARTS) -> list[list[str]]:
    """A bar of the mean handshake; where most of it was spent waiting, another of the time in calls."""
    title = f"Mean {ADJECTIVES[group.ending]} handshake"
    times_ns = mean_ns(group)
    early = times_ns.get(Part.QUEUE_START)
    whole = f"{duration(sum(times_ns.values()))}{f' for its client, {_wall(group)} from the first call' if early else ''}"
    blocks = [_bar(f"{title}: {whole}", times_ns, page, names)] if any(times_ns.values()) else []
    if mostly_waits(group):
        calls_ns = mean_ns(group, PHASES)
        blocks.append(_bar(f"Of that, in calls: {duration(sum(calls_ns.values()))}", calls_ns, page, names))
    return blocks


def _wall(group: Group) -> str:
    return duration(group.total_ns(Part.WALL) / group.count)


def _bar(title: str, times_ns: Mapping[Part, float], page: Page, names: Mapping[Part, str]) -> list[str]:
    return [title, f"  {split_bar(times_ns, page.width - 4, page)}", *legend(times_ns, page, names)]


def table(group: Group, page: Page, names: Mapping[Part, str] = PARTS) -> list[str]:
    """The parts, each of the handshakes that had it."""
    rows = part_rows(group, names)
    cells = [[f"{'  ' * row.depth}{row.names[0]}", *row.cells] for row in rows]
    lines = page.table([[*map(str.upper, HEADINGS)], *cells], left=1, goes=_GOES)
    whole = group.estimated
    dominant = max((part for part in CLIENT_PIECES if part in whole.parts), key=lambda part: whole.parts[part].total_ns)
    stands_out = [False, *(row.part is dominant for row in rows)]
    return [page.marked(line, DOMINANT) if out else line for line, out in zip(lines, stands_out, strict=True)]
