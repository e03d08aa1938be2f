# SPDX-License-Identifier: Apache-2.0
"""Input of a live view: readings of a running session, and what it groups them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cached_property

from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import Group, Label, LabelValue
from ssllatency.model.process_label import ProcessLabel
from ssllatency.model.snapshot import Snapshot

# What rows can stand for, beside the labels that handshakes are grouped by.
SERVICE, FUNCTION = "service", "function"
OTHER = "other"  # what is beyond the bound on rows
UNKNOWN = "unknown"


@dataclass(frozen=True)
class LiveReading:
    """Everything counted so far. `services` names the service of each process by its PID; `own_cpu_s` is the processor time
    that the tool itself has taken so far. `functions`: whether calls of functions are measured. `ended`: the processes that are
    told apart no more from this reading on, as model/live/ended.py has it; before anything is compared with an earlier reading,
    that has to be folded in the same way."""

    snapshot: Snapshot
    services: Mapping[int, str] = field(default_factory=dict)
    own_cpu_s: float = 0.0
    ended: Mapping[int, str] = field(default_factory=dict)
    functions: bool = True

    @cached_property
    def processes(self) -> frozenset[int]:
        """The processes that the snapshot tells apart."""
        return processes_of(self.snapshot)

    @property
    def at_s(self) -> float:
        """The time at which it was read, in seconds since the Unix epoch."""
        return datetime.fromisoformat(self.snapshot.started).timestamp() + self.snapshot.duration_s


def views(by: Sequence[Label], *, functions: bool = True) -> tuple[str, ...]:
    """The views that there are where handshakes are grouped by these labels: services first, functions last, where their calls
    are measured."""
    labels = [str(label) for label in by if label not in (Label.PROCESS, Label.RESUMED)]
    processes = [SERVICE, str(Label.PROCESS)] if Label.PROCESS in by else []
    return (*processes, *labels, *([FUNCTION] if functions else []))


def processes_of(snapshot: Snapshot) -> frozenset[int]:
    """The processes that a snapshot tells apart, targets that have done nothing among them."""
    groups = snapshot.handshakes.groups if snapshot.handshakes else ()
    of_groups = (group.process.pid for group in groups if group.process and group.process.pid)
    of_series = (series.pid for series in snapshot.series if series.pid)
    return frozenset((*(target.pid for target in snapshot.targets), *of_series, *of_groups))


def name_in(view: str, labels: Mapping[Label, LabelValue], services: Mapping[int, str]) -> str:
    """The name of the row to which handshakes of these labels belong; no labels are those beyond the bound on rows."""
    if not labels:
        return OTHER
    if view != SERVICE:
        return str(labels.get(Label(view)) or UNKNOWN)
    process = labels.get(Label.PROCESS)
    if not isinstance(process, ProcessLabel):
        return UNKNOWN
    return services.get(process.pid) or process.name or str(process)


def labels_of(group: Group) -> Mapping[Label, LabelValue]:
    """The labels of a group, none for those beyond the bound."""
    return {} if group.other else group.labels
