# SPDX-License-Identifier: Apache-2.0
"""The history of a recording as plain text, before its report: what was normal, when it changed, what changed first, who was
affected, whose the time was, and what the changed time's own handshakes say."""

from __future__ import annotations

from ssllatency.model.statistics.comparison import Verdict
from ssllatency.model.statistics.timeline import ChangedTime, Timeline
from ssllatency.reports.diagnosis.diagnosis import conclusion
from ssllatency.reports.rows.compared import failure_sentences
from ssllatency.reports.rows.timeline import (
    HEADINGS,
    MOST,
    calm_words,
    changed_words,
    normal_words,
    owner_words,
    rows,
    zone,
)
from ssllatency.reports.text.diff import affected, contributions
from ssllatency.reports.text.page import PLAIN, Page, joined
from ssllatency.reports.words.marks import FAILURE, FINDING
from ssllatency.units import counted


def render(told: Timeline, page: Page = PLAIN) -> str:
    """The timeline, ending in a newline. ASCII."""
    if told.changed is None:
        return joined([page.wrapped(calm_words(told), hanging="  ")])
    comparison = told.changed.comparison
    return joined(
        [
            page.wrapped(normal_words(told, told.changed), hanging="  "),
            page.wrapped(changed_words(told, told.changed), hanging="  "),
            _changes(told, page),
            _failures(told.changed, page),
            affected(comparison, page) if comparison.groups else [],
            contributions(comparison, page),
            page.wrapped(owner_words(comparison), hanging="  "),
            _diagnosis(told.changed, page),
        ]
    )


def _changes(told: Timeline, page: Page) -> list[str]:
    left = len(told.changes) - MOST
    more = page.wrapped(f"and {counted(left, 'change')} more", "  ") if left > 0 else []
    table = page.table([[heading.upper() for heading in HEADINGS], *rows(told)], left=3)
    return [f"What changed, in this order (times are {zone(told)}):", *table, *more]


def _failures(changed: ChangedTime, page: Page) -> list[str]:
    lines = []
    for verdict, sentence in failure_sentences(changed.comparison):
        if verdict is not Verdict.NOISE:
            wrapped = page.wrapped(sentence, "", "  ")
            lines += [page.marked(line, FAILURE) if verdict is Verdict.MORE else line for line in wrapped]
    return lines


def _diagnosis(changed: ChangedTime, page: Page) -> list[str]:
    """Return what is said of the handshakes of that time alone."""
    total = changed.recording.total()
    sentences = conclusion(total.handshakes, total.duration_s) if total.handshakes else []
    lines = [line for sentence in sentences for line in page.wrapped(f"==> {sentence}", "", "    ")]
    return ["Of that time:", *(page.marked(line, FINDING) for line in lines)] if lines else []
