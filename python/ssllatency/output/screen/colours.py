# SPDX-License-Identifier: Apache-2.0
"""Colours for the styles of a live view: the terminal's own sixteen, so that they suit whatever background it has. Without
colours (NO_COLOR) bold, dim and reverse are left."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from ssllatency.reports.live.styled import Line, Style

_STYLES = {
    Style.PLAIN: "",
    Style.FAINT: "dim",
    Style.STRONG: "bold",
    Style.FAILURE: "bold red",
    Style.KEY: "bold",
    Style.SELECTED: "reverse",
    Style.WORK: "bold yellow",
    Style.WAIT: "cyan",
    Style.HEAT_1: "blue",
    Style.HEAT_2: "cyan",
    Style.HEAT_3: "green",
    Style.HEAT_4: "yellow",
    Style.HEAT_5: "bold magenta",
}


def coloured(lines: Iterable[Line]) -> Text:
    """The lines as Textual takes them: text with styles, in which no character is markup."""
    text = Text(no_wrap=True, end="")
    for number, line in enumerate(lines):
        text.append("\n" if number else "")
        for piece in line:
            text.append(piece.text, _STYLES[piece.style])
    return text
