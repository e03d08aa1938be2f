# SPDX-License-Identifier: Apache-2.0
"""Metrics that a condition may be about: subjects (handshakes, their parts and endings, functions) and figures of them.

Of each interval a subject takes a sample; a figure is computed of the samples of several intervals, as if they had been one.
It is None where it isn't known: nothing was counted, or functions were watched in windows only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import add_times, total
from ssllatency.model.arithmetic.snapshots import by_function
from ssllatency.model.handshakes import (
    BEFORE,
    CLIENT_WAIT_PARTS,
    MEANWHILE,
    PHASES,
    SAMPLED,
    WAITS,
    YES,
    Ending,
    Group,
    Label,
    Part,
    Times,
)
from ssllatency.model.histogram import quantile_rank
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.model.timed import quantile_ns
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.units import duration, rate, share

_OVERFLOW_NS = 2.0**36  # what is longer than the histogram's last bucket counts as this


class Unit(Enum):
    """The unit that a figure is given in, and how its value is written."""

    TIME = "a time with its unit, such as 50ms"
    SHARE = "a percentage, such as 5%"
    RATE = "a number a second, such as 100/s"
    COUNT = "a whole number, such as 100"


@dataclass(frozen=True)
class IntervalSample:
    """Of one interval: how many there were, of how many, how long the interval was, and the durations. None: not known."""

    number: int | None
    whole: int | None
    seconds: float
    times: Times | None = None
    whole_ns: int = 0


@dataclass(frozen=True)
class MetricFigure:
    """A figure of a subject's samples, by the name that a condition has for it."""

    name: str
    unit: Unit
    value: Callable[[Sequence[IntervalSample]], float | None]

    def shown(self, value: float) -> str:
        """The value as people read it."""
        if self.unit is Unit.TIME:
            return duration(value)
        if self.unit is Unit.SHARE:
            return share(value, 1)
        return f"{rate(value)}/s" if self.unit is Unit.RATE else f"{value:.0f}"


@dataclass(frozen=True)
class MetricSubject:
    """A thing that is measured. `default` is the figure that is meant where none is named, "" where one must be. `of_function`:
    it is of calls of a function, not of handshakes."""

    name: str
    sample: Callable[[Snapshot], IntervalSample]
    figures: tuple[str, ...]
    default: str = ""
    of_function: bool = False


@dataclass(frozen=True)
class Metric:
    """A figure of a subject: "handshake p99"."""

    subject: MetricSubject
    figure: MetricFigure

    @property
    def name(self) -> str:
        """The name that it has in a condition."""
        return f"{self.subject.name} {self.figure.name}"


# --- figures


def _times(samples: Sequence[IntervalSample]) -> Times | None:
    present = [sample.times for sample in samples if sample.times and sample.times.count]
    return add_times(present) if present else None


def _quantile(q: float) -> Callable[[Sequence[IntervalSample]], float | None]:
    def value(samples: Sequence[IntervalSample]) -> float | None:
        times = _times(samples)
        if times is None:
            return None
        known = quantile_ns(times, q)
        if known is not None:
            return known
        return 0.0 if quantile_rank(q, times.count) <= times.exponential.underflow else _OVERFLOW_NS

    return value


def _mean(samples: Sequence[IntervalSample]) -> float | None:
    times = _times(samples)
    return times.total_ns / times.count if times else None


def _count(samples: Sequence[IntervalSample]) -> float | None:
    numbers = [sample.number for sample in samples if sample.number is not None]
    return sum(numbers) if len(numbers) == len(samples) else None


def _rate(samples: Sequence[IntervalSample]) -> float | None:
    count, seconds = _count(samples), sum(sample.seconds for sample in samples)
    return None if count is None or not seconds else count / seconds


def _share(samples: Sequence[IntervalSample]) -> float | None:
    known = [sample for sample in samples if sample.number is not None and sample.whole is not None]
    whole = sum(sample.whole or 0 for sample in known)
    return sum(sample.number or 0 for sample in known) / whole if whole else None


def _time_share(samples: Sequence[IntervalSample]) -> float | None:
    times, whole_ns = _times(samples), sum(sample.whole_ns for sample in samples)
    return (times.total_ns if times else 0) / whole_ns if whole_ns else None


