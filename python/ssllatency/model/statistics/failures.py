# SPDX-License-Identifier: Apache-2.0
"""Whether more handshakes end badly than before, in all and by reason: Fisher's exact test of the two shares.

It takes handshakes to fail independently of each other. One client that tries again and again makes a change look surer than
it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ssllatency.model.handshakes import Cause, Ending, Handshakes
from ssllatency.model.statistics.comparison import EndingChange, Verdict

_FALSE = 0.01  # the probability under which more or fewer failures are no chance
_MOST_TERMS = 2000  # beyond so many failures the normal distribution is as good
_SLACK = 1 + 1e-9


def ending_changes(before: Handshakes, after: Handshakes) -> tuple[EndingChange, ...]:
    """Return how the handshakes that didn't succeed changed: of each ending in all, then of each of its reasons, the largest
    change first."""
    wholes = _count(before), _count(after)
    if not all(wholes):
        return ()
    return tuple(
        change for ending in (Ending.FAILURE, Ending.ABANDONED) for change in _of_ending(ending, before, after, wholes)
    )


def share_change(
    ending: Ending, counts: Sequence[int], wholes: Sequence[int], reason: str = "", alert: str = ""
) -> EndingChange:
    """The change of the share of handshakes that ended so; `wholes`: all handshakes on either side."""
    probability = chance(counts, wholes)
    more = counts[1] * wholes[0] > counts[0] * wholes[1]
    verdict = Verdict.NOISE if probability > _FALSE else Verdict.MORE if more else Verdict.FEWER
    return EndingChange(ending, reason, alert, (counts[0], counts[1]), (wholes[0], wholes[1]), probability, verdict)


def chance(counts: Sequence[int], wholes: Sequence[int]) -> float:
    """The probability that two shares differ by as much as these, or more, where nothing has changed."""
    failed, everything = sum(counts), sum(wholes)
    least, most = max(0, failed - wholes[1]), min(failed, wholes[0])
    if most - least > _MOST_TERMS:
        return _normal(counts, wholes)
    logarithms = [
        _choose(wholes[0], number) + _choose(wholes[1], failed - number) - _choose(everything, failed)
        for number in range(least, most + 1)
    ]
    observed = logarithms[counts[0] - least]
    return min(1.0, math.fsum(math.exp(term) for term in logarithms if term <= observed + math.log(_SLACK) + 1e-7))


def _normal(counts: Sequence[int], wholes: Sequence[int]) -> float:
    pooled = sum(counts) / sum(wholes)
    variance = pooled * (1 - pooled) * sum(1 / whole for whole in wholes)
    gap = abs(counts[0] / wholes[0] - counts[1] / wholes[1])
    return math.erfc(gap / math.sqrt(2 * variance)) if variance else 1.0


def _choose(whole: int, part: int) -> float:
    """The logarithm of in how many ways."""
    return math.lgamma(whole + 1) - math.lgamma(part + 1) - math.lgamma(whole - part + 1)


def _of_ending(ending: Ending, before: Handshakes, after: Handshakes, wholes: Sequence[int]) -> Iterator[EndingChange]:
    counts = [sum(group.count for group in side.groups if group.ending is ending) for side in (before, after)]
    if not any(counts):
        return
    yield share_change(ending, counts, wholes)
    reasons = [_reasons(side.causes, ending) for side in (before, after)]
    changes = [
        share_change(ending, [side[key] for side in reasons], wholes, *key) for key in dict.fromkeys((*reasons[1], *reasons[0]))
    ]
    yield from sorted(changes, key=lambda change: -abs(change.shares[1] - change.shares[0]))


def _reasons(causes: Sequence[Cause], ending: Ending) -> Counter[tuple[str, str]]:
    """Return how many for each reason and alert that the peer sent."""
    reasons = Counter[tuple[str, str]]()
    for cause in causes:
        if cause.ending is ending and cause.count:
            reasons[cause.reason, "" if cause.sent else cause.alert] += cause.count
    return reasons


def _count(handshakes: Handshakes) -> int:
    return sum(group.count for group in handshakes.groups)
