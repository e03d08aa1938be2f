# SPDX-License-Identifier: Apache-2.0
"""A measurement kept interval by interval: one run on one host, or several runs of any hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ssllatency.data_class import dataclass
from ssllatency.model.arithmetic.snapshots import merge
from ssllatency.model.snapshot import Snapshot


@dataclass(frozen=True)
class Run:
    """One run on one host: its intervals in order, at least one, each with what was counted in it.

    `version` is ssllatency's and `command` its command line, "" where not known; `interval_s` is None where not known. `notes`
    are sentences about the run itself: that it was cut short, for one. Raises ValueError where there is no interval.
    """

    intervals: tuple[Snapshot, ...]
    version: str = ""
    command: str = ""
    interval_s: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.intervals:
            raise ValueError("a run has at least one interval")

    @property
    def started(self) -> str:
        """The time at which the first interval began, RFC 3339."""
        return self.intervals[0].started

    def total(self) -> Snapshot:
        """All intervals added up exactly. What isn't a count (in flight, missing, notes) is the last interval's.

        The most that waited in an offload is the greatest that is known: where an interval's isn't, it was reached before.
        """
        return _as_it_ended(merge(*self.intervals), self)


@dataclass(frozen=True)
class Recording:
    """Runs, at least one. `label` is what to call the recording: the file's name, for one."""

    runs: tuple[Run, ...]
    label: str = ""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("a recording has at least one run")

    @classmethod
    def of(cls, intervals: Sequence[Snapshot], label: str = "") -> Recording:
        """The recording of one run that has these intervals."""
        return cls((Run(tuple(intervals)),), label)

    @property
    def intervals(self) -> tuple[Snapshot, ...]:
        """The intervals of all runs in the order in which they began. Those of different runs may be of the same time."""
        intervals = [interval for run in self.runs for interval in run.intervals]
        return tuple(sorted(intervals, key=lambda interval: datetime.fromisoformat(interval.started)))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, each once."""
        return tuple(dict.fromkeys(interval.host for interval in self.intervals))

    @property
    def started(self) -> str:
        """The time at which the first interval of all began, RFC 3339."""
        return self.intervals[0].started

    @property
    def duration_s(self) -> float:
        """The time traced in all: of runs at the same time, the sum. Counts divided by it are rates of one host."""
        return round(sum(interval.duration_s for interval in self.intervals), 6)

    def total(self) -> Snapshot:
        """Everything added up exactly, as model.arithmetic.snapshots.merge() adds up measurements."""
        return merge(*(run.total() for run in self.runs))


def _as_it_ended(added: Snapshot, run: Run) -> Snapshot:
    """The sum of a run's intervals with the state at its end, which isn't to be added up."""
    last = run.intervals[-1]
    handshakes = added.handshakes
    if handshakes and last.handshakes:
        offload = handshakes.offload
        if offload and last.handshakes.offload:
            offload = replace(offload, waiting=last.handshakes.offload.waiting, most_waiting=_most_waiting(run))
        ended = last.handshakes
        pending = ended.certificates_pending
        handshakes = replace(handshakes, in_flight=ended.in_flight, offload=offload, certificates_pending=pending)
    notes = (*last.notes, *run.notes)
    return replace(added, in_flight=last.in_flight, missing=last.missing, notes=notes, handshakes=handshakes)


def _most_waiting(run: Run) -> int | None:
    offloads = (
        interval.handshakes.offload for interval in run.intervals if interval.handshakes and interval.handshakes.offload
    )
    return max((offload.most_waiting for offload in offloads if offload.most_waiting is not None), default=None)
