# SPDX-License-Identifier: Apache-2.0
"""Reports of what was watched in windows only: sentences, as the counts of the report are those of the windows; and rows of
estimates."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Handshakes
from ssllatency.model.sampling import Basis, Estimate, Interval, Sampling
from ssllatency.reports.rows.parts import ESTIMATED
from ssllatency.units import counted, duration, seconds, share


@dataclass(frozen=True)
class SampledRow:
    """One function and outcome: its names, and the estimates as cells of HEADINGS."""

    names: tuple[str, str]
    cells: tuple[str, str]


_MOST_SHARE = 0.95  # more isn't told: a process that does nothing but call would show it
_DEARER = 1.2  # times as dear, which is worth a sentence
HEADINGS = ("function", "outcome", "estimated calls", "estimated p99")


def sampling_sentences(sampling: Sequence[Sampling]) -> list[str]:
    """Return which functions were watched for how much of the time, and at what price all of it could be."""
    sentences = []
    for part in sampling:
        names = ", ".join(part.functions) or "Functions of which no call was seen"
        if not part.duration_s:
            sentences.append(f"{names}: watched in windows to keep within the budget, none of which has ended yet.")
            continue
        watched = f"{share(part.watched_s, part.duration_s)} of the time ({seconds(part.watched_s)}"
        windows = f"in {counted(part.windows, 'window')}) to keep within the budget; the counts above are what was seen then."
        late = f" {counted(part.unfinished, 'call')} ran on after their window and aren't counted." if part.unfinished else ""
        sentences.append(f"{names}: watched {watched} {windows}{late}{_beside(part)}{_exact(part.exact_share)}")
    return sentences


def unprinted(sampling: Sequence[Sampling]) -> list[str]:
    """The sentences where calls are printed one by one, and none is estimated."""
    return [
        f"{', '.join(part.functions)}: calls were watched {share(part.watched_s, part.duration_s)} of the time"
        f" ({seconds(part.watched_s)} in {counted(part.windows, 'window')}) to keep within the budget."
        f"{_exact(part.exact_share)}"
        for part in sampling
        if part.functions and part.duration_s
    ]


def phases_sentence(handshakes: Handshakes, *, estimated: bool = True) -> str:
    """In how many handshakes the phases were watched, and at what price they could be in all; "" where they were. `estimated`:
    those of all are."""
    number = sum(group.count for group in handshakes.groups)
    if not (unphased := handshakes.unphased):
        return ""
    watched = f"{share(number - unphased, number)} of the handshakes ({number - unphased} of {number})"
    meaning = (
        f"what has a {ESTIMATED} is estimated from these"
        if estimated and unphased < number
        else "in the others they are part of rest"
    )
    exact = _exact(handshakes.exact_share) or " --exact watches them in all."
    return f"Phases but the private key's were watched in {watched} to keep within the budget: {meaning}.{exact}"


def _exact(exact_share: float | None) -> str:
    """Return how to watch all, and what that would cost; "" where it isn't known."""
    if exact_share is None:
        return ""
    cost = f"{'more than ' if exact_share > _MOST_SHARE else 'about '}{100 * min(exact_share, _MOST_SHARE):.0f} %"
    return f" --exact watches all the time, for {cost} of the CPU time of the process that pays most."


def _beside(part: Sampling) -> str:
    """The sentences beside those of the estimates, and of what windows cost."""
    by = {Basis.IO_CALLS: "read and write system calls", Basis.CPU_TIME: "CPU time"}.get(part.scaled_by)
    scaled = f" Estimates follow the processes' {by}, as these do less while they are watched." if by else ""
    slower = any(estimate.p99_ns and estimate.p99_ns.low == 0 for estimate in part.estimates)
    at_most = " Calls took longer than they would have unwatched: for p99 only an upper bound is known." if slower else ""
    if part.dearer < _DEARER:
        return scaled + at_most
    dearer = f" A hit cost {part.dearer:.1f} times what was measured at the start; the budget was kept by the higher figure."
    return scaled + at_most + dearer


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
    if interval.low == 0 and interval.high is not None:
        return f"at most {duration(interval.high)}"
    if interval.low is None or interval.high is None:
        return duration(interval.value)
    return f"{duration(interval.value)} ({duration(interval.low)} to {duration(interval.high)})"
