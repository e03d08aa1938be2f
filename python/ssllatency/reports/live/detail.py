# SPDX-License-Identifier: Apache-2.0
"""All about one row of a live view: the parts of its time, how its handshakes ended, its diagnosis."""

from __future__ import annotations

from ssllatency.model.live.reading import FUNCTION
from ssllatency.model.live.rows import LiveRow, handshakes_of
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.live.drawings import heatmap, parts_bar, shown_ending
from ssllatency.reports.live.lines import diagnosis_of, trend
from ssllatency.reports.live.shown import Shown
from ssllatency.reports.live.styled import Line, Piece, PieceStyle, words
from ssllatency.reports.rows.functions import HEADINGS as FUNCTION_HEADINGS
from ssllatency.reports.rows.functions import function_rows, unsuccessful
from ssllatency.reports.rows.handshakes.facts import group_sentence
from ssllatency.reports.rows.handshakes.kinds import keys, mix
from ssllatency.reports.rows.losses import losses, notes
from ssllatency.reports.rows.parts import HEADINGS, part_rows
from ssllatency.reports.rows.sampling import phases_sentence
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.units import ranges, seconds

_HEAT_ROWS = 12


def detail(now: Shown, page: Page) -> list[Line]:
    """The lines, as many as there are."""
    row = now.chosen
    if row is None:
        return [[Piece("No row is chosen.")]]
    of_function = now.choice.view == FUNCTION
    blocks = [
        _about(now, row, page),
        _function(now, row, page) if of_function else _handshakes(now, row, page),
        [[Piece("By duration over time:", PieceStyle.STRONG)], *heatmap(now.tallies_of(row), page.width, _HEAT_ROWS, page)],
        *([] if of_function else [_everything(now.window.snapshot, page)]),
        _missed(now.window.snapshot, page),
    ]
    return [line for block in blocks if block for line in (*block, [])]


def _about(now: Shown, row: LiveRow, page: Page) -> list[Line]:
    what = "calls" if now.choice.view == FUNCTION else "handshakes"
    failed = "how they ended isn't known" if row.failed is None else f"{row.failed} of them failed"
    ended = f"{row.count} {what} in {seconds(row.duration_s)}, {failed}"
    abandoned = f", {row.abandoned} abandoned" if row.abandoned else ""
    pids = [_faint(line) for line in page.wrapped(f"Processes: {ranges(row.pids)}", "", "  ")] if row.pids else []
    sentences = [] if now.choice.view == FUNCTION else diagnosis_of(row, now.window.snapshot)
    return [
        [words(row.name, PieceStyle.STRONG), Piece(f": {ended}{abandoned}")],
        *pids,
        [Piece("Rate: "), Piece(trend(now, row, page.width - 6, page))],
        *([Piece(line, PieceStyle.STRONG)] for sentence in sentences for line in page.wrapped(f"==> {sentence}", "", "    ")),
    ]


def _handshakes(now: Shown, row: LiveRow, page: Page) -> list[Line]:
    """The parts of the successful ones' time, or of the others' where none succeeded."""
    ending = shown_ending(row)
    if ending is None or not row.groups:
        return []
    cells = [[f"{'  ' * part.depth}{part.names[0]}", *part.cells] for part in part_rows(row.groups[ending], now.names)]
    table = page.table([[*map(str.upper, HEADINGS)], *cells], left=1)
    title = f"The time of the {ADJECTIVES[ending]} ones:"
    sentences = (phases_sentence(handshakes_of(row)), group_sentence(row.groups[ending]))
    lines = [*table, *(line for sentence in sentences for line in page.wrapped(sentence, "", "  "))]
    return [
        [Piece(title, PieceStyle.STRONG)],
        *parts_bar(row, page, lines=4, names=now.names),
        *([Piece(line)] for line in lines),
    ]


def _function(now: Shown, row: LiveRow, page: Page) -> list[Line]:
    calls = [series for series in now.window.snapshot.series if series.function == row.name]
    rows = [[*line.names, *line.cells] for line in function_rows(calls)]
    table = page.table([[*map(str.upper, FUNCTION_HEADINGS)], *rows], left=2)
    why = [line for reasons in unsuccessful(calls) for line in page.wrapped(reasons.words, "  ", "    ")]
    return [[Piece("By outcome:", PieceStyle.STRONG)], *([Piece(line)] for line in (*table, *why))]


def _everything(snapshot: Snapshot, page: Page) -> list[Line]:
    """The lines about what isn't told apart by row: kinds of handshakes, keys and reasons of failures of all that is traced."""
    handshakes = snapshot.handshakes
    if handshakes is None:
        return []
    lines = [
        f"{label.name}: {', '.join(f'{value.words} {value.share}' for value in label.values)}" for label in mix(handshakes)
    ]
    used = [f"{key.words} {key.share} (mean {key.mean})" for key in keys(handshakes)]
    lines += [f"private key: {', '.join(used)}"] if used else []
    title = [[Piece("All that is traced:", PieceStyle.STRONG)]] if lines else []
    return [*title, *([Piece(part)] for line in lines for part in page.wrapped(line, "  ", "    "))]


def _missed(snapshot: Snapshot, page: Page) -> list[Line]:
    phrases = [*losses(snapshot.losses, snapshot.handshakes), *notes(snapshot)]
    return [_faint(line) for phrase in phrases for line in page.wrapped(phrase, "", "  ")]


def _faint(text: str) -> Line:
    return [Piece(text, PieceStyle.FAINT)]
