# SPDX-License-Identifier: Apache-2.0
"""The page that a text report is laid out for: lines that fit, and columns that line up."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from ssllatency.data_class import dataclass
from ssllatency.reports.words.marks import END
from ssllatency.units import NO_BREAK, printable, together

WIDTH = 100
_GAP = 2


@dataclass(frozen=True)
class Page:
    """The width of lines, whether they show more than ASCII, and whether colours are shown. `most`: the columns that there are,
    None where lines may be as long as they get, as in a file. `verbose`: whether to show all that is known of what tracing has
    cost. `told`: sentences that its reader has seen already."""

    width: int = WIDTH
    unicode: bool = False
    colour: bool = False
    most: int | None = None
    verbose: bool = False
    told: frozenset[str] = frozenset()

    def wrapped(self, text: str, indent: str = "", hanging: str = "") -> list[str]:
        """Lines that fit, as wrapped()."""
        return wrapped(text, indent, hanging, self.width)

    def table(self, rows: Sequence[Sequence[str]], left: int, goes: Sequence[str] = ()) -> list[str]:
        """A table as table(), indented by two; its columns closer together where it wouldn't fit otherwise. `goes`: headings of
        columns that are left out then, in this order, where there is no room for them."""
        lines = [f"  {line}" for line in table(rows, left)]
        return lines if max(map(len, lines)) <= self.width else self.fitted(rows, left, goes, "  ", gap=1)

    def fitted(
        self, rows: Sequence[Sequence[str]], left: int, goes: Sequence[str] = (), indent: str = "", gap: int = _GAP
    ) -> list[str]:
        """A table as table(), changed in no way but where there is no room for it: then as `table` says."""
        lines = [f"{indent}{line}" for line in table(rows, left, gap)]
        if self.has_room(lines):
            return lines
        if gap > 1:
            return self.fitted(rows, left, goes, indent, gap=1)
        places = {heading: number for number, heading in enumerate(rows[0])}
        place = next((places[heading] for heading in goes if heading in places), None)
        if place is None:
            return lines
        fewer = [[*row[:place], *row[place + 1 :]] for row in rows]
        return self.fitted(fewer, left - (place < left), goes, indent, gap)

    def has_room(self, lines: Iterable[str]) -> bool:
        """Whether none of the lines is longer than there are columns."""
        return self.most is None or max(map(len, lines), default=0) <= self.most

    def marked(self, line: str, mark: str) -> str:
        """The line with a mark of words/marks.py around it, of which a terminal makes a colour."""
        return f"{mark}{line}{END}" if self.colour and line else line

    def explained(self, rows: Sequence[Sequence[str]], texts: Sequence[str], marks: Sequence[str] = ()) -> list[str]:
        """A table with a text at the end of each row, which goes on in lines below where it is long. `marks`: one for each row,
        "" for none."""
        indents = [f"  {columns}{' ' * _GAP}" for columns in _columns(rows, 0, _GAP)]
        lines = []
        for indent, text, mark in zip(indents, texts, marks or [""] * len(texts), strict=True):
            wrapped_lines = self.wrapped(text, indent, " " * len(indent))
            lines += [self.marked(line, mark) if mark else line for line in wrapped_lines]
        return lines


PLAIN = Page()


def joined(blocks: Iterable[Sequence[str]]) -> str:
    """A report of blocks of lines with an empty line between any two, ending in a newline."""
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def wrapped(text: str, indent: str = "", hanging: str = "", width: int = WIDTH) -> list[str]:
    """Lines of at most `width` columns where words allow it: the first after `indent`, the others after `hanging`.

    A number and its unit stay together.
    """
    lines = textwrap.wrap(
        together(printable(text)),
        width,
        initial_indent=indent,
        subsequent_indent=hanging or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def table(rows: Sequence[Sequence[str]], left: int, gap: int = _GAP) -> list[str]:
    """The rows in columns so many spaces apart: the first `left` columns set to the left, the others to the right. Nothing in a
    cell moves the cursor, whoever chose its text."""
    return [line.rstrip() for line in _columns(rows, left, gap)]


def _columns(rows: Sequence[Sequence[str]], left: int, gap: int) -> list[str]:
    """The lines of a table, all of the same length."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        columns = enumerate(zip(row, widths, strict=True))
        aligned = [cell.ljust(width) if position < left else cell.rjust(width) for position, (cell, width) in columns]
        lines.append((" " * gap).join(aligned))
    return lines
