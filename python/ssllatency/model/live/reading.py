# SPDX-License-Identifier: Apache-2.0
"""What a live view is made of: readings of a running session, and what it groups them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ssllatency.model.handshakes import Group, Label
from ssllatency.model.snapshot import Snapshot

# What rows can stand for, beside the labels that handshakes are grouped by.
SERVICE, FUNCTION = "service", "function"
OTHER = "other"  # what is beyond the bound on rows
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Reading:
    """Everything counted so far. `services` names the service of each process by its PID; `own_cpu_s` is the processor time
    that the tool itself has taken so far."""

    snapshot: Snapshot
    services: Mapping[int, str] = field(default_factory=dict)
    own_cpu_s: float = 0.0

    @property
    def at_s(self) -> float:
        """When it was read, seconds since the Unix epoch."""
        return datetime.fromisoformat(self.snapshot.started).timestamp() + self.snapshot.duration_s


def views(by: Sequence[Label]) -> tuple[str, ...]:
    """What rows can stand for where handshakes are grouped by these labels: services first, functions last."""
    labels = [str(label) for label in by if label not in (Label.PROCESS, Label.RESUMED)]
    processes = [SERVICE, str(Label.PROCESS)] if Label.PROCESS in by else []
    return (*processes, *labels, FUNCTION)


def pid_of(process: str | None) -> int:
    """The PID in the value of the label process, "nginx(17)"; 0, which maps no library, where there is none."""
    digits = (process or "").rpartition("(")[2].rstrip(")")
    return int(digits) if digits.isdecimal() else 0


def name_in(view: str, labels: Mapping[Label, str | None], services: Mapping[int, str]) -> str:
    """What the row is called to which handshakes of these labels belong; no labels are those beyond the bound on rows."""
    if not labels:
        return OTHER
    if view != SERVICE:
        return labels.get(Label(view)) or UNKNOWN
    process = labels.get(Label.PROCESS) or UNKNOWN
    pid = pid_of(process)
    return services[pid] if pid in services else process.rpartition("(")[0] or process


def labels_of(group: Group) -> Mapping[Label, str | None]:
    """The labels of a group, none for those beyond the bound."""
    return {} if group.other else group.labels
