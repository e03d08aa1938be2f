# SPDX-License-Identifier: Apache-2.0
"""The comparison of two recordings as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Ending, Label, Part
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.model.statistics.resampling import Quantity

CONFIDENCE = 0.95
FUNCTION, PART = "function", "part"


class Verdict(StrEnum):
    """The verdict on a change. MORE and FEWER are for rates."""

    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more"
    FEWER = "fewer"
    NOISE = "no change beyond noise"
    UNKNOWN = "too few to tell"


@dataclass(frozen=True)
class ComparedSubject:
    """A subject of a comparison: a function's calls, or a part (or WALL) of handshakes, that ended so. `kind`: FUNCTION or
    PART."""

    kind: str
    name: str
    outcome: str


@dataclass(frozen=True)
class Change:
    """A quantity before and after: nanoseconds, or calls a second; None where not known. `ratio`: after to before.

    `low` and `high` bound the ratio with CONFIDENCE, by itself. `probability`: of a change as large by noise alone.
    """

    before: float | None
    after: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    probability: float | None = None
    verdict: Verdict = Verdict.UNKNOWN

    @property
    def leaning(self) -> Verdict:
        """SLOWER or FASTER where the bounds exclude "no change" and yet the verdict is NOISE; else the verdict. Bounds are
        those of this change alone; the verdict takes into account how many changes are judged together."""
        if self.verdict is Verdict.NOISE and self.low is not None and self.high is not None:
            if self.low > 1:
                return Verdict.SLOWER
            if self.high < 1:
                return Verdict.FASTER
        return self.verdict


@dataclass(frozen=True)
class SubjectComparison:
    """All quantities of a subject."""

    subject: ComparedSubject
    changes: Mapping[Quantity, Change]


@dataclass(frozen=True)
class EndingChange:
    """The number of handshakes that ended in this way, before and after, of how many in all; for this reason, and with this
    alert of the peer's, where these aren't "". `probability`: of a change of the share as large by chance alone."""

    ending: Ending
    reason: str
    alert: str
    counts: tuple[int, int]
    wholes: tuple[int, int]
    probability: float
    verdict: Verdict

    @property
    def shares(self) -> tuple[float, float]:
        """The share before and after."""
        return self.counts[0] / self.wholes[0], self.counts[1] / self.wholes[1]


@dataclass(frozen=True)
class ComparedGroup:
    """A group of handshakes by the labels that both recordings were grouped by; `other`: those beyond the bound on groups."""

    labels: tuple[tuple[Label, str | None], ...]
    other: bool = False


@dataclass(frozen=True)
class GroupComparison:
    """A group's successful handshakes, how many of all handshakes were its, and how many of its own failed; `failed` is None
    where it had none on either side."""

    group: ComparedGroup
    counts: tuple[int, int]
    changes: Mapping[Quantity, Change]
    failed: EndingChange | None


@dataclass(frozen=True)
class Contribution:
    """A phase or wait's share of the mean successful handshake, in nanoseconds, before and after; exact."""

    part: Part
    before_ns: Fraction
    after_ns: Fraction

    @property
    def change_ns(self) -> Fraction:
        """Its contribution to the change of the mean."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class Comparison:
    """Both totals; the rows, handshakes first; and what the change of the mean successful handshake is made of, exactly, the
    largest contribution first: empty where either side has none. `intervals`: how many either side has, at least. `whole`: what
    the contributions add up to, CLIENT_WAIT where that was measured of each handshake on both sides, else WALL. `endings`: how
    those that didn't succeed changed. `groups`: those of most handshakes, where both recordings were grouped by the same.
    `left_out`: the functions that either side watched in windows only, so that their counts aren't those of the duration."""

    before: Snapshot
    after: Snapshot
    rows: tuple[SubjectComparison, ...]
    contributions: tuple[Contribution, ...]
    intervals: int = 0
    whole: Part = Part.WALL
    endings: tuple[EndingChange, ...] = ()
    groups: tuple[GroupComparison, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def handshake(self) -> Change | None:
        """The change of the mean successful handshake's wall time; None where there was none on either side."""
        return self._mean_of(WALL)

    @property
    def client_wait(self) -> Change | None:
        """The change of the mean time that its client waited; None where that wasn't measured of each on both sides."""
        return self._mean_of(CLIENT_WAIT) if self.whole is Part.CLIENT_WAIT else None

    def _mean_of(self, subject: ComparedSubject) -> Change | None:
        return next((row.changes[Quantity.MEAN] for row in self.rows if row.subject == subject), None)

    @property
    def largest(self) -> Contribution | None:
        """The largest contribution to the change of the mean successful handshake, where it changed beyond noise."""
        change = self.client_wait or self.handshake
        changed = change and change.verdict in (Verdict.SLOWER, Verdict.FASTER)
        return self.contributions[0] if changed and self.contributions else None

    def worse(self, threshold: float) -> tuple[tuple[SubjectComparison, Quantity], ...]:
        """The subjects that are slower beyond noise, and by more than this fraction: mean or p99 of successful handshakes, and
        of the functions' calls that aren't known to have failed."""
        wholes = (WALL, CLIENT_WAIT) if self.whole is Part.CLIENT_WAIT else (WALL,)
        rows = [row for row in self.rows if row.subject in wholes or _is_call(row.subject)]
        return tuple(
            (row, quantity)
            for row in rows
            for quantity in (Quantity.MEAN, Quantity.P99)
            if row.changes[quantity].verdict is Verdict.SLOWER and (row.changes[quantity].ratio or 0) > 1 + threshold
        )


WALL = ComparedSubject(PART, str(Part.WALL), str(Ending.SUCCESS))
CLIENT_WAIT = ComparedSubject(PART, str(Part.CLIENT_WAIT), str(Ending.SUCCESS))


def _is_call(subject: ComparedSubject) -> bool:
    return subject.kind == FUNCTION and subject.outcome != Outcome.FAILURE
