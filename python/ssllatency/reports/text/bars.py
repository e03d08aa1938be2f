# SPDX-License-Identifier: Apache-2.0
"""Bars of text: how something whole is made up of its parts, with a legend; and counts side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ssllatency.model.handshakes import Part
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.parts import CLIENT_PIECES, PARTS, STYLES
from ssllatency.units import duration, share


def split_bar(times_ns: Mapping[Part, float], cells: int, page: Page) -> str:
    """A bar of so many cells, each part's share of it filled with its own character, between two bounds."""
    return f"|{''.join(text for _, text in bar_pieces(times_ns, cells, page))}|"


def bar_pieces(times_ns: Mapping[Part, float], cells: int, page: Page) -> list[tuple[Part, str]]:
    """The parts that such a bar consists of, each with what it is filled with."""
    present = [part for part in CLIENT_PIECES if times_ns.get(part)]
    widths = _shared_out([times_ns[part] for part in present], cells)
    return [(part, _fill(part, page) * width) for part, width in zip(present, widths, strict=True)]


def legend(times_ns: Mapping[Part, float], page: Page, names: Mapping[Part, str] = PARTS) -> list[str]:
    """The legend of each part's piece, its share and its time: as many in a line as fit."""
    return _in_lines(legend_entries(times_ns, page, names).values(), page.width)


def legend_entries(times_ns: Mapping[Part, float], page: Page, names: Mapping[Part, str] = PARTS) -> dict[Part, str]:
    """The filling of each part's piece, its share and its time."""
    whole = sum(times_ns.get(part, 0) for part in CLIENT_PIECES)
    return {
        part: f"{_fill(part, page)} {names[part]} {share(times_ns[part], whole)} ({duration(times_ns[part])})"
        for part in CLIENT_PIECES
        if times_ns.get(part)
    }


def count_bar(count: int, most: int, cells: int, page: Page) -> str:
    """A bar that fills the share of the cells that `count` is of `most`; at least one cell where `count` isn't 0."""
    length = max(1 if count else 0, round(cells * count / most)) if most else 0
    return ("\u2588" if page.unicode else "@") * length


def _fill(part: Part, page: Page) -> str:
    return STYLES[part].unicode if page.unicode else STYLES[part].ascii


def _shared_out(amounts: Sequence[float], cells: int) -> list[int]:
    """Whole cells in proportion to the amounts, together exactly `cells`: those cut off the most are rounded up."""
    whole = sum(amounts)
    exact = [cells * amount / whole for amount in amounts]
    widths = [int(width) for width in exact]
    order = sorted(range(len(exact)), key=lambda position: widths[position] - exact[position])
    for position in order[: cells - sum(widths)]:
        widths[position] += 1
    return widths


def _in_lines(entries: Iterable[str], width: int) -> list[str]:
    lines = [""]
    for entry in entries:
        longer = f"{lines[-1]}   {entry}" if lines[-1] else f"  {entry}"
        if len(longer) > width and lines[-1]:
            lines.append(f"  {entry}")
        else:
            lines[-1] = longer
    return [line for line in lines if line]
