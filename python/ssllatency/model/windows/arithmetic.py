# SPDX-License-Identifier: Apache-2.0
"""Sums of what was seen in windows: of the intervals of one run, whose strata follow one another, and of several runs, whose
variances are added. What one measurement watched all the time counts as it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain

from ssllatency.errors import SsllatencyError
from ssllatency.model.sampling import Sampling, Stratum
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.windows.estimates import MOST_STRATA, basis_of, estimates, fewer

_GAP_S = 1.0  # between the intervals of one run at most

Chain = tuple[Stratum, ...]


def merge(measured: Sequence[Snapshot]) -> tuple[Sampling, ...]:
    """Merge what was seen in windows in any of the measurements. SsllatencyError where one doesn't hold what its
    estimates were made of."""
    ordered = sorted(measured, key=lambda snapshot: (snapshot.host, datetime.fromisoformat(snapshot.started)))
    return tuple(_merged(functions, ordered) for functions in _groups(ordered))


def _groups(measured: Sequence[Snapshot]) -> list[frozenset[str]]:
    """The functions that were in windows together, in any of the measurements."""
    groups: list[frozenset[str]] = []
    for functions in (frozenset(part.functions) for snapshot in measured for part in snapshot.sampling):
        shared = [group for group in groups if group & functions]
        groups = [group for group in groups if not group & functions]
        groups += [functions.union(*shared)] if functions else []
    return groups


def _merged(functions: frozenset[str], measured: Sequence[Snapshot]) -> Sampling:
    chains: list[Chain] = []
    before: Snapshot | None = None
    for snapshot in measured:
        own = _chains(functions, snapshot)
        if own and before and _follows(snapshot, before) and chains:
            chains[-1] = _short((*chains[-1], *own[0]))
            own = own[1:]
        chains += own
        before = snapshot
    parts = [part for snapshot in measured for part in snapshot.sampling if functions & set(part.functions)]
    strata = list(chain.from_iterable(chains))
    return Sampling(
        functions=tuple(sorted(functions)),
        watched_s=sum(stratum.watched_s for stratum in strata),
        duration_s=sum(stratum.length_s for stratum in strata),
        windows=sum(part.windows for part in parts),
        unfinished=sum(part.unfinished for part in parts),
        estimates=estimates(*chains),
        scaled_by=next((basis_of(own) for own in chains if any(stratum.in_part for stratum in own)), parts[0].scaled_by),
        chains=tuple(chains),
        dearer=max(part.dearer for part in parts),
        exact_share=max((part.exact_share for part in parts if part.exact_share is not None), default=None),
    )


def _chains(functions: frozenset[str], snapshot: Snapshot) -> list[Chain]:
    """The strata of these functions in one measurement: one stratum, where it watched them all the time."""
    parts = [part for part in snapshot.sampling if functions & set(part.functions)]
    if not parts:
        return [_all_watched(functions, snapshot)]
    for part in parts:
        if part.duration_s and not part.chains:
            raise SsllatencyError(
                f"{', '.join(part.functions)} of {snapshot.host} were watched in windows only, and it isn't told what was seen"
                " in each, so they can't be added up: measure again for that."
            )
    return [own for part in parts for own in part.chains if own]


def _all_watched(functions: frozenset[str], snapshot: Snapshot) -> Chain:
    calls: dict[tuple[str, str], dict[int, float]] = {}
    for series in snapshot.series:
        if series.function in functions:
            counts = calls.setdefault((series.function, series.outcome), {})
            for bucket, count in series.exponential.by_bucket.items():
                counts[bucket] = counts.get(bucket, 0.0) + count
    return (Stratum(snapshot.duration_s, snapshot.duration_s, calls),) if snapshot.duration_s > 0 else ()


def _follows(later: Snapshot, earlier: Snapshot) -> bool:
    """Whether the one begins where the other ends, as intervals of one run do."""
    began, before = datetime.fromisoformat(later.started), datetime.fromisoformat(earlier.started)
    return later.host == earlier.host and abs((began - before).total_seconds() - earlier.duration_s) <= _GAP_S


def _short(strata: Chain) -> Chain:
    while len(strata) > MOST_STRATA:
        strata = tuple(fewer(strata))
    return strata
