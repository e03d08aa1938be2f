# SPDX-License-Identifier: Apache-2.0
"""The whole screen of a live view as lines, for any size from 80 x 24 on. From the top: whose numbers, the totals, the views;
the table; of the chosen row the trend, the heatmap and the parts of the time; the diagnosis, the newest failures; the keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import WHO, Part
from ssllatency.model.live.history import HISTORY_S, Failures
from ssllatency.model.live.reading import FUNCTION
from ssllatency.model.live.rows import LiveRow
from ssllatency.reports.live.columns import Layout, layout
from ssllatency.reports.live.drawings import heatmap, parts_bar
from ssllatency.reports.live.lines import cell, cut, diagnosis, failures, heading, headings, lost, totals, trend
from ssllatency.reports.live.shown import VIEW_KEYS, Shown, title
from ssllatency.reports.live.styled import Line, Piece, PieceStyle, fitted, plain, words
from ssllatency.reports.text.page import Page, wrapped
from ssllatency.units import counted, seconds

LEAST = (80, 24)
_ENDS = (". ", "; ", ": ", " (")  # of sentences and clauses
_KEYS = {
    "?": "help",
    "q": "quit",
    "1-5": "view",
    "<>": "sort",
    "/": "filter",
    "Enter": "detail",
    "s": "snoop",
    "r": "record",
    "p": "pause",
}
_ABOVE, _BELOW = 3, 2  # lines: heading, totals, views; what happened last, keys
_BAR_LINES, _SENTENCE_LINES, _MOST_SENTENCE_LINES = 3, 2, 5
_LEAST_TABLE, _LEAST_FAILURES, _LEAST_ROOM = 3, 2, 13  # lines
_MOST_HEAT, _MOST_FAILURES = 16, 8


@dataclass(frozen=True)
class State:
    """The state of the screen beside the numbers: which views there are, whether it is paused, where is recorded ("" for
    nowhere), and what happened last."""

    views: Sequence[str]
    paused: bool = False
    recording: str = ""
    notice: str = ""


def compose(now: Shown | None, newest: Iterable[Failures], at_s: float, state: State, page: Page, height: int) -> list[Line]:
    """Exactly `height` lines, none of them wider than the page."""
    width = page.width
    if width < LEAST[0] or height < LEAST[1]:
        return _padded([[Piece(f"{width} x {height} is too small: top needs {LEAST[0]} x {LEAST[1]}.")]], height, width)
    if now is None:
        return _padded(
            [[Piece("ssllatency top  ", PieceStyle.STRONG), Piece("the first numbers come in a moment ...")]], height, width
        )
    story = _sentences(now, page, max(_MOST_SENTENCE_LINES, height // 5))
    why = failures(newest, _MOST_FAILURES)
    room = height - _ABOVE - _BELOW - _BAR_LINES - 1 - len(story)
    table, heat, failed = _shared(room, len(now.rows) + 1, len(why))
    lines = [*_above(now, at_s, state, page), *_table(now, page, table), *_picture(now, page, heat), *story, *why[:failed]]
    return [*_padded(lines, height - _BELOW, width), *_padded(_last(state, width), _BELOW, width)]


def _shared(room: int, rows: int, why: int) -> tuple[int, int, int]:
    """Return how many lines the table, the heatmap and the failures have: the heatmap takes what the others don't need."""
    failed = min(why, _LEAST_FAILURES + max(0, room - _LEAST_ROOM) // 6)
    table = min(max(_LEAST_TABLE, rows), max(_LEAST_TABLE, (room - failed) // 2))
    heat = min(room - table - failed, _MOST_HEAT)
    return min(max(_LEAST_TABLE, rows), room - heat - failed), heat, failed


def _above(now: Shown, at_s: float, state: State, page: Page) -> list[Line]:
    marks = [Piece(" PAUSED ", PieceStyle.SELECTED)] if state.paused else []
    marks += [Piece(" REC ", PieceStyle.FAILURE), words(f"{state.recording} ")] if state.recording else []
    below = [[*marks, *totals(now)], _views(now, state.views)]
    min(below, key=lambda line: len(plain(line))).extend(lost(now))  # the line that has more room for it
    return [heading(now, at_s, page), *below]


def _views(now: Shown, views: Sequence[str]) -> list[Piece]:
    pieces: list[Piece] = []
    keys = {view: f"{key} " for key, view in VIEW_KEYS.items()}
    for view in views:
        pieces += [
            Piece(f" {keys.get(view, '')}{title(view)} ", PieceStyle.SELECTED if view == now.choice.view else PieceStyle.PLAIN)
        ]
    if now.choice.contains:
        hidden = f", {now.hidden} hidden" if now.hidden else ""
        pieces += [Piece("  only: ", PieceStyle.FAINT), words(f"{now.choice.contains}{hidden}", PieceStyle.STRONG)]
    return pieces


def _table(now: Shown, page: Page, lines: int) -> list[Line]:
    """The heading and as many rows as fit, the chosen one among them."""
    longest = max((len(row.name) for row in now.rows), default=0)
    fitting = layout(now.choice.view, page.width, longest, retries=now.retries)
    rows = _around_chosen(now, lines - 1)
    chosen = now.chosen.name if now.chosen else ""
    body = [_table_row(now, row, fitting, page, chosen=row.name == chosen) for row in rows]
    above = [Piece(text, PieceStyle.STRONG) for text in _columns(headings(now, fitting.columns), fitting)]
    return _exactly([[*above, Piece(" TREND", PieceStyle.STRONG)], *body], lines)


def _around_chosen(now: Shown, most: int) -> Sequence[LiveRow]:
    position = next((number for number, row in enumerate(now.rows) if row is now.chosen), 0)
    first = max(0, min(position - most // 2, len(now.rows) - most))
    return now.rows[first : first + most]


def _table_row(now: Shown, row: LiveRow, fitting: Layout, page: Page, *, chosen: bool) -> Line:
    cells = [cell(row, column) for column in fitting.columns]
    texts = _columns([cut(row.name, fitting.name), *(piece.text for piece in cells)], fitting)
    styles = [PieceStyle.PLAIN, *(piece.style for piece in cells)]
    drawn = f" {trend(now, row, fitting.trend, page)}"
    if chosen:
        return [Piece(f"{''.join(texts)}{drawn}".ljust(page.width), PieceStyle.SELECTED)]
    return [*map(Piece, texts, styles), Piece(drawn, PieceStyle.FAINT)]


def _columns(texts: Sequence[str], fitting: Layout) -> list[str]:
    numbers = [f" {text:>{column.width}}" for text, column in zip(texts[1:], fitting.columns, strict=True)]
    return [f"{texts[0]:<{fitting.name}}", *numbers]


def _picture(now: Shown, page: Page, heat: int) -> list[Line]:
    """Of the chosen row: the heatmap below its title, and the parts of the time."""
    row = now.chosen
    return [
        _title(now, row),
        *_exactly(heatmap(now.tallies_of(row), page.width, heat, page), heat),
        *_parts(row, now.names, page),
    ]


def _parts(row: LiveRow | None, names: Mapping[Part, str], page: Page) -> list[Line]:
    return _exactly(parts_bar(row, page, _BAR_LINES - 1, names) if row else [], _BAR_LINES)


def _title(now: Shown, row: LiveRow | None) -> Line:
    span_s = min(HISTORY_S, sum(interval.duration_s for interval in now.intervals))
    what = "calls" if now.choice.view == FUNCTION else "successful handshakes"
    name = row.name if row else "nothing yet"
    return [words(name, PieceStyle.STRONG), Piece(f": {what} by duration, the last {seconds(span_s)}", PieceStyle.FAINT)]


def _sentences(now: Shown, page: Page, most: int) -> list[Line]:
    """The first sentence, and as many of the others as have room in so many lines as a whole."""
    whose = "All rows together: " if len(now.rows) > 1 else ""  # the bar above is the chosen row's
    sentences = [f"==> {whose}{sentence}" for sentence in diagnosis(now.window.snapshot)]
    lines: list[str] = []
    for sentence_lines in (page.wrapped(sentence, "", "    ") for sentence in sentences):
        lines += sentence_lines if not lines or len(lines) + len(sentence_lines) <= most else []
    return _exactly([[Piece(line, PieceStyle.STRONG)] for line in lines], max(_SENTENCE_LINES, min(most, len(lines))))


def _last(state: State, width: int) -> list[Line]:
    keys = [(Piece(key, PieceStyle.KEY), Piece(f" {what}", PieceStyle.FAINT)) for key, what in _KEYS.items()]
    return [[words(clauses(state.notice, width), PieceStyle.FAINT)], [piece for pair in keys for piece in (*pair, Piece(" "))]]


def clauses(text: str, width: int) -> str:
    """The text; where it is wider than that, as many of its sentences and clauses as fit, if they are most of the line."""
    if len(text) <= width:
        return text
    end = max(text.rfind(mark, 0, width + len(mark)) for mark in _ENDS)
    return text[:end] if end > width // 2 else text


def _exactly(lines: Sequence[Line], number: int) -> list[Line]:
    return [*lines[:number], *([[]] * (number - len(lines)))]


def _padded(lines: Sequence[Line], height: int, width: int) -> list[Line]:
    return [fitted(line, width) for line in _exactly(lines, height)]


def explanation(views: Sequence[str]) -> list[str]:
    """The keys, and what the columns are."""
    from ssllatency.reports.live.columns import columns

    absent = [title(view) for view in VIEW_KEYS.values() if view in WHO and view not in views]
    keys = [
        ("Up Down j k", "choose a row (PageUp PageDown Home End: further)"),
        (" ".join(VIEW_KEYS), ", ".join(map(title, VIEW_KEYS.values()))),
        *([("", f"{' and '.join(absent)} need --by: ssllatency top --by port,sni")] if absent else []),
        *([("", "functions need --functions")] if FUNCTION not in views else []),
        ("Tab, Shift-Tab", f"the next or previous view: {', '.join(map(title, views))}"),
        ("< >", "order rows by another column; i: reverse the order"),
        ("/", "only rows with a text in their name or service, or pod:web"),
        ("", "(service: pod: namespace: name:); Esc: all of them"),
        ("w", "the time that rows cover: the last second, 10 s, 1 min, 5 min"),
        ("Enter", "all about the chosen row; Esc goes back, here and elsewhere"),
        ("s", "snoop on the chosen row: its calls one by one"),
        ("r", "start a recording of all that is read, or stop it"),
        ("p, Space", "pause and go on; what happens meanwhile isn't lost"),
        ("Ctrl-Z, q", "into the background; quit, which removes all probes"),
    ]
    lines = [line for key, what in keys for line in wrapped(f"{key:<16}{what}", "", " " * 16, LEAST[0] - 2)]
    for view in dict.fromkeys((views[0], *(view for view in views if view == FUNCTION))):
        lines += ["", f"Columns of {title(view)}:"]
        lines += [f"  {column.heading:<9}{column.explained}" for column in columns(view)]
    lines += ["", f"The trend and the heatmap are of the last {seconds(HISTORY_S)}, the newest to the right."]
    return lines


def chosen_words(row: LiveRow) -> str:
    """Return whom a row is about: its processes."""
    return f"{row.name}, {counted(len(row.pids), 'process')}" if row.pids else row.name


def texts(lines: Iterable[Line]) -> list[str]:
    """The lines without their styles."""
    return [plain(line) for line in lines]
