# SPDX-License-Identifier: Apache-2.0
"""Words of a page about the change between two recordings: sentences about all of it, and a verdict for each row."""

from __future__ import annotations

from collections.abc import Mapping

from ssllatency.model.handshakes import Part
from ssllatency.model.statistics.comparison import FUNCTION, PART, Change, Comparison, Verdict
from ssllatency.model.statistics.resampling import Quantity
from ssllatency.reports.html.blocks import FindingMark, MarkedSentence
from ssllatency.reports.html.tables import Verdicts
from ssllatency.reports.rows.changes import differences, handshake_words, interval, leaning, percent
from ssllatency.reports.rows.compared import failure_sentences, group_changes, left_out_words
from ssllatency.reports.words.parts import PARTS

_ENDING_MARKS = {Verdict.MORE: FindingMark.BAD, Verdict.FEWER: FindingMark.GOOD, Verdict.NOISE: FindingMark.GOOD}
_MARKS = {Verdict.SLOWER: FindingMark.BAD, Verdict.FASTER: FindingMark.GOOD, Verdict.NOISE: FindingMark.GOOD}


def findings(comparison: Comparison) -> list[MarkedSentence]:
    """The change of the mean handshake, and what else is different."""
    others = [
        MarkedSentence(FindingMark.LOOK, f"Different: {phrase}.") for phrase in differences(comparison.before, comparison.after)
    ]
    if unseen := left_out_words(comparison):
        others.append(MarkedSentence(FindingMark.LOOK, unseen))
    words, change = handshake_words(comparison), comparison.client_wait or comparison.handshake
    failures = [MarkedSentence(_ENDING_MARKS[verdict], sentence) for verdict, sentence in failure_sentences(comparison)]
    if not words or change is None:
        return [*failures, *others]
    sure = change.leaning is change.verdict
    mark = _MARKS.get(change.verdict, FindingMark.LOOK) if sure else FindingMark.LOOK
    return [MarkedSentence(mark, words), *failures, *_affected(comparison), *others]


def _affected(comparison: Comparison) -> list[MarkedSentence]:
    """The group that it affects most, in a sentence; the table of groups has the others."""
    made = group_changes(comparison)
    if not made.rows:
        return []
    names, (handshakes, failed, mean, words), worse = made.rows[0]
    group = ", ".join(filter(None, names))
    sentence = f"Affected most: {group}: {words} (handshakes {handshakes}, failed {failed}, mean {mean})."
    return [MarkedSentence(FindingMark.BAD if worse else FindingMark.LOOK, sentence)]


def part_verdicts(comparison: Comparison, ending: str, names: Mapping[Part, str] = PARTS) -> Verdicts:
    """The change of the mean of each part of handshakes that ended in this way, by the part's words."""
    rows = [row for row in comparison.rows if row.subject.kind == PART and row.subject.outcome == ending]
    return {(names[Part(row.subject.name)],): _words(row.changes[Quantity.MEAN]) for row in rows}


def function_verdicts(comparison: Comparison) -> Verdicts:
    """The change of the mean of each function's calls, by name and outcome."""
    rows = [row for row in comparison.rows if row.subject.kind == FUNCTION]
    return {(row.subject.name, row.subject.outcome): _words(row.changes[Quantity.MEAN]) for row in rows}


def _words(change: Change) -> tuple[str, str]:
    """The change in percent; the verdict on it, with the bounds that it lies between with 95 % confidence."""
    bounds = f" ({interval(change)})" if change.low is not None and change.high is not None else ""
    probably = leaning(Quantity.MEAN, change)
    return percent(change.ratio), f"{f'probably {probably}' if probably else change.verdict}{bounds}"
