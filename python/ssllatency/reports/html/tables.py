# SPDX-License-Identifier: Apache-2.0
"""Tables of a page: rows known by their names, each cell with what it was before where there is a before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ssllatency.data_class import dataclass
from ssllatency.reports.html.words import style_name, typeset
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.parts import LETTERS
from ssllatency.units import counted

MOST_ROWS = 200
VERDICT = "Change of the mean"

Measured = TypeVar("Measured")
# By the names of rows: a change, and what to make of it.
Verdicts = Mapping[tuple[str, ...], tuple[str, str]]


@dataclass(frozen=True)
class TableCell:
    """A number as it is and as it was, "" where there is no before; or a change, and a note on it."""

    text: str
    was: str = ""
    note: str = ""


@dataclass(frozen=True)
class TableLine:
    """A row as the page shows it."""

    row: Row
    cells: tuple[TableCell, ...]

    @property
    def mark(self) -> str:
        """The style of the mark before its name; "" where it is about none of the pieces of a bar."""
        return style_name(self.row.part) if self.row.part in LETTERS else ""

    @property
    def letter(self) -> str:
        """The letter in the mark."""
        return LETTERS.get(self.row.part, "") if self.row.part else ""


@dataclass(frozen=True)
class HtmlTable:
    """A table: the first headings are over the names."""

    caption: str
    headings: tuple[str, ...]
    lines: tuple[TableLine, ...]
    more: str = ""

    @property
    def left(self) -> int:
        """The number of columns that are names."""
        return len(self.headings) - len(self.lines[0].cells) if self.lines else 1


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Row],
    before: Iterable[Row] | None = None,
    verdicts: Verdicts | None = None,
) -> HtmlTable:
    """The rows, beside each what it was before. Rows that were before only follow, their cells "-"; of too many the last are
    left out, and said to be. `verdicts` on changes, by the rows' names, stand at the end."""
    former: dict[object, list[Row]] = {}
    for row in before or ():
        former.setdefault(row.key, []).append(row)
    lines = [_line(row, _first(former.get(row.key)), before is not None) for row in rows]
    for row in (row for left in former.values() for row in left):
        lines.append(TableLine(row, tuple(TableCell("-", typeset(cell)) for cell in row.cells)))
    if verdicts is not None:
        lines = [TableLine(line.row, (*line.cells, _verdict(verdicts.get(line.row.names)))) for line in lines]
        headings = (*headings, VERDICT)
    beyond = len(lines) - MOST_ROWS
    more = f"{counted(beyond, 'row')} more, left out here." if beyond > 0 else ""
    return HtmlTable(caption, tuple(headings), tuple(lines[:MOST_ROWS]), more)


def compared(
    caption: str,
    headings: Sequence[str],
    make: Callable[[Measured], Iterable[Row]],
    after: Measured,
    before: Measured | None,
    verdicts: Verdicts | None = None,
) -> HtmlTable:
    """The table of the rows that `make` makes of a measurement and of the one before it."""
    return table(caption, headings, make(after), None if before is None else make(before), verdicts)


def _first(rows: list[Row] | None) -> Row | None:
    """Takes the first of the rows that have one key: of names that targets chose, two may read alike."""
    return rows.pop(0) if rows else None


def _verdict(change: tuple[str, str] | None) -> TableCell:
    return TableCell(typeset(change[0]), note=typeset(change[1])) if change else TableCell("-")


def _line(row: Row, before: Row | None, compared: bool) -> TableLine:
    if not compared:
        return TableLine(row, tuple(TableCell(typeset(cell)) for cell in row.cells))
    was = before.cells if before else tuple("-" if cell else "" for cell in row.cells)
    return TableLine(row, tuple(TableCell(typeset(cell), typeset(old)) for cell, old in zip(row.cells, was, strict=True)))
