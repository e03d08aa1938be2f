# SPDX-License-Identifier: Apache-2.0
"""A load generator's own report of its run, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class Figure:
    """One number of the client's. `unit` is "s", "1/s", "bytes", "bytes/s", "count" or "%"; `includes` says in one phrase what
    the number holds. What the tool didn't print, or printed as not a number, has no figure."""

    name: str
    value: float
    unit: str
    includes: str


@dataclass(frozen=True)
class ConnectionBounds:
    """Bounds of how many TLS connections the client must have completed: between `least` and `most`, which are equal where it
    counts them; None where nothing bounds them. `why` says how that is known, and where the tool opens more than it counts."""

    least: int
    most: int | None
    why: str


@dataclass(frozen=True)
class ClientReport:
    """The report of one run of a tool.

    `tool` is "s_time", "h2load", "ab" or "wrk", `version` what it calls itself, "" where it doesn't. `percentiles`: by the name
    of what was timed, from the percentile (50, 99.9) to seconds. `facts`: what was negotiated and done, as text. `caveats`:
    sentences about how to read the figures. `connections` is None where they can't be told. `offers_sessions`: whether a
    connection offered the session of one before; None where that depends on whether any was made anew.
    """

    tool: str
    version: str = ""
    command: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    percentiles: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    connections: ConnectionBounds | None = None
    offers_sessions: bool | None = None

    def figure(self, name: str) -> Figure | None:
        """The figure of this name, None where there is none."""
        return next((figure for figure in self.figures if figure.name == name), None)
