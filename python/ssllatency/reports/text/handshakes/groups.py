# SPDX-License-Identifier: Apache-2.0
"""Handshakes by the values of labels, as a table that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssllatency.model.handshakes import Handshakes
from ssllatency.reports.rows.handshakes.groups import OTHER, group_table
from ssllatency.reports.text.page import Page
from ssllatency.units import counted

_MOST_ROWS = 20
# What is left out where there is no room, the least important first; and what is where it says nothing of any row.
_GOES = ("SHARE", "KEY", "P50", "ABANDONED", "RESUMED", "WAITS", "QUEUE", "OWN")
_NOTHING = {"ABANDONED": "0", "RESUMED": "-", "QUEUE": "-", "KEY": "-"}


def groups(handshakes: Handshakes, page: Page) -> list[str]:
    """The table; where the labels are too long to stand beside the numbers, above them."""
    table = group_table(handshakes, _MOST_ROWS)
    if not table.rows:
        return []
    names = [[heading.upper() for heading in table.labels], *(list(row.names) for row in table.rows)]
    cells = _telling([[heading.upper() for heading in table.headings], *(list(row.cells) for row in table.rows)])
    lines = _beside(names, cells, page)
    if not _fit(lines, page):
        fewer = _beside(names, _without(_GOES[0], cells), page)
        lines = fewer if _fit(fewer, page) else _stacked(names, cells, page)
    return ["Groups:", *lines, *_said_of_other(table.folded, page)]


def _beside(names: Sequence[Sequence[str]], cells: Sequence[Sequence[str]], page: Page) -> list[str]:
    return page.table([[*left, *right] for left, right in zip(names, cells, strict=True)], len(names[0]), _GOES)


def _fit(lines: Sequence[str], page: Page) -> bool:
    return max(map(len, lines)) <= page.width


def _without(heading: str, cells: Sequence[Sequence[str]]) -> list[list[str]]:
    return _kept(cells, lambda column: column[0] != heading)


def _telling(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows without the columns that say nothing of any."""
    return _kept(rows, lambda column: set(column[1:]) != {_NOTHING.get(column[0])})


def _kept(rows: Sequence[Sequence[str]], keeps: Callable[[Sequence[str]], bool]) -> list[list[str]]:
    """The rows with the columns of which that is true."""
    columns = filter(keeps, zip(*rows, strict=True))
    return [list(row) for row in zip(*columns, strict=True)]


def _stacked(labels: Sequence[Sequence[str]], rows: Sequence[Sequence[str]], page: Page) -> list[str]:
    lines = []
    for names, line in zip(labels, page.table(rows, 0, _GOES), strict=True):
        lines += [*page.wrapped(", ".join(filter(None, names)), "  ", "  "), f"  {line}"]
    return lines


def _said_of_other(folded: int, page: Page) -> list[str]:
    if not folded:
        return []
    return page.wrapped(f"{OTHER}: {counted(folded, 'smaller group')} are in it; --json and the HTML page show each.", "  ")
