# SPDX-License-Identifier: Apache-2.0
"""The rows of a live view: what happened in some time, by service, process, label or function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import add_groups
from ssllatency.model.arithmetic.snapshots import ALL_PROCESSES, add_series
from ssllatency.model.handshakes import NO, YES, Ending, Group, Handshakes, Label, Part
from ssllatency.model.live.reading import FUNCTION, SERVICE, labels_of, name_in
from ssllatency.model.snapshot import Outcome, Series, Snapshot
from ssllatency.model.timed import Timed


@dataclass(frozen=True)
class LiveRow:
    """Handshakes of one kind, or calls of one function, in `duration_s` seconds.

    `count`: how many ended. `failed`: None where it isn't known how they ended, as of functions whose results tell nothing.
    `times`: the wall time of the successful ones, or of all where that isn't known; None where there are none. `resumed`: the
    part of the successful ones that were, `own`: the part of their wall time in calls, `key_ns`: the mean time in the private
    key of those that used one, `queue_ns`: in this server's queue, of those of which that is known; each None where it isn't
    known, as `retries`: calls that asked to be called again. `groups`: the handshakes by ending. `pids`: whose they are, as far
    as rows tell processes apart.
    """

    name: str
    duration_s: float
    count: int
    failed: int | None
    abandoned: int = 0
    times: Timed | None = None
    total_ns: int = 0
    resumed: float | None = None
    own: float | None = None
    key_ns: float | None = None
    queue_ns: float | None = None
    retries: int | None = None
    groups: Mapping[Ending, Group] | None = None
    pids: frozenset[int] = frozenset()

    @property
    def rate(self) -> float:
        """The number a second."""
        return self.count / self.duration_s if self.duration_s else 0.0


def rows(snapshot: Snapshot, view: str, services: Mapping[int, str]) -> list[LiveRow]:
    """The rows of a view, in no order; of what happened in the time of the snapshot, which is a difference."""
    if view == FUNCTION:
        return _function_rows(snapshot)
    handshakes = snapshot.handshakes
    by_name: dict[str, list[Group]] = {}
    for group in handshakes.groups if handshakes else ():
        by_name.setdefault(name_in(view, labels_of(group), services), []).append(group)
    return [_row(name, groups, snapshot, tells_processes=view in (SERVICE, Label.PROCESS)) for name, groups in by_name.items()]


def whole(snapshot: Snapshot) -> LiveRow:
    """All handshakes as one row."""
    groups = snapshot.handshakes.groups if snapshot.handshakes else ()
    retries = sum(series.count for series in snapshot.series if series.outcome is Outcome.RETRY)
    return _row_of("", list(groups), snapshot.duration_s, retries if snapshot.series else None)


def handshakes_of(row: LiveRow) -> Handshakes:
    """The handshakes of a row by themselves; what isn't told apart by row (causes, keys) is left out."""
    return Handshakes(groups=tuple((row.groups or {}).values()))


def _row(name: str, groups: list[Group], snapshot: Snapshot, *, tells_processes: bool) -> LiveRow:
    of_groups = [group.process.pid if group.process else 0 for group in groups if labels_of(group)]
    pids, ended = frozenset(pid for pid in of_groups if pid), 0 in of_groups
    retries = None
    # The calls of ended processes aren't told apart, and where no calls are measured there is none of them.
    if tells_processes and pids and not ended and snapshot.series:
        retried = (series for series in snapshot.series if series.outcome is Outcome.RETRY and series.pid in pids)
        retries = sum(series.count for series in retried)
    return _row_of(name, groups, snapshot.duration_s, retries, pids)


def _row_of(
    name: str, groups: list[Group], duration_s: float, retries: int | None, pids: frozenset[int] = frozenset()
) -> LiveRow:
    by_ending = {ending: [group for group in groups if group.ending is ending] for ending in Ending}
    added = {ending: add_groups(parts) for ending, parts in by_ending.items() if parts}
    success = added.get(Ending.SUCCESS)
    whole = success.whole if success else None
    counts = {ending: added[ending].count if ending in added else 0 for ending in Ending}
    return LiveRow(
        name,
        duration_s,
        count=sum(counts.values()),
        failed=counts[Ending.FAILURE],
        abandoned=counts[Ending.ABANDONED],
        times=whole,
        total_ns=whole.total_ns if whole else 0,
        resumed=_resumed(by_ending[Ending.SUCCESS]),
        own=success.parts[Part.CALLS].total_ns / whole.total_ns if success and whole and whole.total_ns else None,
        key_ns=_mean(success, Part.PRIVATE_KEY),
        queue_ns=_mean(success, Part.QUEUE),
        retries=retries,
        groups=added,
        pids=pids,
    )


def _resumed(groups: Iterable[Group]) -> float | None:
    counts = {YES: 0, NO: 0}
    for group in groups:
        value = labels_of(group).get(Label.RESUMED)
        if isinstance(value, str) and value in counts:
            counts[value] += group.count
    return counts[YES] / sum(counts.values()) if any(counts.values()) else None


def _mean(group: Group | None, part: Part) -> float | None:
    times = group.parts.get(part) if group else None
    return times.total_ns / times.count if times and times.count else None


def _function_rows(snapshot: Snapshot) -> list[LiveRow]:
    functions: dict[str, list[Series]] = {}
    for series in snapshot.series:
        functions.setdefault(series.function, []).append(series)
    return [_function_row(name, calls, snapshot.duration_s) for name, calls in functions.items()]


def _function_row(name: str, calls: list[Series], duration_s: float) -> LiveRow:
    counts = {outcome: sum(series.count for series in calls if series.outcome is outcome) for outcome in Outcome}
    times = [series for series in calls if series.outcome.may_be_success]
    known = not counts[Outcome.UNKNOWN]
    return LiveRow(
        name,
        duration_s,
        count=sum(counts.values()),
        failed=counts[Outcome.FAILURE] if known else None,
        times=add_series(times, ALL_PROCESSES) if times else None,
        total_ns=sum(series.total_ns for series in calls),
        retries=counts[Outcome.RETRY] if known else None,
        pids=frozenset(series.pid for series in calls if series.pid),
    )
