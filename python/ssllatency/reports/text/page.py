# SPDX-License-Identifier: Apache-2.0
"""The page that a report is laid out for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ssllatency.reports.words.units import WIDTH, table, wrapped


@dataclass(frozen=True)
class Page:
    """How many columns there are, and whether they show more than ASCII."""

    width: int = WIDTH
    unicode: bool = False

    def wrapped(self, text: str, indent: str = "", hanging: str = "") -> list[str]:
        """Lines that fit, as units.wrapped()."""
        return wrapped(text, indent, hanging, self.width)

    def table(self, rows: Sequence[Sequence[str]], left: int) -> list[str]:
        """A table as units.table(), indented by two; its columns closer together where it wouldn't fit otherwise."""
        lines = [f"  {line}" for line in table(rows, left)]
        return lines if max(map(len, lines)) <= self.width else [f"  {line}" for line in table(rows, left, gap=1)]

    def explained(self, rows: Sequence[Sequence[str]], texts: Sequence[str]) -> list[str]:
        """A table with a text at the end of each row, which goes on in lines below where it is long."""
        lines = []
        beginnings = table([[*row, "|"] for row in rows], left=0)
        for beginning, text in zip(beginnings, texts, strict=True):
            indent = f"  {beginning[:-1]}"
            lines += self.wrapped(text, indent, " " * len(indent))
        return lines


PLAIN = Page()
