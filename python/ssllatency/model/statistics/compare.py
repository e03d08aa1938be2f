# SPDX-License-Identifier: Apache-2.0
"""Compares two recordings: what changed, by how much, and whether that is more than noise.

A quantity's ratio is tested on the logarithm: by Student's t with Welch's degrees of freedom, the spread of either side being
the bootstrap's. As many are tested at a time, a change counts by Benjamini and Hochberg's rule: of all that are called a
change, 5 % at most are expected to be none; where nothing has changed at all, anything is called a change in 5 % of the cases.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.arithmetic.snapshots import by_function, merge, without_functions
from ssllatency.model.handshakes import PHASES, SAMPLED, WAITS, WINDOWED, Ending, Group, Part, whole_part
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import (
    CLIENT_WAIT,
    CONFIDENCE,
    FUNCTION,
    PART,
    Change,
    ComparedGroup,
    ComparedSubject,
    Comparison,
    Contribution,
    EndingChange,
    GroupComparison,
    SubjectComparison,
    Verdict,
)
from ssllatency.model.statistics.failures import ending_changes
from ssllatency.model.statistics.groups import compared_groups, counts, failed, successful_times
from ssllatency.model.statistics.resampling import BUCKET, QUANTILES, Block, Quantity, Sample, Spread, draws
from ssllatency.model.timed import Timed, quantile_ns
from ssllatency.model.windows.student import beyond, bound

_Subject = ComparedSubject | ComparedGroup
_Times = dict[_Subject, Timed]
_Row = TypeVar("_Row", SubjectComparison, GroupComparison)

_MOST_BLOCKS = 30
_RUNS_ENOUGH = 5
_FEWEST_FOR_RATE = 30
_FALSE = 0.05  # the share of the reported changes that may be noise
# The parts that are unknown or incomplete, by what is missing. A phase can also be missing by its own name.
UNTOLD_WITHOUT: dict[str, tuple[Part, ...]] = {
    "phases": tuple(phase for phase in PHASES if phase is not Part.REST),
    "tls_decrypt_ticket": (Part.SESSION_LOOKUP,),
    "lookup_sess_in_cache": (Part.SESSION_LOOKUP,),
    "EVP_CIPHER_CTX_new": (Part.SESSION_LOOKUP,),
    "client_hello_cb": (Part.CALLBACKS,),
    "servername_cb": (Part.CALLBACKS,),
    "alpn_select_cb": (Part.CALLBACKS,),
    "cert_cb": (Part.CALLBACKS,),
    "status_cb": (Part.CALLBACKS,),
    "app_verify_callback": (Part.CALLBACKS,),
    "new_session_cb": (Part.CALLBACKS,),
    "ticket_key_cb": (Part.CALLBACKS, Part.SESSION_LOOKUP),
    "offload": (Part.COMPLETION, Part.QUEUE_OFFLOAD),
}


def compare(before: Recording, after: Recording) -> Comparison:
    """The comparison of two recordings."""
    left_out = _in_windows(before) | _in_windows(after)
    sides = [
        _Side(_without(side, left_out), measures_functions=any(interval.series for interval in side.intervals))
        for side in (before, after)
    ]
    totals = sides[0].total, sides[1].total
    whole = whole_part(group for group in (_group(total, Ending.SUCCESS) for total in totals) if group)
    subjects = dict.fromkeys((*sides[0].subjects, *sides[1].subjects))
    if whole is Part.WALL:  # else one side doesn't have it, or it is the wall time
        subjects.pop(CLIENT_WAIT, None)
    if any(side.unphased for side in sides):  # what its times hold are those of phases that weren't watched, too
        for part in (Part.REST, Part.REST_ASLEEP):
            subjects.pop(ComparedSubject(PART, str(part), str(Ending.SUCCESS)), None)
    rows = [SubjectComparison(subject, _changes(subject, *sides)) for subject in subjects]
    return Comparison(
        *totals,
        tuple(_judged(rows)),
        _contributions(whole, *totals),
        intervals=min(len(list(side.intervals)) for side in (before, after)),
        whole=whole,
        endings=_endings(*totals),
        groups=tuple(_judged(_compared_groups(whole, *sides))),
        left_out=tuple(sorted(left_out)),
    )


def _in_windows(recording: Recording) -> set[str]:
    """The functions that it watched in windows only, at any time."""
    return {name for interval in recording.intervals for part in interval.sampling for name in part.functions}


def _without(recording: Recording, functions: Collection[str]) -> Recording:
    if not functions:
        return recording
    runs = [
        replace(run, intervals=tuple(without_functions(interval, functions) for interval in run.intervals))
        for run in recording.runs
    ]
    return replace(recording, runs=tuple(runs))


def _endings(before: Snapshot, after: Snapshot) -> tuple[EndingChange, ...]:
    return ending_changes(before.handshakes, after.handshakes) if before.handshakes and after.handshakes else ()


def _compared_groups(whole: Part, before: _Side, after: _Side) -> list[GroupComparison]:
    """The comparison of each group, its successful handshakes' times being those of `whole`."""
    sides = compared_groups(before.total, after.total)
    if sides:
        before.add_groups(whole)
        after.add_groups(whole)
    return [
        GroupComparison(group, counts(members), _changes(group, before, after), failed(members))
        for group, members in sides.items()
    ]


