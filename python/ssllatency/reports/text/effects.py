# SPDX-License-Identifier: Apache-2.0
"""The main effects of a matrix as a table: what each level of each factor makes of what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ssllatency.model.statistics.effects import Effect, Effects
from ssllatency.reports.text.page import PLAIN, Page
from ssllatency.units import printable


def render(measured: Mapping[str, Effects], means: Mapping[str, str], page: Page = PLAIN) -> str:
    """The table, ending in a newline. `measured` holds the effects by the heading of their column; `means` says the grand mean
    of each in its unit."""
    rows = [["FACTOR", "LEVEL", *measured], ["mean of all", "", *(means[name] for name in measured)]]
    for factor, levels in _levels(measured).items():
        for number, level in enumerate(levels):
            cells = [_cell(effects.effects.get(factor, {}).get(level)) for effects in measured.values()]
            rows.append(["" if number else printable(factor), printable(level), *cells])
    return "\n".join(["Main effects:", "", *page.table(rows, left=2), "", *_reading(measured, page)]) + "\n"


def _levels(measured: Mapping[str, Effects]) -> Mapping[str, Sequence[str]]:
    """Every factor that some number tells the effects of, with its levels."""
    levels_of: dict[str, dict[str, None]] = {}
    for effects in measured.values():
        for factor, levels in effects.effects.items():
            levels_of.setdefault(factor, {}).update(dict.fromkeys(levels))
    return {factor: list(levels) for factor, levels in levels_of.items()}


def _cell(effect: Effect | None) -> str:
    """The change, and half the width of its interval; a dash where it isn't known."""
    if effect is None:
        return "-"
    change = f"{100 * (effect.ratio - 1):+.1f} %"
    if effect.low is None or effect.high is None:
        return change
    return f"{change} ({100 * (effect.low - 1):+.1f} to {100 * (effect.high - 1):+.1f})"


def _reading(measured: Mapping[str, Effects], page: Page) -> list[str]:
    shares = ", ".join(
        f"{100 * effects.explained:.0f} % of {name}" for name, effects in measured.items() if effects.explained is not None
    )
    sentence = "Each is the change from the mean of all cells, with its 95 % interval over the repeats in brackets."
    if shares:
        sentence += (
            f" The effects together come to so much of the variation between the cells: {shares}; the rest is noise, and what"
            " levels do only together: for that look at the cells themselves."
        )
    return page.wrapped(sentence, "", "")
