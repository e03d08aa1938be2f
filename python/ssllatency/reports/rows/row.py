# SPDX-License-Identifier: Apache-2.0
"""A row of a table, of which a layout makes a line of text or an element of a page."""

from __future__ import annotations

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Part


@dataclass(frozen=True)
class Row:
    """A row: its names to the left and its cells to the right, under the table's headings; how deep it stands below the row
    that it is a part of; the part of handshakes that it is about, if it is about one; and `place`, which tells apart rows of
    the same names. Texts that targets chose are in it as they are: the layout makes them harmless."""

    names: tuple[str, ...]
    cells: tuple[str, ...]
    depth: int = 0
    part: Part | None = None
    place: int = 0

    @property
    def key(self) -> tuple[tuple[str, ...], int, int]:
        """The key that the same row of another recording has."""
        return self.names, self.depth, self.place
