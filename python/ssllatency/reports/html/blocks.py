# SPDX-License-Identifier: Apache-2.0
"""What a page is made of: sections of tables, figures and sentences. The template shows each by its `kind`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ssllatency.reports.html.plots.plots import Plot
from ssllatency.reports.html.tables import Table


@dataclass(frozen=True)
class Level:
    """A level of a heatmap's legend."""

    opacity: float
    text: str


@dataclass(frozen=True)
class Figure:
    """A plot, the levels of its colour, and its numbers."""

    plot: Plot
    numbers: Table | None = None
    levels: Sequence[Level] = ()
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Tabular:
    """A table by itself."""

    table: Table
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Sentences:
    """Sentences, each a paragraph; `findings` are the ones to be read first."""

    texts: Sequence[str]
    findings: bool = False
    kind: ClassVar[str] = "sentences"


Block = Figure | Tabular | Sentences


@dataclass(frozen=True)
class Section:
    """A heading and what is under it."""

    key: str
    title: str
    blocks: Sequence[Block]
