# SPDX-License-Identifier: Apache-2.0
"""The report of `ssllatency load` as plain text: the client's figures with what each includes, the server's handshakes, and a
comparison of both."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ssllatency.model.client import ClientReport
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.rows.both_sides import checks
from ssllatency.reports.rows.client import ClientRow, Timings, figure_rows, percentile_rows, timings
from ssllatency.reports.text.handshakes import report as handshake_text
from ssllatency.reports.text.page import PLAIN, Page, joined
from ssllatency.units import printable


def render(snapshot: Snapshot, page: Page = PLAIN) -> str:
    """The report, ending in a newline, without the parts that either side lacks."""
    blocks = client_blocks(snapshot.client, page) if snapshot.client else []
    both = [line for sentence in checks(snapshot) for line in page.wrapped(f"==> {sentence}", "", "    ")]
    return joined([*blocks, *handshake_text.blocks(snapshot, page), ["Both sides:", *both] if both else []])


def client_blocks(client: ClientReport, page: Page) -> list[list[str]]:
    """Return who ran, the figures, the times, the percentiles and the caveats."""
    return [
        [*_heading(client, page), *_facts(client, page)],
        _figures(figure_rows(client), page),
        _times(timings(client), page),
        _percentiles(client, page),
        [line for caveat in client.caveats for line in page.wrapped(f"Note: {printable(caveat)}", "", "  ")],
    ]


def _heading(client: ClientReport, page: Page) -> list[str]:
    name = f"{client.tool} {client.version}" if client.version else client.tool
    return page.wrapped(": ".join(filter(None, ["Client", name, shlex.join(client.command)])), "", "  ")


def _facts(client: ClientReport, page: Page) -> list[str]:
    facts = ", ".join(f"{name} {value}" for name, value in client.facts.items())
    return page.wrapped(printable(facts), "  ", "  ") if facts else []


def _figures(rows: Sequence[ClientRow], page: Page) -> list[str]:
    return _explained([ClientRow("FIGURE", ("VALUE",), "INCLUDES"), *rows], page) if rows else []


def _times(timed: Timings, page: Page) -> list[str]:
    heading = ClientRow("TIME", tuple(map(str.upper, timed.statistics)), "INCLUDES")
    return _explained([heading, *timed.rows], page) if timed.rows else []


def _explained(rows: Sequence[ClientRow], page: Page) -> list[str]:
    """A table whose last column says what the numbers hold."""
    width = max(len(printable(row.name)) for row in rows)
    return page.explained([[printable(row.name).ljust(width), *row.cells] for row in rows], [row.includes for row in rows])


def _percentiles(client: ClientReport, page: Page) -> list[str]:
    headings, rows = percentile_rows(client)
    return page.table([["PERCENTILES", *headings], *([row.name, *row.cells] for row in rows)], left=1) if headings else []
