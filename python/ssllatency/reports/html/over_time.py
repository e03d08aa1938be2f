# SPDX-License-Identifier: Apache-2.0
"""The section of a page that shows durations over time: heatmap, percentiles, distribution, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssllatency.model.arithmetic.handshake_sums import add_times
from ssllatency.model.handshakes import Ending, Group, Part, Times, whole_part
from ssllatency.model.histogram import Grid
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.reports.html.blocks import Block, Level, PageSection, PlotBlock, Sentences
from ssllatency.reports.html.plots import heatmap as html_heatmap
from ssllatency.reports.html.plots import lines as html_lines
from ssllatency.reports.html.plots.columns import Pick, PlotColumn, beginning, calls_of, side_by_side, successful
from ssllatency.reports.html.plots.moments import TimeAxis, elapsed
from ssllatency.reports.html.tables import HtmlTable, table
from ssllatency.reports.html.words import visible
from ssllatency.reports.rows.row import Row
from ssllatency.reports.words.quantiles import quantile
from ssllatency.units import capitalized, duration, rate, share

_HANDSHAKE_CALLS = ("SSL_do_handshake", "SSL_accept")
# The columns and rows of the heatmap's table: more can't be read.
_SPANS = 6
_OCTAVE = 16


def over_time(recording: Recording, before: Recording | None, whole: Snapshot, old: Snapshot | None) -> PageSection | None:
    """Everything over time; None where nothing was counted. `whole` and `old`: the recordings' totals."""
    what, pick = _subject(whole, old)
    recordings = [recording, before] if before else [recording]
    timelines = side_by_side(recordings, pick)
    scale = html_heatmap.scale_of(timelines)
    if scale is None:
        return None
    longer = any(len(timeline) > 1 for timeline in timelines)
    blocks: list[Block] = [Sentences([_introduction(what, timelines, longer)])]
    if longer:
        clocks = [TimeAxis.of(scale.end_s, begun) for begun in map(beginning, recordings)]
        blocks += _heatmaps(timelines, clocks, scale, what)
        blocks += _percentiles(timelines, TimeAxis(scale.end_s) if before else clocks[0], what)
    if before or not longer:
        blocks += _distribution(timelines, scale, what)
    return PageSection("time", "Over time" if longer else "Distribution", blocks)


def _subject(whole: Snapshot, old: Snapshot | None) -> tuple[str, Pick]:
    """The subject that is shown over time: handshakes where there were any, else the calls that stand for them."""
    if _successful(whole):
        part = whole_part([*_successful(whole), *(_successful(old) if old else ())])
        what = "clients' wait for successful handshakes" if part is Part.CLIENT_WAIT else "wall time of successful handshakes"
        return what, successful(part)
    spent: dict[str, int] = {}
    unknown: set[str] = set()
    for series in whole.series:
        if series.outcome.may_be_success and series.count:
            spent[series.function] = spent.get(series.function, 0) + series.total_ns
            unknown |= {series.function} if series.outcome is Outcome.UNKNOWN else set()
    function = next((name for name in _HANDSHAKE_CALLS if name in spent), max(spent, key=lambda name: spent[name], default=""))
    kind = "calls (outcome unknown)" if function in unknown else "successful calls"
    return f"{kind} of {visible(function)}", calls_of(function)


def _successful(snapshot: Snapshot) -> list[Group]:
    groups = snapshot.handshakes.groups if snapshot.handshakes else ()
    return [group for group in groups if group.ending is Ending.SUCCESS and group.count]


def _introduction(what: str, timelines: Sequence[Sequence[PlotColumn]], longer: bool) -> str:
    what, width = capitalized(what), elapsed(timelines[0][0].end_s)
    if longer:
        return f"{what}, in columns of {width} from the beginning on."
    return f"{what}, {'each recording as a whole' if len(timelines) > 1 else f'in one interval of {width}'}."


def _heatmaps(
    timelines: Sequence[Sequence[PlotColumn]], clocks: Sequence[TimeAxis], scale: html_heatmap.Scale, what: str
) -> Iterator[Block]:
    for age, (timeline, moments) in enumerate(zip(timelines, clocks, strict=True)):
        when = "" if len(timelines) == 1 else ", before" if age else ", after"
        caption = f"Heatmap{when}: {what}; the stronger the colour, the more a second.{moments.zone}"
        key, title = "before" if age else "heat", f"Heatmap of the {what}{when}"
        drawn = html_heatmap.heatmap(key, timeline, scale, moments, title, caption)
        numbers = _spans(timeline, scale.grid, moments, f"Numbers of the heatmap{when}: durations in each span of time")
        yield PlotBlock(drawn, numbers, _levels(scale))


