# SPDX-License-Identifier: Apache-2.0
"""Colours for the styles of a live view: the terminal's own sixteen, so that they suit whatever background it has. Without
colours (NO_COLOR) bold, dim and reverse are left."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from ssllatency.reports.live.styled import Line, PieceStyle

_STYLES = {
    PieceStyle.PLAIN: "",
    PieceStyle.FAINT: "dim",
    PieceStyle.STRONG: "bold",
    PieceStyle.FAILURE: "bold red",
    PieceStyle.KEY: "bold",
    PieceStyle.SELECTED: "reverse",
    PieceStyle.WORK: "bold yellow",
    PieceStyle.WAIT: "cyan",
    PieceStyle.HEAT_1: "blue",
    PieceStyle.HEAT_2: "cyan",
    PieceStyle.HEAT_3: "green",
    PieceStyle.HEAT_4: "yellow",
    PieceStyle.HEAT_5: "bold magenta",
}


def coloured(lines: Iterable[Line]) -> Text:
    """The lines as Textual takes them: text with styles, in which no character is markup."""
    text = Text(no_wrap=True, end="")
    for number, line in enumerate(lines):
        text.append("\n" if number else "")
        for piece in line:
            text.append(piece.text, _STYLES[piece.style])
    return text
