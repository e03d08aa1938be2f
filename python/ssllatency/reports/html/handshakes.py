# SPDX-License-Identifier: Apache-2.0
"""The tables of a page that are about handshakes."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.model.handshake_arithmetic import total
from ssllatency.model.handshakes import Ending, Group, Handshakes, Part
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.reports.html import change as html_change
from ssllatency.reports.html.plots.bars import Bar
from ssllatency.reports.html.tables import Row, Table, compared, table, title
from ssllatency.reports.html.words import LETTERS, style_name
from ssllatency.reports.text.diff import percent, signed
from ssllatency.reports.text.handshakes import endings as handshake_endings
from ssllatency.reports.text.handshakes import mix as handshake_mix
from ssllatency.reports.text.handshakes import parts as handshake_parts
from ssllatency.reports.words.handshakes import ADJECTIVES, LABELS, PARTS, key_words, value_words
from ssllatency.reports.words.quantiles import quantile
from ssllatency.reports.words.units import duration, share

_QUANTILES = (0.5, 0.9, 0.99)


def endings(after: Snapshot, before: Snapshot | None) -> Table:
    """How handshakes ended, and why not well."""
    headings = ("How", "Count", "Share", "A second", "Mean", "p50", "p90", "p99", "Max")
    return compared("How the handshakes ended; times are wall times", headings, _endings, after, before)


def _endings(snapshot: Snapshot) -> Iterator[Row]:
    handshakes = snapshot.handshakes
    if handshakes is None:
        return
    everything = sum(group.count for group in handshakes.groups)
    for ending in Ending:
        group = total(handshakes, ending)
        yield Row((ADJECTIVES[ending],), _ending(group, everything, snapshot.duration_s) if group else ("0", *["-"] * 7))
        causes = sorted((one for one in handshakes.causes if one.ending is ending and one.count), key=lambda one: -one.count)
        for cause in causes:
            rate = handshake_endings.rate(cause.count / snapshot.duration_s) if snapshot.duration_s else "-"
            words = handshake_endings.why(cause).removeprefix(f"{ADJECTIVES[ending]}: ")
            cells = (str(cause.count), share(cause.count, everything), rate, duration(cause.total_ns / cause.count))
            yield Row((words,), (*cells, "", "", "", ""), depth=1)


def _ending(group: Group, everything: int, duration_s: float) -> tuple[str, ...]:
    wall = group.parts[Part.WALL]
    rate = handshake_endings.rate(group.count / duration_s) if duration_s else "-"
    times = (duration(wall.total_ns / group.count), *(quantile(wall, q) for q in _QUANTILES), duration(wall.max_ns))
    return str(group.count), share(group.count, everything), rate, *times


def pieces(after: Bar, before: Bar | None) -> Table:
    """What each piece of the bars is, and by how much it changed."""
    parts = [part for part in after.mean_ns if after.mean_ns[part] or (before and before.mean_ns.get(part))]
    parts += [part for part in before.mean_ns if before.mean_ns[part] and part not in after.mean_ns] if before else []
    rows = [
        Row((PARTS[part],), _piece(after, before, part), mark=style_name(part), letter=LETTERS[part])
        for part in LETTERS
        if part in parts
    ]
    change = ("Before", "Change", "Change in %") if before else ()
    whole = Row(("all of it",), _sums(after, before))
    return table("The pieces: time of a mean handshake", ("Part", "Mean", "Share", *change), [*rows, whole])


def _piece(after: Bar, before: Bar | None, part: Part) -> tuple[str, ...]:
    now = after.mean_ns.get(part, 0.0)
    cells = duration(now), share(now, after.whole_ns)
    return (*cells, *_changed(now, before.mean_ns.get(part, 0.0))) if before else cells


def _sums(after: Bar, before: Bar | None) -> tuple[str, ...]:
    cells = duration(after.whole_ns), share(1, 1)
    return (*cells, *_changed(after.whole_ns, before.whole_ns)) if before else cells


def _changed(now: float, was: float) -> tuple[str, str, str]:
    return duration(was), signed(now - was), percent(now / was if was else None)


def parts(after: Group, before: Group | None, comparison: Comparison | None) -> Table:
    """Phases and waits, each of the handshakes that had it."""
    headings = [title(heading) for heading in handshake_parts.HEADINGS]
    verdicts = html_change.part_verdicts(comparison, str(after.ending)) if comparison and before else None
    caption = "Phases and waits, each of the handshakes that had it"
    return compared(caption, headings, _parts, after, before, verdicts)


def _parts(group: Group) -> Iterator[Row]:
    wall_ns = group.parts[Part.WALL].total_ns
    for part, depth in handshake_parts.ROWS:
        times = group.parts.get(part)
        if times and times.count:
            cells = tuple(handshake_parts.cells(times, wall_ns))
            yield Row((PARTS[part],), cells, depth, style_name(part) if part in LETTERS else "", LETTERS.get(part, ""))


def keys(after: Handshakes, before: Handshakes | None) -> Table:
    """What private keys did."""
    headings = ("Key", "Handshakes", "Share", "Mean", "Total")
    return compared("Private-key operations of successful handshakes", headings, _keys, after, before)


def _keys(handshakes: Handshakes) -> list[Row]:
    group = total(handshakes, Ending.SUCCESS)
    ordered = sorted((one for one in handshakes.keys if one.count), key=lambda one: -one.total_ns)
    return [
        Row(
            (key_words(one.operation, one.key),),
            (
                str(one.count),
                share(one.count, group.count if group else 0),
                duration(one.total_ns / one.count),
                duration(one.total_ns),
            ),
        )
        for one in ordered
    ]


def mix(after: Handshakes, before: Handshakes | None) -> Table:
    """What kinds of handshakes succeeded."""
    headings = ("Label", "Value", "Count", "Share")
    return compared("Kinds of successful handshakes", headings, _mix, after, before)


def _mix(handshakes: Handshakes) -> Iterator[Row]:
    for label, counts in handshake_mix.in_order(handshakes.mix):
        everything = sum(counts.values())
        for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if count:
                yield Row((LABELS[label], value_words(label, value)), (str(count), share(count, everything)))


def unknown(handshakes: Handshakes) -> list[str]:
    """A sentence for each label that isn't known."""
    return [f"{LABELS[label]}: not known, {reason}." for label, reason in handshake_mix.in_order(handshakes.unknown_labels)]


def groups(after: Handshakes, before: Handshakes | None) -> Table:
    """Groups by the labels that handshakes were told apart by."""
    headings = [*(LABELS[label].capitalize() for label in after.by), *map(title, handshake_mix.HEADINGS)]
    same = before if before and before.by == after.by else None
    return compared("Groups: wall times, means of calls and of the key", headings, _groups, after, same)


def _groups(handshakes: Handshakes) -> list[Row]:
    return [Row((*labels, cells[0]), tuple(cells[1:])) for labels, cells in handshake_mix.group_rows(handshakes)]
