# SPDX-License-Identifier: Apache-2.0
"""Single handshakes, a line for each: when it ended and whose it was, what its client waited, whose time that was, and how it
ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import client_wait_ns
from ssllatency.model.handshakes import Ending, Label, Part, Single
from ssllatency.reports.rows.handshakes.endings import UNPHASED, reason_words, why_words
from ssllatency.reports.text.events import Clock, whom_words
from ssllatency.reports.text.page import PLAIN, Page
from ssllatency.reports.words.marks import DOMINANT, FAILURE
from ssllatency.reports.words.owners import Owned, owned
from ssllatency.units import duration, printable

_LEAST_TEXT = 40  # columns for what is last in a line of all columns
_NOTABLE = 0.1  # what is less of the client's wait isn't named where there is little room
_BELOW = "    "  # before what goes on in a line of its own
# The owners that have columns; it isn't known of the second of PEER whose it is, which _UNSURE says.
_COLUMNS = {"QUEUE": (Part.QUEUE,), "PEER": (Part.WAIT_PEER, Part.WAIT_PEER_OR_SERVER), "CALLS": (Part.CALLS,)}
_UNSURE = "?"


@dataclass(frozen=True)
class _Layout:
    """The columns before OUTCOME: their widths by heading, those set to the left, and the decimals of milliseconds."""

    widths: Mapping[str, int]
    left: Sequence[str]
    decimals: int

    def line(self, cells: Mapping[str, str], marks: Mapping[str, str] | None = None) -> str:
        """A line of these cells. `marks`: what takes a cell's place once it is as wide as its column."""
        aligned = {name: f"{cells[name]:{'<' if name in self.left else '>'}{width}}" for name, width in self.widths.items()}
        return " ".join((marks or {}).get(name, text) for name, text in aligned.items())


_WIDE = _Layout(
    {"TIME": 15, "PID": 7, "COMM": 15, "WAIT(ms)": 10, "QUEUE": 9, "PEER": 9, "CALLS": 9}, ("TIME", "COMM"), decimals=3
)
_NARROW = _Layout(
    {"TIME": 12, "PROCESS": 14, "WAIT(ms)": 8, "QUEUE": 6, "PEER": 6, "CALLS": 6}, ("TIME", "PROCESS"), decimals=2
)


