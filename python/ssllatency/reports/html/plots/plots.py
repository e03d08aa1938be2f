# SPDX-License-Identifier: Apache-2.0
"""Plots as parts of a page, each in two sizes: for screen and paper, and for a phone. Colours are those of svg.COLOURS."""

from __future__ import annotations

import math
from collections.abc import Callable
from io import StringIO
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from ssllatency.data_class import dataclass
from ssllatency.reports.html.plots.svg import COLOURS, embedded

# An SVG file of this library has 72 units an inch; here a unit is one of CSS's pixels.
_UNITS = 72


@dataclass(frozen=True)
class Size:
    """The width of a plot in units, how high its letters are, and how many marks its time axis may have."""

    name: str
    width: int
    letters: int
    marks: int


SIZES = (Size("wide", 880, 13, 9), Size("narrow", 358, 12, 4))

Draw = Callable[[Axes, Size], None]


@dataclass(frozen=True)
class Plot:
    """A figure of the page: the drawings, and a caption; `title` and `description` say it all in words."""

    drawings: Markup
    caption: str


def plot(key: str, draw: Draw, height: int, title: str, description: str, caption: str) -> Plot:
    """The plot that `draw` draws, in all sizes; `key` is its own name on the page."""
    drawings = [
        f'<div class="{size.name}">{embedded(_drawn(draw, size, height), f"{key}-{size.name[0]}", title, description)}</div>'
        for size in SIZES
    ]
    return Plot(Markup("".join(drawings)), caption)  # embedded() has escaped all texts


def _drawn(draw: Draw, size: Size, height: int) -> str:
    with matplotlib.rc_context(_style(size)):
        figure = Figure(figsize=(size.width / _UNITS, height / _UNITS), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot(), size)
        file = StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return file.getvalue()


def _style(size: Size) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "ssllatency",
        "font.size": size.letters,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "axes.edgecolor": COLOURS["muted"],
        "axes.labelcolor": COLOURS["ink"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "text.color": COLOURS["ink"],
        "text.parse_math": False,
        "xtick.color": COLOURS["muted"],
        "ytick.color": COLOURS["muted"],
        "xtick.labelcolor": COLOURS["ink"],
        "ytick.labelcolor": COLOURS["ink"],
        "grid.color": COLOURS["grid"],
        "grid.linewidth": 1,
        "hatch.linewidth": 1,
        "hatch.color": COLOURS["hatch"],
    }


def duration_axis(axes: Axes, low_ns: float, high_ns: float, first_ns: float = 0, last_ns: float = math.inf) -> None:
    """log10 of nanoseconds up the side, at round durations from `first_ns` to `last_ns`, with lines across."""
    low, high = math.log10(low_ns), math.log10(high_ns)
    digits = (1,) if high - low > 3 else (1, 2, 5) if high - low > 0.7 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    decades = range(math.floor(low), math.ceil(high) + 1)
    every = [decade + math.log10(digit) for decade in decades for digit in digits]
    marks = [mark for mark in every if low <= mark <= high and first_ns <= 10**mark <= last_ns]
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(marks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _round_duration(10**value)))
    axes.grid(visible=True, axis="y")


def _round_duration(value_ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("\u00b5s", 1e3)):
        if value_ns >= 0.999 * size:
            return f"{value_ns / size:.3g} {unit}"
    return f"{value_ns:.3g} ns"
