# SPDX-License-Identifier: Apache-2.0
"""Lines made of pieces, each with a style of which a screen makes a colour. Without colours they say the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from ssllatency.data_class import dataclass
from ssllatency.units import printable


class PieceStyle(StrEnum):
    """The meaning of a piece. HEAT_1 is the least of a heatmap, HEAT_5 the most."""

    PLAIN = "plain"
    FAINT = "faint"
    STRONG = "strong"
    FAILURE = "failure"
    KEY = "key"
    SELECTED = "selected"
    WORK = "work"
    WAIT = "wait"
    HEAT_1 = "heat1"
    HEAT_2 = "heat2"
    HEAT_3 = "heat3"
    HEAT_4 = "heat4"
    HEAT_5 = "heat5"


HEAT = (PieceStyle.HEAT_1, PieceStyle.HEAT_2, PieceStyle.HEAT_3, PieceStyle.HEAT_4, PieceStyle.HEAT_5)


@dataclass(frozen=True)
class Piece:
    """Some text of one style. It may hold our own characters beyond ASCII; what others chose is made printable before."""

    text: str
    style: PieceStyle = PieceStyle.PLAIN


Line = Sequence[Piece]
_MORE, _SPARES = " ...", 40  # what is narrower has no room for it


def plain(line: Line) -> str:
    """The line without its styles."""
    return "".join(piece.text for piece in line).rstrip()


def words(text: str, style: PieceStyle = PieceStyle.PLAIN) -> Piece:
    """A text that anybody may have chosen, without what would control a terminal."""
    return Piece(printable(text), style)


def fitted(line: Line, width: int) -> list[Piece]:
    """The line; where it is longer than that, its first words, and what says that there are more."""
    if sum(len(piece.text) for piece in line) <= width:
        return list(line)
    pieces: list[Piece] = []
    more = _MORE if width >= _SPARES else ""
    left = width - len(more)
    for piece in line:
        text = piece.text[:left]
        if len(text) < len(piece.text):  # the word that is cut in two is left out, but where there is no other
            first, space, _ = piece.text[: left + 1].rpartition(" ")
            return [*pieces, Piece(f"{first if space and more else text}{more}", piece.style)]
        pieces.append(piece)
        left -= len(text)
    return pieces


def joined(parts: Iterable[Piece], between: str) -> list[Piece]:
    """The pieces with a text between any two."""
    pieces: list[Piece] = []
    for part in parts:
        pieces += [Piece(between), part] if pieces else [part]
    return pieces