_NAMED = {
    "mean": MetricFigure("mean", Unit.TIME, _mean),
    "min": MetricFigure("min", Unit.TIME, _quantile(0.0)),
    "max": MetricFigure("max", Unit.TIME, _quantile(1.0)),
    "count": MetricFigure("count", Unit.COUNT, _count),
    "rate": MetricFigure("rate", Unit.RATE, _rate),
    "share": MetricFigure("share", Unit.SHARE, _share),
    "time share": MetricFigure("share", Unit.SHARE, _time_share),
}
PERCENTILES = ("p50", "p90", "p99", "p999")
_TIMED = (*PERCENTILES, "mean", "min", "max", "rate", "count")
_COUNTED = ("share", "rate", "count")
_PERCENTILE = re.compile(r"p(\d\d)(?:\.?(\d))?")


def figure_of(subject: MetricSubject, word: str) -> MetricFigure | None:
    """The subject's figure of this name; None where it has none. Besides those that are listed, any percentile p01 to p999."""
    match = _PERCENTILE.fullmatch(word)
    if match and PERCENTILES[0] in subject.figures:
        name = "p" + match[1] + (match[2] or "")
        return MetricFigure(name, Unit.TIME, _quantile(float(f"0.{name[1:]}")))
    if word not in subject.figures:
        return None
    return _NAMED["time share" if word == "share" and PERCENTILES[0] in subject.figures else word]


# --- subjects


def _handshakes(snapshot: Snapshot) -> IntervalSample:
    """All that ended; the durations are those of the successful ones."""
    if snapshot.handshakes is None:
        return IntervalSample(None, None, snapshot.duration_s)
    ended = sum(group.count for group in snapshot.handshakes.groups)
    group = total(snapshot.handshakes, Ending.SUCCESS)
    return IntervalSample(ended, ended, snapshot.duration_s, group.parts[Part.WALL] if group else None)


# Those of which some lies before the wall time: their shares are of what clients wait for.
_OF_CLIENT_WAIT = (Part.QUEUE, Part.QUEUE_START, *MEANWHILE)


def _part(part: Part) -> Callable[[Snapshot], IntervalSample]:
    def sample(snapshot: Snapshot) -> IntervalSample:
        if snapshot.handshakes is None:
            return IntervalSample(None, None, snapshot.duration_s)
        group = total(snapshot.handshakes, Ending.SUCCESS)
        times = group.parts.get(part) if group else None
        whole_ns = group.total_ns(*(CLIENT_WAIT_PARTS if part in _OF_CLIENT_WAIT else (Part.WALL,))) if group else 0
        if group and group.unphased and (part in SAMPLED or part is Part.REST):
            return _sampled(group, part, snapshot.duration_s, whole_ns)
        return IntervalSample(times.count if times else 0, group.count if group else 0, snapshot.duration_s, times, whole_ns)

    return sample