class _Side:
    """A recording cut into blocks. `measures_functions`: it does, of which those here may be left out."""

    def __init__(self, recording: Recording, *, measures_functions: bool) -> None:
        self._measures_functions = measures_functions
        self.total = recording.total()
        self._cut = _blocks(recording)
        self._blocks = [_subjects(block) for block in self._cut]
        self._draws = draws(len(self._blocks))
        self.subjects = _timed(self.total)
        self._totals = _subjects(self.total)
        group = _group(self.total, Ending.SUCCESS)
        self.unphased = group.unphased if group else 0

    def add_groups(self, whole: Part) -> None:
        """Make the groups of handshakes subjects of sample() and value()."""
        self._totals.update(successful_times(self.total, whole).items())
        for timed, block in zip(self._blocks, self._cut, strict=True):
            timed.update(successful_times(block, whole).items())

    def sample(self, subject: _Subject) -> Sample:
        """The calls of one kind."""
        blocks = zip(self._cut, self._blocks, strict=True)
        return Sample([Block(block.duration_s, timed.get(subject)) for block, timed in blocks], self._draws)

    def value(self, subject: _Subject, quantity: Quantity) -> float | None:
        """The quantity, as all reports have it."""
        timed = self._totals.get(subject)
        count = timed.exponential.count if timed else 0
        if quantity is Quantity.RATE:
            if self.unphased and isinstance(subject, ComparedSubject) and subject.kind == PART and subject.name in SAMPLED:
                return None
            measured = self.total.duration_s and (count or self._would_be_seen(subject))
            return count / self.total.duration_s if measured else None
        if not timed or not count:
            return None
        return timed.total_ns / count if quantity is Quantity.MEAN else quantile_ns(timed, float(QUANTILES[quantity]))

    def _would_be_seen(self, subject: _Subject) -> bool:
        """Whether what isn't in the recording didn't happen. Handshakes may have been measured without functions."""
        handshakes = self.total.handshakes
        if isinstance(subject, ComparedGroup):
            return handshakes is not None
        if subject.name in _untold(self.total):
            return False
        if subject.kind == FUNCTION:
            return self._measures_functions or handshakes is None
        return handshakes is not None and (subject.name not in (Part.ON_CPU, Part.OFF_CPU) or handshakes.off_cpu)


