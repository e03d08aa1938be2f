# SPDX-License-Identifier: Apache-2.0
"""A condition, and whether it holds: of what has been measured lately, or in a whole run."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.snapshot import Snapshot
from ssllatency.watch.metrics import IntervalSample, Metric

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_SLACK = 0.25  # of an interval: intervals aren't exactly as long as they were meant to be


@dataclass(frozen=True)
class Threshold:
    """A figure and its limit. `over_s`: of the last so many seconds taken together; None for the last interval, or the run."""

    metric: Metric
    operator: str
    limit: float
    over_s: float | None = None

    @property
    def text(self) -> str:
        """The words of a condition."""
        return f"{self.metric.name} {self.bound}"

    @property
    def bound(self) -> str:
        """The bound that the figure is compared with: "> 50.0 ms for 10.0 s"."""
        over = f" for {self.over_s:g} s" if self.over_s is not None else ""
        return f"{self.operator} {self.metric.figure.shown(self.limit)}{over}"


@dataclass(frozen=True)
class ThresholdValue:
    """The value of a comparison's figure: None where it isn't known."""

    comparison: Threshold
    value: float | None

    @property
    def holds(self) -> bool:
        """Whether it is as the comparison says; what isn't known, isn't."""
        return self.value is not None and OPERATORS[self.comparison.operator](self.value, self.comparison.limit)

    @property
    def words(self) -> str:
        """The figure and its limit: "handshake p99 was 120 ms (> 50.0 ms for 10.0 s)"."""
        metric = self.comparison.metric
        value = "isn't known" if self.value is None else f"was {metric.figure.shown(self.value)}"
        return f"{metric.name} {value} ({self.comparison.bound})"


@dataclass(frozen=True)
class Condition:
    """Holds where all comparisons of one of its alternatives hold. `text` is as it was written."""

    text: str
    alternatives: tuple[tuple[Threshold, ...], ...]

    @property
    def comparisons(self) -> tuple[Threshold, ...]:
        """All of them, each once, in their order."""
        return tuple(dict.fromkeys(comparison for chain in self.alternatives for comparison in chain))

    @property
    def needs_functions(self) -> bool:
        """Whether it can't be told from handshakes alone."""
        return any(comparison.metric.subject.of_function for comparison in self.comparisons)

    def verdict(self, values: Mapping[Threshold, float | None]) -> tuple[ThresholdValue, ...]:
        """The readings of the first alternative that holds; () where none does."""
        for chain in self.alternatives:
            readings = tuple(ThresholdValue(comparison, values[comparison]) for comparison in chain)
            if all(reading.holds for reading in readings):
                return readings
        return ()


class Recent:
    """The samples of the last intervals that a condition needs, nothing else of them."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._samples: dict[Threshold, deque[IntervalSample]] = {comparison: deque() for comparison in condition.comparisons}

    def take(self, interval: Snapshot) -> tuple[ThresholdValue, ...]:
        """Adds an interval; the readings by which the condition holds now, () where it doesn't."""
        values = {}
        for comparison, samples in self._samples.items():
            samples.append(comparison.metric.subject.sample(interval))
            values[comparison] = self._value(comparison, samples)
        return self._condition.verdict(values)

    def _value(self, comparison: Threshold, samples: deque[IntervalSample]) -> float | None:
        """Of the time that the comparison is about; None until so much has been seen."""
        over_s = comparison.over_s or 0.0
        while len(samples) > 1 and sum(sample.seconds for sample in samples) - samples[0].seconds >= over_s - _SLACK:
            samples.popleft()
        covered = sum(sample.seconds for sample in samples) >= over_s - _SLACK
        return comparison.metric.figure.value(samples) if covered else None


def joined(readings: Sequence[ThresholdValue]) -> str:
    """The readings in words."""
    return " and ".join(reading.words for reading in readings)
