# SPDX-License-Identifier: Apache-2.0
"""A man page as a value, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from install.roff import bold, escape
from ssllatency import __version__

# The sections that come first, and those that come last; all others lie between them in their own order.
_FIRST = ("SYNOPSIS", "DESCRIPTION", "SUBCOMMANDS", "OPTIONS")
_LAST = ("OVERHEAD", "CAVEATS", "EXAMPLES", "EXIT STATUS", "SEE ALSO")


@dataclass
class Page:
    """`sections` are lines of roff by title; the empty ones are left out."""

    name: str
    summary: str
    sections: dict[str, list[str]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Its name in man1/."""
        return f"{self.name}.1"

    def write(self) -> str:
        """The whole page. The first line has man(1) run tbl(1) over it."""
        others = tuple(title for title in self.sections if title not in _FIRST + _LAST)
        name = escape(self.name).replace("-", r"\-")
        lines = [
            "'\\\" t",
            f'.TH {name.upper()} 1 "" "ssllatency {__version__}" "User Commands"',
            ".nh",
            ".nr HY 0",
            ".if n .ad l",
            ".if n .pl 500i",  # a terminal's page has no end, so that no row of a table has to fit on a sheet
        ]
        lines += [".SH NAME", rf"{name} \- {escape(self.summary)}"]
        for title in _FIRST + others + _LAST:
            if self.sections.get(title):
                lines += [f".SH {title}", *self.sections[title]]
        return "\n".join(lines) + "\n"


def reference(name: str) -> str:
    """A reference to another page."""
    return f"{bold(name)}(1)"