def _sampled(group: Group, part: Part, seconds: float, whole_ns: int) -> IntervalSample:
    """Of phases that were watched in some handshakes only: their times in these; what remains of a handshake isn't known."""
    if part is Part.REST:
        return IntervalSample(None, None, seconds)
    return IntervalSample(None, None, seconds, group.parts.get(part), whole_ns * group.phased // group.count)


def _ending(ending: Ending) -> Callable[[Snapshot], IntervalSample]:
    def sample(snapshot: Snapshot) -> IntervalSample:
        if snapshot.handshakes is None:
            return IntervalSample(None, None, snapshot.duration_s)
        groups = snapshot.handshakes.groups
        number = sum(group.count for group in groups if group.ending is ending)
        return IntervalSample(number, sum(group.count for group in groups), snapshot.duration_s)

    return sample


def _left(snapshot: Snapshot) -> IntervalSample:
    """Abandoned, and the peer is known to have left first."""
    if snapshot.handshakes is None:
        return IntervalSample(None, None, snapshot.duration_s)
    causes = [cause for cause in snapshot.handshakes.causes if cause.ending is Ending.ABANDONED and cause.left_by_peer]
    ended = sum(group.count for group in snapshot.handshakes.groups)
    return IntervalSample(sum(cause.count for cause in causes), ended, snapshot.duration_s)


def _overflows(snapshot: Snapshot) -> IntervalSample:
    """Connections that found an accept queue full: no handshakes, so that they are no share of them."""
    known = snapshot.handshakes is not None and snapshot.handshakes.accept_queues is not None
    return IntervalSample(snapshot.handshakes.overflows if snapshot.handshakes and known else None, None, snapshot.duration_s)


def _resumed(snapshot: Snapshot) -> IntervalSample:
    if snapshot.handshakes is None:
        return IntervalSample(None, None, snapshot.duration_s)
    counts = snapshot.handshakes.mix.get(Label.RESUMED, {})
    return IntervalSample(counts.get(YES, 0), sum(counts.values()), snapshot.duration_s)


def _calls(function: str, outcome: Outcome) -> Callable[[Snapshot], IntervalSample]:
    """Calls of the function that ended so, of all but those that found it closed; of failures, of all but retries as well."""
    beside = {Outcome.CLOSED} if outcome is Outcome.RETRY else {Outcome.CLOSED, Outcome.RETRY}

    def sample(snapshot: Snapshot) -> IntervalSample:
        if any(function in part.functions for part in snapshot.sampling):
            return IntervalSample(None, None, snapshot.duration_s)
        calls = {series.outcome: series for series in by_function(snapshot).series if series.function == function}
        whole = sum(series.count for other, series in calls.items() if other not in beside)
        series = calls.get(outcome)
        times = Times(series.total_ns, series.min_ns, series.max_ns, series.exponential) if series else None
        return IntervalSample(series.count if series else 0, whole, snapshot.duration_s, times)

    return sample


_ENDINGS = {"failure": Ending.FAILURE, "abandoned": Ending.ABANDONED}
_OTHER_NAMES = {"handshakes": "handshake", "failures": "failure", "failed": "failure", "in calls": "calls"}
_OUTCOMES = {"failure": Outcome.FAILURE, "retry": Outcome.RETRY}

Subjects = dict[str, MetricSubject]


def handshake_subjects() -> Subjects:
    """Those of handshakes, by name."""
    processor = (Part.ON_CPU, Part.OFF_CPU, Part.OFF_CPU_RUNNABLE, Part.OFF_CPU_THROTTLED, Part.REST_ASLEEP, Part.ASSISTS)
    peer = (Part.ROUND_TRIPS, Part.LOSSES, Part.GONE)
    parts = (Part.CALLS, *PHASES, *WAITS, Part.QUEUE, *BEFORE, *MEANWHILE, *peer, *processor)
    subjects = [
        MetricSubject("handshake", _handshakes, _TIMED),
        *(MetricSubject(name, _ending(ending), _COUNTED, "share") for name, ending in _ENDINGS.items()),
        MetricSubject("peer left", _left, _COUNTED, "share"),
        MetricSubject("overflows", _overflows, ("rate", "count")),
        MetricSubject("resumed", _resumed, _COUNTED, "share"),
        *(MetricSubject(part.replace("_", " "), _part(part), (*_TIMED, "share")) for part in parts),
        MetricSubject("client wait", _part(Part.CLIENT_WAIT), _TIMED),
        MetricSubject("queue offload", _part(Part.QUEUE_OFFLOAD), (*_TIMED, "share")),
    ]
    return {subject.name: subject for subject in subjects}


def function_subjects() -> Subjects:
    """Those of functions, by name: "SSL_read", "SSL_read failure", "SSL_read retry". Of a function whose calls' outcome isn't
    known the first alone, of all its calls."""
    subjects: list[MetricSubject] = []
    for name, operation in BY_NAME.items():
        outcomes = _OUTCOMES if operation.tells_outcome else {}
        calls = _calls(name, Outcome.SUCCESS if operation.tells_outcome else Outcome.UNKNOWN)
        subjects.append(MetricSubject(name, calls, _TIMED, of_function=True))
        for word, outcome in outcomes.items():
            subjects.append(MetricSubject(f"{name} {word}", _calls(name, outcome), _COUNTED, "share", of_function=True))
    return {subject.name: subject for subject in subjects}


def subject_of(subjects: Subjects, words: str) -> MetricSubject | None:
    """The subject of this name, or of another name for it."""
    return subjects.get(words) or subjects.get(_OTHER_NAMES.get(words, words))