def _levels(scale: html_heatmap.Scale) -> list[Level]:
    if scale.least >= scale.greatest:
        return [Level(html_heatmap.LEVELS[-1], rate(scale.greatest))]
    bounds = [scale.bounds(level) for level in range(len(html_heatmap.LEVELS))]
    words = [f"{rate(low)} to {rate(high)}" for low, high in bounds]
    return [Level(opacity, text) for opacity, text in zip(html_heatmap.LEVELS, words, strict=True)]


def _spans(timeline: Sequence[PlotColumn], grid: Grid, moments: TimeAxis, caption: str) -> HtmlTable:
    """The counts by octave and by span of several columns."""
    per_span = -(-len(timeline) // _SPANS)
    spans = [timeline[start : start + per_span] for start in range(0, len(timeline), per_span)]
    counts: dict[int, list[int]] = {}
    for position, span in enumerate(spans):
        for column in span:
            for bucket, count in column.times.exponential.by_bucket.items() if column.times else ():
                counts.setdefault(bucket // _OCTAVE, [0] * len(spans))[position] += count
    rows = [Row((_octave(octave, grid),), tuple(map(str, counts[octave]))) for octave in sorted(counts)]
    width_s = timeline[0].end_s
    return table(caption, ("Longer than", *(f"from {moments.text(span[0].start_s, width_s)}" for span in spans)), rows)


def _octave(octave: int, grid: Grid) -> str:
    low, high = grid.bucket_bounds(octave * _OCTAVE)[0], grid.bucket_bounds(octave * _OCTAVE + _OCTAVE - 1)[1]
    shortest, longest = html_heatmap.counted_ns(grid)
    if low >= longest:
        return duration(low)
    return f"{duration(low if low >= shortest else 0)}, to {duration(high)}"


def _percentiles(timelines: Sequence[Sequence[PlotColumn]], moments: TimeAxis, what: str) -> Iterator[Block]:
    compared = len(timelines) > 1
    caption = f"Percentiles: {what}{'; dashed: before' if compared else ''}.{moments.zone}"
    drawn = html_lines.percentiles("lines", timelines, moments, f"Percentiles of the {what}", caption)
    headings = ("From", "Count", *html_lines.QUANTILES, "Max")
    rows = [list(_column_rows(timeline, moments)) for timeline in timelines]
    if drawn:
        yield PlotBlock(drawn, table("Numbers of the percentiles", headings, rows[0], rows[1] if compared else None))


def _column_rows(timeline: Sequence[PlotColumn], moments: TimeAxis) -> Iterator[Row]:
    for place, column in enumerate(timeline):
        count = str(column.count) if column.measured else "-"
        yield Row((moments.text(column.start_s, timeline[0].end_s),), (count, *_percentile_cells(column.times)), place=place)


def _percentile_cells(times: Times | None) -> tuple[str, ...]:
    if times is None:
        return ("-",) * (len(html_lines.QUANTILES) + 1)
    return (*(quantile(times, q) for q in html_lines.QUANTILES.values()), duration(times.max_ns))


def _distribution(timelines: Sequence[Sequence[PlotColumn]], scale: html_heatmap.Scale, what: str) -> Iterator[Block]:
    measured = [_all_times(timeline) for timeline in timelines]
    caption = f"Distribution: {what}{'; dashed: before' if len(timelines) > 1 else ''}."
    drawn = html_lines.distribution("spread", measured, scale, f"Distribution of the {what}", caption)
    rows = [list(_octave_rows(times)) if times else [] for times in measured]
    numbers = table("Numbers of the distribution", ("Longer than", "Count", "Share"), rows[0], rows[1] if rows[1:] else None)
    yield PlotBlock(drawn, numbers)


def _all_times(timeline: Sequence[PlotColumn]) -> Times | None:
    kept = [column.times for column in timeline if column.times]
    return add_times(kept) if kept else None


def _octave_rows(times: Times) -> Iterator[Row]:
    counts: dict[int, int] = {}
    for bucket, count in times.exponential.by_bucket.items():
        counts[bucket // _OCTAVE] = counts.get(bucket // _OCTAVE, 0) + count
    for octave in sorted(counts):
        yield Row((_octave(octave, times.exponential.grid),), (str(counts[octave]), share(counts[octave], times.count)))
