# SPDX-License-Identifier: Apache-2.0
"""The mean handshake as a bar of its parts, under it the one before, and the table that says what each piece is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from matplotlib.axes import Axes

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Part
from ssllatency.reports.html.plots.plots import Plot, Size, plot
from ssllatency.reports.html.plots.svg import COLOURS
from ssllatency.reports.html.words import style_name, typeset
from ssllatency.reports.words.parts import PARTS, STYLES
from ssllatency.units import duration, share

# Of a letter's height: how wide it is at most on average.
_LETTER_WIDTH = 0.62


@dataclass(frozen=True)
class Bar:
    """One handshake, or the mean one: what to call it, the time of each of its pieces in nanoseconds, what these are called."""

    name: str
    times_ns: Mapping[Part, float]
    names: Mapping[Part, str] = field(default_factory=lambda: PARTS)

    @property
    def whole_ns(self) -> float:
        """All parts together."""
        return sum(self.times_ns.values())


def bars(key: str, shown: Sequence[Bar], title: str, caption: str, *, one_scale: bool = True) -> Plot:
    """The bars under one another: on one scale, or each as long as the plot is wide."""
    description = " ".join(f"{typeset(_described(bar))}." for bar in shown)
    return plot(key, lambda axes, size: _draw(axes, size, shown, one_scale), 62 * len(shown) + 10, title, description, caption)


def _described(shown: Bar) -> str:
    parts = [
        f"{shown.names[part]} {duration(time_ns)} ({share(time_ns, shown.whole_ns)})"
        for part, time_ns in shown.times_ns.items()
        if time_ns
    ]
    return f"{shown.name}: {duration(shown.whole_ns)}, of it {', '.join(parts) or 'nothing'}"


def _draw(axes: Axes, size: Size, shown: Sequence[Bar], one_scale: bool) -> None:
    longest = max(bar.whole_ns for bar in shown) or 1
    for position, bar in enumerate(shown):
        _pieces(axes, size, bar, -position, longest if one_scale else bar.whole_ns or 1)
        axes.text(0, 0.47 - position, typeset(f"{bar.name}: {duration(bar.whole_ns)}"), va="center", weight="bold")
    axes.set_xlim(0, 1)
    axes.set_ylim(-len(shown) + 0.6, 0.65)
    axes.set_axis_off()


def _pieces(axes: Axes, size: Size, shown: Bar, position: float, longest: float) -> None:
    left = 0.0
    for part, time_ns in shown.times_ns.items():
        if not time_ns:
            continue
        hatch = STYLES[part].hatch
        axes.barh(position, time_ns / longest, 0.56, left / longest, color=COLOURS[style_name(part)], hatch=hatch or None,
                  edgecolor=COLOURS["hatch"] if hatch else COLOURS["paper"], linewidth=0.8)  # fmt: skip
        words = _fitting(part, shown.names[part], share(time_ns, shown.whole_ns), size.width * time_ns / longest, size)
        box = {"facecolor": COLOURS[style_name(part)], "edgecolor": "none", "pad": 1.5} if hatch else None
        middle, colour = (left + time_ns / 2) / longest, COLOURS["ink" if hatch else "on-work"]
        axes.text(middle, position, typeset(words), ha="center", va="center", bbox=box if words else None, color=colour)
        left += time_ns


def _fitting(part: Part, name: str, percent: str, room: float, size: Size) -> str:
    """Return as much about a piece as fits into it."""
    letter = size.letters * _LETTER_WIDTH
    mark = STYLES[part].letter
    for words in (f"{mark} {name} {percent}", f"{mark} {percent}", mark):
        if (len(words) + 1) * letter <= room:
            return words
    return ""
