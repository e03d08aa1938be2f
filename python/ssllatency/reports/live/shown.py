# SPDX-License-Identifier: Apache-2.0
"""The selection of a running session that is shown: the view and its order, the filter, the chosen row, the time that rows are
of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Label, Part, RequestedSide
from ssllatency.model.live.history import History, HistoryInterval, Tally, Window, counts, tallies
from ssllatency.model.live.reading import FUNCTION, SERVICE
from ssllatency.model.live.row_filter import RowFilter
from ssllatency.model.live.rows import LiveRow, rows, whole
from ssllatency.reports.live.columns import columns, ordered
from ssllatency.reports.words.label_words import LABELS
from ssllatency.reports.words.parts import part_names
from ssllatency.units import capitalized

WINDOWS_S = (1.0, 10.0, 60.0, 300.0)
_TITLES = {
    SERVICE: "services",
    FUNCTION: "functions",
    Label.PROCESS: "processes",
    Label.GROUP: "key-exchange groups",
    Label.SNI: "server names",
}
# The views that have a key, whether they are there or not.
VIEW_KEYS: Mapping[str, str] = {"1": SERVICE, "2": Label.PROCESS, "3": Label.PORT, "4": Label.SNI, "5": FUNCTION}
_READ_WHEN_ASKED = (Label.PORT, Label.SNI)


def title(view: str) -> str:
    """The title of the rows of a view."""
    if view in _TITLES:
        return _TITLES[view]
    name = LABELS.get(Label(view), view)
    return name if name.endswith("s") else f"{name}s"


def how_to_see(view: str, views: Sequence[str]) -> str:
    """The options to type for a view that isn't among these."""
    if view == FUNCTION:
        return "Functions are measured only when asked for: ssllatency top --functions"
    if view not in _READ_WHEN_ASKED:
        return f"There are no {title(view)} to show."
    shown_labels = [name for name in views if name in set(Label) - {Label.PROCESS, *_READ_WHEN_ASKED}]
    labels = ",".join([*shown_labels, *_READ_WHEN_ASKED])
    return f"{capitalized(title(view))} are read only when asked for: ssllatency top --by {labels}"


@dataclass(frozen=True)
class ViewChoice:
    """The user's choice. `sort` is the key of a column, or "name"; `row` the chosen row's name, "" for the first."""

    view: str = SERVICE
    sort: str = "rate"
    ascending: bool = False
    contains: str = ""
    row: str = ""
    window_s: float = WINDOWS_S[1]

    def switched(self, views: Sequence[str], step: int = 1) -> ViewChoice:
        """The choice with the next view, in which another row is chosen."""
        return self.viewed(views[(views.index(self.view) + step) % len(views)] if self.view in views else views[0])

    def viewed(self, view: str) -> ViewChoice:
        """The choice with this view, in which another row is chosen."""
        kept = self.sort if self.sort == "name" or self.sort in {column.key for column in columns(view)} else "rate"
        return replace(self, view=view, sort=kept, row="")

    def sorted_by(self, step: int) -> ViewChoice:
        """The choice, ordered by the next column."""
        keys = ["name", *(column.key for column in columns(self.view))]
        return replace(self, sort=keys[(keys.index(self.sort) + step) % len(keys)], ascending=False)

    def widened(self) -> ViewChoice:
        """The choice of a longer time, after the longest of the shortest."""
        return replace(self, window_s=WINDOWS_S[(WINDOWS_S.index(self.window_s) + 1) % len(WINDOWS_S)])


@dataclass(frozen=True)
class Shown:
    """The content to be seen now: the window, its rows in order, and the one that is chosen, None where there is none; the last
    minutes' intervals."""

    choice: ViewChoice
    window: Window
    whole: LiveRow
    rows: tuple[LiveRow, ...]
    chosen: LiveRow | None
    intervals: tuple[HistoryInterval, ...]
    hidden: int = 0
    services: dict[int, str] = field(default_factory=dict)

    @property
    def retries(self) -> bool:
        """Whether calls that had to be made again are known of any row: they aren't where no calls are measured."""
        return self.choice.view == FUNCTION or self.whole.retries is not None

    @property
    def names(self) -> Mapping[Part, str]:
        """The names of the parts of handshakes."""
        handshakes = self.window.snapshot.handshakes
        return part_names(handshakes.role if handshakes else RequestedSide.SERVER)

    def tallies_of(self, row: LiveRow | None) -> list[Tally]:
        """The tallies of the row in each of the intervals; all rows together for None."""
        return list(tallies(self.intervals, self.choice.view, self.services, row.name if row else None))

    def counts_of(self, row: LiveRow) -> list[int]:
        """Return how many of the row there were in each of the intervals."""
        return self._counts.get(row.name, [0] * len(self.intervals))

    @cached_property
    def _counts(self) -> dict[str, list[int]]:
        return counts(self.intervals, self.choice.view, self.services)


def shown(history: History, choice: ViewChoice) -> Shown | None:
    """Choose what of the history is shown; None before there are two readings."""
    window, newest = history.window(choice.window_s), history.newest
    if window is None or newest is None:
        return None
    every = ordered(rows(window.snapshot, choice.view, newest.services), choice.view, choice.sort, ascending=choice.ascending)
    wanted = RowFilter.of(choice.contains)
    kept = tuple(row for row in every if wanted.matches(row, newest.services))
    chosen = next((row for row in kept if row.name == choice.row), kept[0] if kept else None)
    return Shown(
        choice,
        window,
        whole(window.snapshot),
        kept,
        chosen,
        tuple(history.intervals),
        len(every) - len(kept),
        dict(newest.services),
    )
