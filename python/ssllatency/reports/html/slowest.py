# SPDX-License-Identifier: Apache-2.0
"""The section of a page about the slowest handshakes, one by one: a bar of each, and what it was."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.arithmetic.handshake_sums import client_wait_ns
from ssllatency.model.handshakes import Handshakes, RequestedSide
from ssllatency.reports.html.blocks import PageSection, PlotBlock, Tabular
from ssllatency.reports.html.plots.bars import Bar, bars
from ssllatency.reports.html.tables import HtmlTable, table
from ssllatency.reports.html.words import in_plot, typeset
from ssllatency.reports.rows.handshakes.endings import SingleWords, single_words
from ssllatency.reports.rows.row import Row

_MOST = 10


def slowest(handshakes: Handshakes) -> PageSection | None:
    """The section; None where no handshake is known by itself."""
    ordered = sorted(handshakes.slowest, key=lambda single: -client_wait_ns(single.parts))
    singles = [single_words(single) for single in ordered[:_MOST]]
    if not singles:
        return None
    shown = [Bar(in_plot(_name(number, single)), single.times_ns) for number, single in enumerate(singles, 1)]
    clients, begins = (
        (" the clients of", ", from its ClientHello's arrival on where that is known")
        if handshakes.role is RequestedSide.SERVER
        else ("", "")
    )
    title = f"What{clients} the slowest handshakes waited for"
    caption = f"Each bar is all of one handshake{begins}. Hatched pieces are waits."
    drawn = bars("singles", shown, title, caption, one_scale=False)
    return PageSection("slowest", "The slowest handshakes", [PlotBlock(drawn), Tabular(_table(singles))])


def _table(singles: Sequence[SingleWords]) -> HtmlTable:
    queues = any(single.queue for single in singles)
    headings = ("Handshake", "What it was", "Longest parts", *(("Queue",) if queues else ()), "Time", "Calls", "Ended")
    return table("What they were", headings, [_row(number, single, queues=queues) for number, single in enumerate(singles, 1)])


def _row(number: int, single: SingleWords, *, queues: bool) -> Row:
    ended = f"{single.ending}: {single.why}" if single.why else single.ending
    what = f"{ended}; {single.labels}" if single.labels else ended
    longest = "; ".join(filter(None, (single.longest, single.reasons)))
    parts = (longest, *((single.queue,) if queues else ()))
    return Row((_name(number, single), what, *map(typeset, parts)), (single.waited, single.calls, single.ended))


def _name(number: int, single: SingleWords) -> str:
    """The name of a handshake beside its bar and in the table."""
    return f"{number}: {single.process}"
