# SPDX-License-Identifier: Apache-2.0
"""The live view as plain lines, for scripts, pipes and terminals without a full screen."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.live.history import History
from ssllatency.reports.live.columns import Layout, layout
from ssllatency.reports.live.drawings import parts_bar
from ssllatency.reports.live.lines import cell, cut, diagnosis, failures, heading, headings, lost, totals, trend
from ssllatency.reports.live.shown import Shown, ViewChoice, shown
from ssllatency.reports.live.styled import plain
from ssllatency.reports.text.page import PLAIN, Page, joined

_TREND, _MOST_ROWS, _MOST_FAILURES = 20, 40, 5


def render(history: History, choice: ViewChoice, page: Page = PLAIN) -> str:
    """Render what is shown now, ending in a newline; "" before there are two readings."""
    now, newest = shown(history, choice), history.newest
    if now is None or newest is None:
        return ""
    blocks = [
        [plain(heading(now, newest.at_s, page)), plain([*totals(now), *lost(now)])],
        _table(now, page),
        [plain(line) for line in parts_bar(now.whole, page, lines=3, names=now.names)],
        [line for sentence in diagnosis(now.window.snapshot) for line in page.wrapped(f"==> {sentence}", "", "    ")],
        [part for line in failures(history.failures, _MOST_FAILURES) for part in page.wrapped(plain(line), "", "    ")],
    ]
    return joined(blocks)


def _table(now: Shown, page: Page) -> list[str]:
    rows = now.rows[:_MOST_ROWS]
    longest = max((len(row.name) for row in rows), default=0)
    fitting = layout(now.choice.view, page.width, longest, retries=now.retries)
    lines = [table_line(headings(now, fitting.columns), "TREND", fitting)]
    for row in rows:
        cells = [cut(row.name, fitting.name), *(cell(row, column).text for column in fitting.columns)]
        lines.append(table_line(cells, trend(now, row, min(fitting.trend, _TREND), page), fitting))
    more = len(now.rows) - len(rows)
    return [*lines, f"and {more} more"] if more > 0 else lines


def table_line(cells: Sequence[str], last: str, fitting: Layout) -> str:
    """A line of the table: the name to the left, numbers to the right, then the trend."""
    numbers = [f" {text:>{column.width}}" for text, column in zip(cells[1:], fitting.columns, strict=True)]
    return f"{cells[0]:<{fitting.name}}{''.join(numbers)} {last}".rstrip()
