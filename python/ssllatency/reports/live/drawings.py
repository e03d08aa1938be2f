# SPDX-License-Identifier: Apache-2.0
"""Pictures of text: how a rate went (a spark line), how long things took (a heatmap), what the time consists of (a bar)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from ssllatency.model.handshakes import PHASES, Ending, Part
from ssllatency.model.histogram import OVERFLOW, UNDERFLOW, bucket_bounds
from ssllatency.model.live.history import COARSE, HistoryInterval, Tally
from ssllatency.model.live.rows import LiveRow
from ssllatency.reports.live.styled import HEAT, Line, Piece, PieceStyle, plain
from ssllatency.reports.rows.parts import mean_ns
from ssllatency.reports.text.bars import bar_pieces, legend_entries
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.parts import PARTS
from ssllatency.units import duration

_SPARKS = (" .:-=+*#", " ▁▂▃▄▅▆▇█")  # in ASCII, and where the terminal shows more; nothing, then the least to the most
_HEATS = (" .:+*#", " ·░▒▓█")  # one for each of HEAT after the space
_LABEL = 8  # characters for the durations beside the heatmap


def spark(values: Sequence[float], width: int, page: Page) -> str:
    """The newest values, one a character, the greatest of them the highest; those that aren't zero are always seen."""
    shown, marks = values[-width:], _SPARKS[page.unicode]
    most = max(shown, default=0.0)
    steps = (math.ceil(value / most * (len(marks) - 1)) if value > 0 else 0 for value in shown)
    return "".join(marks[step] for step in steps).rjust(width)


def rates(intervals: Sequence[HistoryInterval], counts: Sequence[int], points: int) -> list[float]:
    """Return how many a second, in so many points up to now at most, each as long."""
    size = max(1, math.ceil(len(counts) / points)) if points else 1
    pairs = list(zip(intervals, counts, strict=True))
    chunks = [pairs[max(0, end - size) : end] for end in range(len(pairs), 0, -size)]
    times = [(sum(count for _, count in chunk), sum(part.duration_s for part, _ in chunk)) for chunk in chunks]
    return [count / seconds if seconds else 0.0 for count, seconds in reversed(times)]


def heatmap(tallied: Sequence[Tally], width: int, height: int, page: Page) -> list[Line]:
    """Return how many took how long, over the time up to now: the longest durations at the top, the darker the more. Nothing
    where nothing succeeded."""
    size = max(1, math.ceil(len(tallied) / max(1, width - _LABEL)))
    chunks = [tallied[max(0, end - size) : end] for end in range(len(tallied), 0, -size)]
    cells = [_counted(chunk) for chunk in reversed(chunks)]
    filled = [bucket for column in cells for bucket in column]
    if not filled:
        return []
    low, high = min(filled), max(filled)
    per_row = math.ceil((high - low + 1) / height)
    levels = [_levels(column, low, per_row) for column in cells]
    most = max(count for column in levels for count in column.values())
    rows, before = range((high - low) // per_row, -1, -1), width - _LABEL - len(levels)
    return [_heat_row(row, low + (row + 1) * per_row, [*([{}] * before), *levels], most, page) for row in rows]


def _counted(chunk: Sequence[Tally]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for tally in chunk:
        for bucket, number in tally.buckets.items():
            counts[bucket] = counts.get(bucket, 0) + number
    return counts


def _levels(column: dict[int, int], low: int, per_row: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for bucket, number in column.items():
        counts[(bucket - low) // per_row] = counts.get((bucket - low) // per_row, 0) + number
    return counts


def _heat_row(row: int, upper: int, levels: Sequence[dict[int, int]], most: int, page: Page) -> Line:
    pieces = [Piece(f"{_up_to(upper):>{_LABEL - 1}} ", PieceStyle.FAINT)]
    heats = [_heat(column.get(row, 0), most) for column in levels]
    for heat, same in groupby(heats):
        pieces.append(Piece(_HEATS[page.unicode][heat] * len(list(same)), HEAT[heat - 1] if heat else PieceStyle.PLAIN))
    return pieces


def _heat(count: int, most: int) -> int:
    """0 for nothing, then 1 to 5 by the logarithm: rare ones are seen beside many."""
    if not count:
        return 0
    return len(HEAT) if most <= 1 else 1 + round((len(HEAT) - 1) * math.log(count) / math.log(most))


def _up_to(coarse: int) -> str:
    """The upper end of a row of the heatmap."""
    bucket = coarse * COARSE
    if bucket > OVERFLOW:
        return f">{duration(bucket_bounds(OVERFLOW)[0])}"
    return duration(bucket_bounds(max(bucket, UNDERFLOW + 1))[0])


def shown_ending(row: LiveRow) -> Ending | None:
    """Of which handshakes the parts are shown: the successful ones where there are any."""
    return next((ending for ending in Ending if row.groups and ending in row.groups), None)


def parts_bar(row: LiveRow, page: Page, lines: int, names: Mapping[Part, str] = PARTS) -> list[Line]:
    """The parts of the mean handshake's time: a bar, and at most so many lines that explain it, the most time first."""
    ending = shown_ending(row)
    times_ns = mean_ns(row.groups[ending]) if ending and row.groups else {}
    if not any(times_ns.values()):
        return []
    bar = [Piece(text, _style(part)) for part, text in bar_pieces(times_ns, page.width - 2, page)]
    return [[Piece("|"), *bar, Piece("|")], *_explained(times_ns, page, lines, names)]


def _explained(times_ns: Mapping[Part, float], page: Page, lines: int, names: Mapping[Part, str]) -> list[Line]:
    entries = legend_entries(times_ns, page, names)
    order = sorted(entries, key=lambda part: -times_ns[part])
    explained: list[list[Piece]] = [[]]
    for part in order:
        piece = Piece(entries[part], _style(part) if part is order[0] else PieceStyle.PLAIN)
        if explained[-1] and len(plain(explained[-1])) + 3 + len(piece.text) > page.width:
            explained.append([])
        explained[-1] += [Piece("   "), piece] if explained[-1] else [piece]
    return list(explained[:lines])


def _style(part: Part) -> PieceStyle:
    return PieceStyle.WORK if part in PHASES else PieceStyle.WAIT
