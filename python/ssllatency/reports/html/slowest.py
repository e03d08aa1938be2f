# SPDX-License-Identifier: Apache-2.0
"""The section of a page about the slowest handshakes, one by one: a bar of each, and what it was."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.handshakes import Handshakes, Part
from ssllatency.reports.html.blocks import Figure, Section, Tabular
from ssllatency.reports.html.plots.bars import Bar, bars
from ssllatency.reports.html.tables import Table, table
from ssllatency.reports.html.words import in_plot, typeset
from ssllatency.reports.rows.endings import SingleWords, single_words
from ssllatency.reports.rows.row import Row

_MOST = 10


def slowest(handshakes: Handshakes) -> Section | None:
    """The section; None where no handshake is known by itself."""
    ordered = sorted(handshakes.slowest, key=lambda single: -single.parts[Part.WALL])
    singles = [single_words(single) for single in ordered[:_MOST]]
    if not singles:
        return None
    shown = [Bar(in_plot(_name(number, single)), single.times_ns) for number, single in enumerate(singles, 1)]
    title, caption = (
        "What the slowest handshakes spent their time on",
        "Each bar is all of one handshake. Hatched pieces are waits.",
    )
    drawn = bars("singles", shown, title, caption, one_scale=False)
    return Section("slowest", "The slowest handshakes", [Figure(drawn), Tabular(_table(singles))])


def _table(singles: Sequence[SingleWords]) -> Table:
    headings = ("Handshake", "What it was", "Longest parts", "Time", "Calls", "Ended")
    return table("What they were", headings, [_row(number, single) for number, single in enumerate(singles, 1)])


def _row(number: int, single: SingleWords) -> Row:
    ended = f"{single.ending}: {single.why}" if single.why else single.ending
    what = f"{ended}; {single.labels}" if single.labels else ended
    return Row((_name(number, single), what, typeset(single.longest)), (single.wall, single.calls, single.ended))


def _name(number: int, single: SingleWords) -> str:
    """What a handshake is called beside its bar and in the table."""
    return f"{number}: {single.process}"
