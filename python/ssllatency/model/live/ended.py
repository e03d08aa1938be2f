# SPDX-License-Identifier: Apache-2.0
"""Counts of ended processes, added to their services: so the kernel's rows of them can be freed, and no count falls.

In a folded snapshot these processes are told apart no more. The value of the label process is "ended: SERVICE", without a PID;
their calls have the pid None, as those beyond the bound on processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.handshake_sums import add_alike, add_tallies
from ssllatency.model.arithmetic.snapshots import add_alike_series
from ssllatency.model.handshakes import Group, Handshakes, Label, Tallies
from ssllatency.model.process_label import ProcessLabel
from ssllatency.model.snapshot import Series, Snapshot


@dataclass(frozen=True)
class EndedCounts:
    """The counts of processes when they ended."""

    series: tuple[Series, ...] = ()
    groups: tuple[Group, ...] = ()
    tallies: Tallies = field(default_factory=Tallies)

    def plus(self, snapshot: Snapshot, ended: Mapping[int, str]) -> EndedCounts:
        """With what these processes have counted by a snapshot whose handshakes are told apart by process; the extremes, which
        are those of a time that is over, are left out. `ended` as for folded()."""
        handshakes = snapshot.handshakes or Handshakes(())
        groups = tuple(_without_extremes(group) for group in handshakes.groups if _process_of(group) in ended)
        series = tuple(replace(each, min_ns=None, max_ns=None) for each in snapshot.series if each.pid in ended)
        own = folded(replace(snapshot, series=series, handshakes=replace(handshakes, groups=groups)), ended)
        return EndedCounts(
            add_alike_series((*self.series, *own.series)),
            add_alike((*self.groups, *(own.handshakes or handshakes).groups)),
            add_tallies([self.tallies, *(tallies for pid, tallies in handshakes.by_process.items() if pid in ended)]),
        )

    def added_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot of what is in the kernel, with what isn't there any more."""
        handshakes = snapshot.handshakes
        if handshakes:
            tallies = add_tallies([Tallies(handshakes.causes, handshakes.keys, handshakes.mix), self.tallies])
            groups = add_alike((*handshakes.groups, *self.groups))
            handshakes = replace(handshakes, groups=groups, causes=tallies.causes, keys=tallies.keys, mix=tallies.mix)
        return replace(snapshot, series=add_alike_series((*snapshot.series, *self.series)), handshakes=handshakes)


def folded(snapshot: Snapshot, ended: Mapping[int, str]) -> Snapshot:
    """The snapshot with what these processes have counted as their services', and without them among its targets. `ended` gives
    the service of each; "": "other"."""
    if not ended:
        return snapshot
    handshakes = snapshot.handshakes
    if handshakes:
        groups = add_alike(_relabelled(group, ended) for group in handshakes.groups)
        handshakes = replace(handshakes, groups=groups, by_process={})
    series = (replace(series, pid=None) if series.pid in ended else series for series in snapshot.series)
    return replace(
        snapshot,
        series=add_alike_series(series),
        handshakes=handshakes,
        targets=tuple(target for target in snapshot.targets if target.pid not in ended),
    )


def _process_of(group: Group) -> int:
    return group.process.pid if group.process else 0


def _relabelled(group: Group, ended: Mapping[int, str]) -> Group:
    service = ended.get(_process_of(group))
    if service is None:
        return group
    if not service:
        return replace(group, labels={}, other=True)
    return replace(group, labels={**group.labels, Label.PROCESS: ProcessLabel.ended_in(service)})


def _without_extremes(group: Group) -> Group:
    return replace(group, parts={part: replace(times, min_ns=None, max_ns=None) for part, times in group.parts.items()})
