# SPDX-License-Identifier: Apache-2.0
"""Endings of handshakes: the line that counts them, why some didn't succeed, and the slowest of them."""

from __future__ import annotations

from ssllatency.model.handshakes import Cause, Ending, Handshakes, Single, wall_time_ns
from ssllatency.reports.rows.handshakes import endings as ending_rows
from ssllatency.reports.rows.handshakes.endings import SingleWords, cause_words, single_words
from ssllatency.reports.text.bars import split_bar
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.reports.words.marks import FAILURE
from ssllatency.units import counted, duration, share

_MOST_CAUSES = 10
_CELLS = 40


def summary(handshakes: Handshakes, duration_s: float, page: Page) -> list[str]:
    """Return how many handshakes, how many a second, and how they ended."""
    return page.wrapped(ending_rows.summary(handshakes, duration_s) or ending_rows.none_ended(duration_s))


def causes(handshakes: Handshakes, page: Page) -> list[str]:
    """Return why handshakes didn't succeed, the most frequent first. MEAN is their wall time."""
    rows = sorted((cause for cause in handshakes.causes if cause.count), key=lambda cause: (-cause.count, _why(cause)))
    if not rows:
        return []
    everything = sum(cause.count for cause in rows)
    shown, rest = rows[:_MOST_CAUSES], rows[_MOST_CAUSES:]
    cells = [[str(cause.count), share(cause.count, everything), duration(cause.mean_ns)] for cause in shown]
    texts = [_why(cause) for cause in shown]
    marks = [FAILURE if cause.ending is Ending.FAILURE else "" for cause in shown]
    if rest:
        number, total_ns = sum(cause.count for cause in rest), wall_time_ns(rest)
        cells.append([str(number), share(number, everything), duration(None if total_ns is None else total_ns / number)])
        texts.append(f"{counted(len(rest), 'other cause')}")
        marks.append("")
    return ["Not successful:", *page.explained([["COUNT", "SHARE", "MEAN"], *cells], ["WHY", *texts], ["", *marks])]


def _why(cause: Cause) -> str:
    return f"{ADJECTIVES[cause.ending]}: {cause_words(cause)}"


def slowest(handshakes: Handshakes, page: Page) -> list[str]:
    """A few lines a handshake: when and whose, how its client's wait was split, and what it was."""
    lines = [line for single in handshakes.slowest for line in single_lines(single, page)]
    return ["The slowest:", *lines] if lines else []


def single_lines(single: Single, page: Page) -> list[str]:
    """One handshake by itself: when and how it ended, how its client's wait was split, its queue, and what it was."""
    words = single_words(single)
    return [
        *page.wrapped(f"{words.waited}  {words.ended}  {words.process}, {words.ending}, {words.calls}", "  ", "    "),
        *page.wrapped(words.why, "    "),
        *_split(words, page),
        *page.wrapped(words.reasons, "    "),
        *page.wrapped(words.queue, "    "),
        *page.wrapped(words.labels, "    "),
    ]


def _split(words: SingleWords, page: Page) -> list[str]:
    if not words.times_ns:
        return []
    return [f"    {split_bar(words.times_ns, _CELLS, page)}", *page.wrapped(words.longest, "    ")]
