# SPDX-License-Identifier: Apache-2.0
"""The report of `ssllatency load` as plain text: the client's figures with what each includes, the server's handshakes, and a
comparison of both."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ssllatency.model.client import ClientReport, Figure
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.text.handshakes import report as handshake_text
from ssllatency.reports.text.page import PLAIN, Page
from ssllatency.reports.words.both_sides import checks
from ssllatency.reports.words.units import printable, seconds

_COLUMNS = ("min", "mean", "sd", "median", "max")


def render(snapshot: Snapshot, page: Page = PLAIN) -> str:
    """The report, ending in a newline, without the parts that either side lacks."""
    blocks = client_blocks(snapshot.client, page) if snapshot.client else []
    server = handshake_text.render(snapshot, page)
    both = [line for sentence in checks(snapshot) for line in page.wrapped(f"==> {sentence}", "", "    ")]
    texts = ["\n".join(block) for block in blocks if block]
    return (
        "\n\n".join(
            [*texts, *([server.rstrip("\n")] if server else []), *(["\n".join(["Both sides:", *both])] if both else [])]
        )
        + "\n"
    )


def client_blocks(client: ClientReport, page: Page) -> list[list[str]]:
    """Who ran, the figures, the times, the percentiles and the caveats."""
    return [
        [*_heading(client, page), *_facts(client, page)],
        _figures([figure for figure in client.figures if not _is_time(figure)], page),
        _times([figure for figure in client.figures if _is_time(figure)], page),
        _percentiles(client, page),
        [line for caveat in client.caveats for line in page.wrapped(f"Note: {printable(caveat)}", "", "  ")],
    ]


def _heading(client: ClientReport, page: Page) -> list[str]:
    name = f"{client.tool} {client.version}".strip()
    return page.wrapped(f"Client: {printable(name)}: {printable(shlex.join(client.command))}".rstrip(": "), "", "  ")


def _facts(client: ClientReport, page: Page) -> list[str]:
    facts = ", ".join(f"{name} {value}" for name, value in client.facts.items())
    return page.wrapped(printable(facts), "  ", "  ") if facts else []


def _is_time(figure: Figure) -> bool:
    return figure.name.rpartition(", ")[2] in _COLUMNS


def _figures(figures: Sequence[Figure], page: Page) -> list[str]:
    if not figures:
        return []
    names = [["FIGURE", "VALUE"], *([printable(figure.name), _value(figure)] for figure in figures)]
    width = max(len(name) for name, _ in names)
    return page.explained(
        [[name.ljust(width), value] for name, value in names], ["INCLUDES", *(one.includes for one in figures)]
    )


def _value(figure: Figure) -> str:
    if figure.unit == "s":
        return seconds(figure.value) if figure.value else "0 s"
    if figure.unit == "count":
        return f"{figure.value:.0f}"
    if figure.unit == "1/s":
        return f"{figure.value:.1f}/s"
    return f"{figure.value:.0f} {printable(figure.unit)}"


def _times(figures: Sequence[Figure], page: Page) -> list[str]:
    """A row for each thing that was timed."""
    values: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        name, _, column = figure.name.rpartition(", ")
        values.setdefault(name, {})[column] = figure
    columns = [column for column in _COLUMNS if any(column in row for row in values.values())]
    if not values:
        return []
    rows = [["TIME", *map(str.upper, columns)]]
    rows += [
        [printable(name), *(_value(row[column]) if column in row else "-" for column in columns)]
        for name, row in values.items()
    ]
    width = max(len(row[0]) for row in rows)
    texts = ["INCLUDES", *(next(iter(row.values())).includes for row in values.values())]
    return page.explained([[row[0].ljust(width), *row[1:]] for row in rows], texts)


def _percentiles(client: ClientReport, page: Page) -> list[str]:
    percents = sorted({percent for values in client.percentiles.values() for percent in values})
    if not percents:
        return []
    rows = [["PERCENTILES", *(f"{percent:g} %" for percent in percents)]]
    for name, values in client.percentiles.items():
        rows.append(
            [printable(name), *((seconds(values[one]) if values[one] else "0 s") if one in values else "-" for one in percents)]
        )
    return page.table(rows, left=1)
