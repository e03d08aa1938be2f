# SPDX-License-Identifier: Apache-2.0
"""Groups of handshakes of two recordings that were grouped by the same labels: which there are, and how their shares of
failures changed."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.model.arithmetic.handshake_sums import add_groups, without
from ssllatency.model.handshakes import Ending, Group, Handshakes, Label, Part
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.comparison import ComparedGroup, EndingChange
from ssllatency.model.statistics.failures import share_change
from ssllatency.model.timed import Timed

_MOST = 20

_Grouped = dict[ComparedGroup, list[Group]]


def labels_of(snapshot: Snapshot) -> tuple[Label, ...]:
    """The labels that can tell groups apart in both of two recordings: not processes, which are others each time."""
    by = snapshot.handshakes.by if snapshot.handshakes else ()
    return tuple(label for label in by if label is not Label.PROCESS)


def compared_groups(before: Snapshot, after: Snapshot) -> dict[ComparedGroup, tuple[list[Group], list[Group]]]:
    """The groups of most handshakes, before and after, the largest first; none where the two weren't grouped by the same."""
    if not labels_of(before) or labels_of(before) != labels_of(after):
        return {}
    sides = _grouped(before), _grouped(after)
    numbers = {group: tuple(map(_count, (side.get(group, []) for side in sides))) for group in {**sides[1], **sides[0]}}
    largest = sorted(numbers, key=lambda group: (group.other, -sum(numbers[group])))[:_MOST]
    return {group: (sides[0].get(group, []), sides[1].get(group, [])) for group in largest}


def successful_times(snapshot: Snapshot, whole: Part) -> dict[ComparedGroup, Timed]:
    """Return the times that the successful handshakes of each group took."""
    times: dict[ComparedGroup, Timed] = {}
    for group, members in _grouped(snapshot).items() if labels_of(snapshot) else ():
        successful = [member for member in members if member.ending is Ending.SUCCESS and whole in member.parts]
        if successful:
            times[group] = add_groups(successful).parts[whole]
    return times


def counts(sides: Sequence[Sequence[Group]]) -> tuple[int, int]:
    """Return how many handshakes there were on either side."""
    return _count(sides[0]), _count(sides[1])


def failed(sides: Sequence[Sequence[Group]]) -> EndingChange | None:
    """Return how the group's share of failed handshakes changed; None where it had none, or no handshakes on one side."""
    wholes = counts(sides)
    failures = [sum(group.count for group in side if group.ending is Ending.FAILURE) for side in sides]
    return share_change(Ending.FAILURE, failures, wholes) if all(wholes) and any(failures) else None


def _grouped(snapshot: Snapshot) -> _Grouped:
    grouped: _Grouped = {}
    for group in _plain(snapshot.handshakes).groups if snapshot.handshakes else ():
        if group.count:
            labels = () if group.other else tuple((label, group.text(label)) for label in labels_of(snapshot))
            grouped.setdefault(ComparedGroup(labels, group.other), []).append(group)
    return grouped


def _plain(handshakes: Handshakes) -> Handshakes:
    return without(handshakes, Label.PROCESS) if Label.PROCESS in handshakes.by else handshakes


def _count(groups: Sequence[Group]) -> int:
    return sum(group.count for group in groups)
