# SPDX-License-Identifier: Apache-2.0
"""What was watched in windows only: sentences, as the counts of the report are those of the windows; and rows of estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ssllatency.model.sampling import Estimate, Interval, Sampling
from ssllatency.reports.words.units import counted, duration, seconds, share


@dataclass(frozen=True)
class SampledRow:
    """One function and outcome: its names, and the estimates as cells of HEADINGS."""

    names: tuple[str, str]
    cells: tuple[str, str]


HEADINGS = ("function", "outcome", "estimated calls", "estimated p99")


def sampling_sentences(sampling: Sequence[Sampling]) -> list[str]:
    """Which functions were watched for how much of the time."""
    sentences = []
    for part in sampling:
        names = ", ".join(part.functions) or "Functions of which no call was seen"
        if not part.duration_s:
            sentences.append(f"{names}: watched in windows to keep within the budget, none of which has ended yet.")
            continue
        watched = f"{share(part.watched_s, part.duration_s)} of the time ({seconds(part.watched_s)}"
        windows = f"in {counted(part.windows, 'window')}) to keep within the budget; the counts above are what was seen then."
        late = f" {counted(part.unfinished, 'call')} ran on after their window and aren't counted." if part.unfinished else ""
        sentences.append(f"{names}: watched {watched} {windows}{late}")
    return sentences


def sampling_rows(sampling: Sequence[Sampling]) -> list[SampledRow]:
    """The estimates, in the order of the functions' names."""
    return [_row(estimate) for part in sampling for estimate in part.estimates]


def _row(estimate: Estimate) -> SampledRow:
    p99 = _time(estimate.p99_ns) if estimate.p99_ns else "-"
    return SampledRow((estimate.function, str(estimate.outcome)), (_number(estimate.count), p99))


def _number(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.value:.0f}"
    return f"{interval.value:.0f} ({interval.low:.0f} to {interval.high:.0f})"


def _time(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return duration(interval.value)
    return f"{duration(interval.value)} ({duration(interval.low)} to {duration(interval.high)})"
