# SPDX-License-Identifier: Apache-2.0
"""The option --fail-if: a condition on a whole run, which decides about the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssllatency.model.snapshot import Snapshot
from ssllatency.output.printing import tell

if TYPE_CHECKING:
    from ssllatency.watch.condition import Condition
    from ssllatency.watch.metrics import IntervalSample

STATUS = 3


class FailIf:
    """Takes what is measured. Without a condition there is nothing to fail by."""

    def __init__(self, condition: Condition | None) -> None:
        self._condition = condition
        comparisons = condition.comparisons if condition else ()
        self._samples: dict[object, list[IntervalSample]] = {comparison: [] for comparison in comparisons}

    def take(self, snapshot: Snapshot) -> None:
        """The run, or an interval of it."""
        for comparison in self._condition.comparisons if self._condition else ():
            self._samples[comparison].append(comparison.metric.subject.sample(snapshot))

    def status(self) -> int:
        """The exit status: STATUS where the condition holds. Says on standard error by which figures it does, or which of them
        aren't known."""
        if self._condition is None:
            return 0
        from ssllatency.watch.condition import ThresholdValue, joined  # not before there is a condition

        values = {
            comparison: comparison.metric.figure.value(self._samples[comparison]) for comparison in self._condition.comparisons
        }
        readings = self._condition.verdict(values)
        if readings:
            tell(f"--fail-if holds: {joined(readings)}.")
            return STATUS
        unknown = [ThresholdValue(comparison, None) for comparison, value in values.items() if value is None]
        if unknown:
            tell(f"--fail-if doesn't hold, but {joined(unknown)}.")
        return 0
