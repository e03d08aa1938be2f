# SPDX-License-Identifier: Apache-2.0
"""A measurement as plain data: what engines produce and reports render.

Every value is immutable. Counts are cumulative from the start of the trace until a difference is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from ssllatency.data_class import dataclass
from ssllatency.model.cost import TracingCost
from ssllatency.model.histogram import ExponentialHistogram, LinearHistogram

if TYPE_CHECKING:
    from ssllatency.model.client import ClientReport
    from ssllatency.model.flight_recorder import FlightRecording
    from ssllatency.model.handshakes import Handshakes
    from ssllatency.model.sampling import Sampling


class Outcome(StrEnum):
    """The way in which a call ended: it did its work, it failed, it asked to be called again, or the peer had closed in good
    order; unknown where nothing that the function returns tells it."""

    SUCCESS = "success"
    FAILURE = "failure"
    RETRY = "retry"
    CLOSED = "closed"
    UNKNOWN = "unknown"

    @property
    def may_be_success(self) -> bool:
        """Whether a call that ended so did its work, or may have: how long such calls take is how long the function takes."""
        return self in (Outcome.SUCCESS, Outcome.UNKNOWN)


@dataclass(frozen=True)
class Series:
    """The calls of one function with one outcome in one process.

    Times are in nanoseconds. `pid` is None for processes folded into "other". `min_ns` and `max_ns` are None where they
    are not known exactly (an interval whose extremes fell on its border). `linear` is None where only the exponential histogram
    was kept. `reasons` says why calls that aren't
    successes were so: "WANT_READ", "SYSCALL", … or "unknown"; its values add up to the series' count, but it is empty where the
    outcome itself is unknown.
    """

    function: str
    outcome: Outcome
    pid: int | None
    total_ns: int
    min_ns: int | None
    max_ns: int | None
    exponential: ExponentialHistogram
    linear: LinearHistogram | None
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of calls."""
        return self.exponential.count


@dataclass(frozen=True)
class TracedLibrary:
    """A file that holds traced functions. `build_id` is hexadecimal, "" where the file has none; `version` may be "".
    `deleted`: by now another file, or none, is at `path`."""

    path: str
    build_id: str
    version: str
    deleted: bool = False


@dataclass(frozen=True)
class Target:
    """A traced process, and the traced files that it maps."""

    pid: int
    comm: str
    libraries: tuple[TracedLibrary, ...]


@dataclass(frozen=True)
class Missing:
    """A function that is not traced in a library, and why. The reason is a phrase without a full stop."""

    function: str
    library: str
    reason: str


@dataclass(frozen=True)
class Losses:
    """Counts of what was missed. All are counts; a report prints those that aren't zero.

    `unmatched_entries`: calls that began and were never seen to end (a thread that exited or jumped out inside).
    `unmatched_exits`: calls seen to end whose beginning was not seen (those that ran when the trace began, too).
    `map_full`: calls not counted because a kernel map was full. `events_dropped`: records that a ring buffer had no room
    for. `folded_processes`: processes counted under "other" because there were more than the maximum. `late_processes`: those
    that mapped a library before it could be traced, or became targets unseen: calls that they made until then aren't counted.
    `left`: calls of Go functions that a panic, or runtime.Goexit, has left, so that they never end.
    """

    unmatched_entries: int = 0
    unmatched_exits: int = 0
    map_full: int = 0
    events_dropped: int = 0
    folded_processes: int = 0
    late_processes: int = 0
    left: int = 0


@dataclass(frozen=True)
class Snapshot:
    """Everything one report is made of. `started` is RFC 3339 with a zone; `notes` are sentences for the reader.

    `handshakes` is None where they weren't measured, `client` where no load generator was run, `cost` where it isn't known what
    tracing has cost. `sampling`: what was seen in windows only, the counts of which in `series` are those of the windows.
    `flight_recordings`: what Java virtual machines told of Java's own TLS.
    """

    host: str
    kernel: str
    engine: str
    started: str
    duration_s: float
    targets: tuple[Target, ...]
    series: tuple[Series, ...]
    missing: tuple[Missing, ...] = ()
    losses: Losses = Losses()
    in_flight: int = 0
    notes: tuple[str, ...] = ()
    handshakes: Handshakes | None = None
    client: ClientReport | None = None
    cost: TracingCost | None = None
    sampling: tuple[Sampling, ...] = ()
    flight_recordings: tuple[FlightRecording, ...] = ()
