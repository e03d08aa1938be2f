# SPDX-License-Identifier: Apache-2.0
"""The section of a page that tells what happened in one recording."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.model.recording import Recording
from ssllatency.model.statistics.comparison import Verdict
from ssllatency.model.statistics.timeline import ChangedTime, timeline
from ssllatency.reports.diagnosis.diagnosis import conclusion
from ssllatency.reports.html.blocks import Block, PageSection, Sentences, Tabular
from ssllatency.reports.html.tables import table
from ssllatency.reports.rows.compared import failure_sentences, group_changes
from ssllatency.reports.rows.row import Row
from ssllatency.reports.rows.timeline import (
    HEADINGS,
    calm_words,
    changed_words,
    normal_words,
    owner_words,
    rows,
    zone,
)

_NAMES = 3  # of HEADINGS: what a row is of


def what_happened(recording: Recording) -> PageSection | None:
    """Say what changed over time, or that nothing did; None where it can't be told."""
    told = timeline(recording)
    if told is None:
        return None
    blocks: list[Block] = [Sentences([calm_words(told)])]
    if told.changed:
        caption = f"What changed, in this order; times are {zone(told)}"
        lines = [Row(row[:_NAMES], row[_NAMES:], place=place) for place, row in enumerate(rows(told))]
        blocks = [
            Sentences([normal_words(told, told.changed), changed_words(told, told.changed)]),
            Tabular(table(caption, HEADINGS, lines)),
            *_affected(told.changed),
            Sentences(list(_sentences(told.changed))),
        ]
    return PageSection("happened", "What happened", blocks)


def _affected(changed: ChangedTime) -> list[Block]:
    made = group_changes(changed.comparison)
    if not made.rows:
        return []
    lines = [Row(names, cells, place=place) for place, (names, cells, _) in enumerate(made.rows)]
    return [Tabular(table("Who was affected", (*made.labels, *made.headings), lines))]


def _sentences(changed: ChangedTime) -> Iterator[str]:
    """Return how failures changed, whose the added time was, and what the handshakes of that time say."""
    yield from (sentence for verdict, sentence in failure_sentences(changed.comparison) if verdict is not Verdict.NOISE)
    owner = owner_words(changed.comparison)
    if owner:
        yield owner
    total = changed.recording.total()
    if total.handshakes:
        yield from (f"Of that time: {sentence}" for sentence in conclusion(total.handshakes, total.duration_s))
