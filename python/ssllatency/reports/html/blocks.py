# SPDX-License-Identifier: Apache-2.0
"""The elements of a page: sections of tables, figures and sentences. The template shows each by its `kind`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from ssllatency.data_class import dataclass
from ssllatency.reports.html.plots.plots import Plot
from ssllatency.reports.html.tables import HtmlTable


@dataclass(frozen=True)
class Level:
    """A level of a heatmap's legend."""

    opacity: float
    text: str


@dataclass(frozen=True)
class PlotBlock:
    """A plot, the levels of its colour, and its numbers."""

    plot: Plot
    numbers: HtmlTable | None = None
    levels: Sequence[Level] = ()
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Tabular:
    """A table by itself."""

    table: HtmlTable
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Sentences:
    """Sentences, each a paragraph."""

    texts: Sequence[str]
    kind: ClassVar[str] = "sentences"


class FindingMark(StrEnum):
    """The weight of a finding to its reader: nothing to do, worth a look, something is wrong."""

    GOOD = "good"
    LOOK = "look"
    BAD = "bad"


@dataclass(frozen=True)
class MarkedSentence:
    """A sentence with its mark."""

    mark: FindingMark
    text: str


@dataclass(frozen=True)
class FindingsBlock:
    """The findings, which are read first."""

    findings: Sequence[MarkedSentence]
    kind: ClassVar[str] = "findings"


@dataclass(frozen=True)
class NamedFact:
    """A fact: its name and its value."""

    name: str
    text: str


@dataclass(frozen=True)
class Facts:
    """Where, when and how long was measured, by what; `title` is "" where there is nothing to tell apart."""

    title: str
    facts: Sequence[NamedFact]
    kind: ClassVar[str] = "facts"


Block = PlotBlock | Tabular | Sentences | FindingsBlock | Facts


@dataclass(frozen=True)
class PageSection:
    """A heading and what is under it."""

    key: str
    title: str
    blocks: Sequence[Block]