def _blocks(recording: Recording) -> list[Snapshot]:
    """The blocks to draw from: whole runs where there are enough; else groups of neighbouring intervals, as these are alike."""
    if len(recording.runs) >= _RUNS_ENOUGH:
        return [run.total() for run in recording.runs]
    intervals = list(recording.intervals)
    if len(intervals) > 1 and intervals[-1].duration_s < intervals[0].duration_s / 2:
        intervals[-2:] = [merge(*intervals[-2:])]
    number = min(_MOST_BLOCKS, len(intervals))
    edges = (position * len(intervals) // number for position in range(number + 1))
    return [merge(*intervals[start:end]) for start, end in pairwise(edges)]


def _timed(snapshot: Snapshot) -> dict[ComparedSubject, Timed]:
    """Everything in a snapshot that is compared."""
    timed: dict[ComparedSubject, Timed] = {}
    for ending in Ending:
        group = _group(snapshot, ending)
        wanted = list(Part) if ending is Ending.SUCCESS else [Part.WALL]
        for part, times in group.parts.items() if group else ():
            if part in wanted and times.count:
                timed[ComparedSubject(PART, str(part), str(ending))] = times
    for series in by_function(snapshot).series:
        if series.count:
            timed[ComparedSubject(FUNCTION, series.function, str(series.outcome))] = series
    return timed


def _subjects(snapshot: Snapshot) -> _Times:
    subjects: _Times = {}
    subjects.update(_timed(snapshot).items())
    return subjects


def _group(snapshot: Snapshot, ending: Ending) -> Group | None:
    return total(snapshot.handshakes, ending) if snapshot.handshakes else None


def _changes(subject: _Subject, before: _Side, after: _Side) -> dict[Quantity, Change]:
    samples = before.sample(subject), after.sample(subject)
    changes = {}
    for quantity in Quantity:
        change = Change(before.value(subject, quantity), after.value(subject, quantity))
        spreads = [sample.spread(quantity) for sample in samples]
        if quantity is Quantity.RATE and max(sample.count for sample in samples) < _FEWEST_FOR_RATE:
            spreads = [None, None]
        # What wasn't seen at all counts as half a call: it might have been rare.
        rarest = [0.5 / max(side.total.duration_s, 1e-6) for side in (before, after)]
        changes[quantity] = _tested(change, spreads, rarest, BUCKET if quantity in QUANTILES else 0.0)
    return changes


def _tested(change: Change, spreads: Sequence[Spread | None], least: Sequence[float], slack: float) -> Change:
    """The change with its ratio; where both spreads are known, with how sure that is. `slack`: what is lost to the buckets."""
    if change.before is None or change.after is None:
        return change
    whole = bool(change.before and change.after)
    if whole:
        change = replace(change, ratio=change.after / change.before)
    if None in spreads:
        return change
    step = math.log((change.after or least[1]) / (change.before or least[0]))
    deviation, degrees = _together([spread for spread in spreads if spread])
    gap = max(0.0, abs(step) - slack * 1.0001)  # neighbouring buckets are no change, whichever way their bounds are rounded
    t = gap / deviation if deviation else math.copysign(math.inf, gap) if gap else 0.0
    reach = bound(1 - CONFIDENCE, degrees) * deviation + slack
    limits = (math.exp(step - reach), math.exp(step + reach)) if whole else (None, None)
    return replace(change, low=limits[0], high=limits[1], probability=beyond(t, degrees))


def _together(spreads: Sequence[Spread]) -> tuple[float, float]:
    """The standard deviation of the difference, and its degrees of freedom as Welch estimates them."""
    both = sum(spread.variance for spread in spreads)
    doubt = sum(spread.variance**2 / spread.degrees for spread in spreads)
    return math.sqrt(both), both**2 / doubt if doubt else math.inf


def _judged(rows: Sequence[_Row]) -> list[_Row]:
    """The rows with a verdict on each change whose probability is known."""
    probabilities = sorted(
        change.probability for row in rows for change in row.changes.values() if change.probability is not None
    )
    passed = [
        probability for place, probability in enumerate(probabilities, 1) if probability <= _FALSE * place / len(probabilities)
    ]
    limit = max(passed, default=-1.0)
    return [
        replace(row, changes={key: _judged_change(key, change, limit) for key, change in row.changes.items()}) for row in rows
    ]


def _judged_change(quantity: Quantity, change: Change, limit: float) -> Change:
    if change.probability is None:
        return change
    if change.probability > limit or change.before == change.after:
        return replace(change, verdict=Verdict.NOISE)
    up, down = (Verdict.MORE, Verdict.FEWER) if quantity is Quantity.RATE else (Verdict.SLOWER, Verdict.FASTER)
    return replace(change, verdict=up if (change.after or 0) > (change.before or 0) else down)


def _untold(snapshot: Snapshot) -> set[str]:
    """The functions and parts that occurred but that this side couldn't measure."""
    missing = {missed.function for missed in snapshot.missing}
    return missing | {part for name in missing for part in UNTOLD_WITHOUT.get(name, ())}


def _contributions(whole: Part, before: Snapshot, after: Snapshot) -> tuple[Contribution, ...]:
    groups = [group.estimated for group in (_group(snapshot, Ending.SUCCESS) for snapshot in (before, after)) if group]
    if len(groups) < 2:
        return ()
    # What one side couldn't measure is part of its REST, so it is added to REST on the other side as well.
    untold = _untold(before) | _untold(after)
    hidden = {part for part in PHASES[:-1] if part in untold and any(part not in group.parts for group in groups)}
    if any(group.unphased and not group.phased for group in groups):
        hidden |= {*WINDOWED} & {*PHASES[:-1]}
    contributions = []
    early = (Part.QUEUE_START,) if whole is Part.CLIENT_WAIT else ()
    for part in (*early, *PHASES, *WAITS):
        within = {part, *hidden} if part is Part.REST else {part} - hidden
        means = [
            Fraction(sum(group.parts[piece].total_ns for piece in within & group.parts.keys()), group.count) for group in groups
        ]
        if any(means):
            contributions.append(Contribution(part, *means))
    change = sum((contribution.change_ns for contribution in contributions), Fraction())
    return tuple(
        sorted(contributions, key=lambda contribution: -contribution.change_ns if change > 0 else contribution.change_ns)
    )