class HandshakeLines:
    """Lines of all columns, or on a terminal that is too narrow for them of shorter ones: then what has no room is below."""

    def __init__(self, by: Sequence[Label] = (), page: Page = PLAIN) -> None:
        """`by`: the labels of those who shook hands that were asked for."""
        self._by, self._page, self._clock = by, page, Clock("%H:%M:%S.")
        self._layout = _WIDE if page.has_room([f"{_heading(_WIDE)}{' ' * _LEAST_TEXT}"]) else _NARROW
        self.heading = f"{_heading(self._layout)}\n"

    def render(self, singles: Iterable[Single]) -> list[str]:
        """A line for each, newline included, and with it what is below."""
        return [self._rendered(single) for single in singles]

    def _rendered(self, single: Single) -> str:
        shares = owned(single)
        cells = self._cells(single, {share.part: share.time_ns for share in shares})
        room = None if self._page.most is None else self._page.most - len(self._layout.line(cells)) - 1
        text, below = _text(single, shares, room)
        whom = printable(whom_words({label: single.labels.get(label) for label in self._by}))
        if whom and not below and (room is None or len(text) + 1 + len(whom) <= room):
            text, whom = f"{text} {whom}", ""
        first = f"{self._layout.line(cells, self._marked(cells, shares))} {self._outcome(single, text)}"
        lines = [first, *(line for more in (below, whom) for line in self._page.wrapped(more, _BELOW))]
        return "".join(f"{line}\n" for line in lines)

    def _cells(self, single: Single, times_ns: Mapping[Part, int]) -> dict[str, str]:
        second, micro = divmod(round(single.ended_s * 1e6), 1_000_000)
        moment = f"{self._clock.at(second)}{micro:06d}"
        name, pid, widths = printable(single.comm), str(single.pid), self._layout.widths
        columns = {heading: self._times(heading, parts, times_ns) for heading, parts in _COLUMNS.items()}
        return {
            "TIME": moment[: widths["TIME"]],
            "PID": pid,
            "COMM": name,
            "PROCESS": f"{name[: max(0, widths.get('PROCESS', 0) - len(pid) - 2)]}({pid})",
            "WAIT(ms)": self._milliseconds(client_wait_ns(single.parts), widths["WAIT(ms)"]),
            **columns,
        }

    def _times(self, heading: str, parts: Sequence[Part], times_ns: Mapping[Part, int]) -> str:
        """The time of these parts together; "-" where the handshake had none of them."""
        present = [part for part in parts if part in times_ns]
        unsure = _UNSURE if Part.WAIT_PEER_OR_SERVER in present else ""
        width = self._layout.widths[heading] - len(unsure)
        return f"{self._milliseconds(sum(times_ns[part] for part in present), width)}{unsure}" if present else "-"

    def _milliseconds(self, time_ns: int, width: int) -> str:
        """With as many decimals as there is room for."""
        texts = (f"{time_ns / 1e6:.{decimals}f}" for decimals in range(self._layout.decimals, 0, -1))
        return next((text for text in texts if len(text) <= width), f"{time_ns / 1e6:.0f}")

    def _marked(self, cells: Mapping[str, str], shares: Sequence[Owned]) -> dict[str, str]:
        """The cell of the longest part, so that it stands out."""
        heading = next((heading for heading, parts in _COLUMNS.items() if shares and shares[0].part in parts), None)
        if heading is None:
            return {}
        cell = cells[heading]
        return {heading: f"{' ' * (self._layout.widths[heading] - len(cell))}{self._page.marked(cell, DOMINANT)}"}

    def _outcome(self, single: Single, text: str) -> str:
        return self._page.marked(text, FAILURE) if single.ending is Ending.FAILURE else text


def _heading(layout: _Layout) -> str:
    return f"{layout.line({name: name for name in layout.widths})} OUTCOME, MOSTLY"


def _text(single: Single, shares: Sequence[Owned], room: int | None) -> tuple[str, str]:
    """Return how it ended, why, and what its parts consist of; and what of that is below where there is no room."""
    why, reasons = printable(why_words(single)), [reason_words(single.parts), UNPHASED if single.unphased else ""]
    whole = "; ".join(filter(None, (why, *map(_words, shares), *reasons)))
    whole = f"{single.ending} {whole}" if whole else str(single.ending)
    if room is None or len(whole) <= room:
        return whole, ""
    text = _short(single, shares, room)
    unnamed = shares[:1] if text == str(single.ending) else []  # its name alone is too long
    below = [_words(share) for share in shares if share in unnamed or not _has_column(share)]
    return text, "; ".join(filter(None, (why, *below, reasons[0])))


def _has_column(share: Owned) -> bool:
    return any(share.part in parts for parts in _COLUMNS.values())


def _words(share: Owned) -> str:
    """The words for what an owner's time consists of; how long it was where no column says that."""
    pieces = ", ".join(f"{name} {duration(time_ns)}" for name, time_ns in share.pieces)
    if _has_column(share) and share.part is not Part.WAIT_PEER_OR_SERVER:
        return f"{share.name}: {pieces}" if pieces else ""
    return f"{share.name} {duration(share.time_ns)}{f': {pieces}' if pieces else ''}"


def _short(single: Single, shares: Sequence[Owned], room: int) -> str:
    """Return how it ended, and what its longest parts mostly were: as many as fit."""
    text, before = str(single.ending), " "
    for number, share in enumerate(shares):
        longer = f"{text}{before}{share.most}"
        if len(longer) > room or (number and share.time_ns < _NOTABLE * client_wait_ns(single.parts)):
            break
        text, before = longer, ", "
    return text
